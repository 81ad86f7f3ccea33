"""The number systems that circuits compute in.

| name | elements | a sum of products is |
|---|---|---|
| ``REAL`` | mantissa and exponent | a probability, a weight (the default) |
| ``LOG`` | logarithms | the same, in log space |
| ``BOOLEAN`` | true, false | "is it possible?" (GCD) |
| ``COUNTING`` | integers of any size | a number of paths |
| ``MAXIMUM`` | logarithms | the weight of the best path (Viterbi) |
| ``LINEAR`` | plain floats | a weight, with no protection against underflow |
"""

from __future__ import annotations

from pcgcd.circuits.semirings.base import Semiring, Value
from pcgcd.circuits.semirings.counting import Counting, Integers
from pcgcd.circuits.semirings.log import Log, Maximum
from pcgcd.circuits.semirings.real import Real, Scaled
from pcgcd.circuits.semirings.tensors import Boolean, Linear

__all__ = [
    "BOOLEAN",
    "COUNTING",
    "LINEAR",
    "LOG",
    "MAXIMUM",
    "REAL",
    "Boolean",
    "Counting",
    "Integers",
    "Linear",
    "Log",
    "Maximum",
    "Real",
    "Scaled",
    "Semiring",
    "Value",
]

REAL = Real()
LOG = Log()
BOOLEAN = Boolean()
COUNTING = Counting()
MAXIMUM = Maximum()
LINEAR = Linear()
