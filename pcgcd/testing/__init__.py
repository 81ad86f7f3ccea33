"""Laws for everything that you can add to pcgcd, for your tests to inherit.

A test class that inherits from one of the ``...Laws`` and says how its subject is created runs the
whole suite under pytest: :class:`OperatorLaws`, :class:`SemiringLaws`, :class:`LayerLaws` and
:class:`CircuitLaws` for circuits; :class:`ConstraintLaws`, :class:`ProposalLaws`,
:class:`PotentialLaws`, :class:`ResamplerLaws` and :class:`LanguageModelLaws` for decoding.
Without pytest, :func:`run_laws` runs a suite. :class:`World` and :class:`TextWorld` are the
oracles: they answer by summing over all strings.
"""

from __future__ import annotations

from pcgcd.testing.circuits import CircuitLaws
from pcgcd.testing.constraints import ConstraintLaws
from pcgcd.testing.language_models import LanguageModelLaws
from pcgcd.testing.layers import LayerLaws
from pcgcd.testing.operators import OperatorLaws
from pcgcd.testing.paths import brute_force_best_path, brute_force_unit_posteriors
from pcgcd.testing.potentials import PotentialLaws
from pcgcd.testing.proposals import ProposalLaws
from pcgcd.testing.resamplers import ResamplerLaws
from pcgcd.testing.running import run_laws
from pcgcd.testing.semirings import SemiringLaws
from pcgcd.testing.texts import TextWorld
from pcgcd.testing.worlds import World, all_strings, enumerate_values, partial_strings

__all__ = [
    "CircuitLaws",
    "ConstraintLaws",
    "LanguageModelLaws",
    "LayerLaws",
    "OperatorLaws",
    "PotentialLaws",
    "ProposalLaws",
    "ResamplerLaws",
    "SemiringLaws",
    "TextWorld",
    "World",
    "all_strings",
    "brute_force_best_path",
    "brute_force_unit_posteriors",
    "enumerate_values",
    "partial_strings",
    "run_laws",
]
