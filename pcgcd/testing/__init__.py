"""Laws that operators, semirings, layers and circuits must satisfy, for your tests to inherit.

A test class that inherits from :class:`OperatorLaws`, :class:`SemiringLaws`, :class:`LayerLaws`
or :class:`CircuitLaws` and says how its subject is created runs the whole suite under pytest.
:class:`World` is the oracle behind the last: it answers every query by summing over all strings.
"""

from __future__ import annotations

from pcgcd.testing.circuits import CircuitLaws
from pcgcd.testing.layers import LayerLaws
from pcgcd.testing.operators import OperatorLaws
from pcgcd.testing.paths import brute_force_best_path, brute_force_unit_posteriors
from pcgcd.testing.semirings import SemiringLaws
from pcgcd.testing.worlds import World, all_strings, enumerate_values, partial_strings

__all__ = [
    "CircuitLaws",
    "LayerLaws",
    "OperatorLaws",
    "SemiringLaws",
    "World",
    "all_strings",
    "brute_force_best_path",
    "brute_force_unit_posteriors",
    "enumerate_values",
    "partial_strings",
]
