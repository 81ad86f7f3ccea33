"""Pictures of automata, circuits, messages, particles and measurements, as matplotlib figures.

``figure_*`` makes a figure of its own, ``draw_*`` draws into axes that you have, ``save`` writes a
file. Nothing here touches pyplot, so no window opens and no global state changes.
"""

from __future__ import annotations

from pcgcd.viz.automaton import draw_automaton, figure_automaton
from pcgcd.viz.circuit import draw_circuit, figure_circuit
from pcgcd.viz.collapsing import collapsed, figure_constraint
from pcgcd.viz.files import save
from pcgcd.viz.genealogy import draw_genealogy, figure_genealogy
from pcgcd.viz.generation import draw_effective_sizes, draw_valid, figure_methods
from pcgcd.viz.messages import draw_messages, figure_messages
from pcgcd.viz.overview import figure_overview
from pcgcd.viz.series import draw_convergence, draw_runtime, figure_convergence, figure_runtime
from pcgcd.viz.style import token_names
from pcgcd.viz.tensors import automaton_matrices, draw_matrix, figure_tensors

__all__ = [
    "automaton_matrices",
    "collapsed",
    "draw_automaton",
    "draw_circuit",
    "draw_convergence",
    "draw_effective_sizes",
    "draw_genealogy",
    "draw_matrix",
    "draw_messages",
    "draw_runtime",
    "draw_valid",
    "figure_automaton",
    "figure_circuit",
    "figure_constraint",
    "figure_convergence",
    "figure_genealogy",
    "figure_messages",
    "figure_methods",
    "figure_overview",
    "figure_runtime",
    "figure_tensors",
    "save",
    "token_names",
]
