"""Pictures of automata, of their tensors and of messages, as matplotlib figures.

``figure_*`` makes a figure of its own, ``draw_*`` draws into axes that you have. Nothing here
touches pyplot, so no window opens and no global state changes.
"""

from __future__ import annotations

from pcgcd.viz.automaton import draw_automaton, figure_automaton
from pcgcd.viz.files import save
from pcgcd.viz.generation import draw_effective_sizes, draw_valid, figure_methods
from pcgcd.viz.messages import draw_messages, figure_messages
from pcgcd.viz.overview import figure_overview
from pcgcd.viz.tensors import automaton_matrices, draw_matrix, figure_tensors

__all__ = [
    "automaton_matrices",
    "draw_automaton",
    "draw_effective_sizes",
    "draw_matrix",
    "draw_messages",
    "draw_valid",
    "figure_automaton",
    "figure_messages",
    "figure_methods",
    "figure_overview",
    "figure_tensors",
    "save",
]
