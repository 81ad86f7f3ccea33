"""Every error that pcgcd raises on purpose.

Each message says what was expected, what was found, and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "AmbiguousAutomatonError",
    "AmbiguousAutomatonWarning",
    "AutomatonTooLargeError",
    "CheckpointError",
    "CircuitTooLargeError",
    "DeadEndError",
    "EmptyLanguageError",
    "ImpossibleEvidenceError",
    "InvalidParameterError",
    "LoweredBoundWarning",
    "MissingDependencyError",
    "PcgcdError",
    "StructuralPropertyError",
    "UnknownKeywordWarning",
    "UnsupportedConstraintError",
    "VocabularyMismatchError",
]


class PcgcdError(Exception):
    """The root of all errors of this library."""


class InvalidParameterError(PcgcdError, ValueError):
    """An argument has the wrong shape, type or range."""


class StructuralPropertyError(PcgcdError):
    """A query or an operation needs a structural property that the circuit lacks."""


class VocabularyMismatchError(PcgcdError):
    """Two objects, or a token and an object, disagree about the vocabulary."""


class AmbiguousAutomatonError(StructuralPropertyError):
    """An automaton accepts some string along several paths where one path is needed."""


class AmbiguousAutomatonWarning(UserWarning):
    """A product weighs strings by their number of accepting paths."""


class EmptyLanguageError(PcgcdError):
    """No string has positive weight: none at all, or none of the length asked for.

    Attributes:
        length: The length that was asked for, if one was.
        shortest_length: The smallest length that would do, if there is one and it is known.
    """

    def __init__(
        self, message: str, *, length: int | None = None, shortest_length: int | None = None
    ) -> None:
        """Keep the two lengths beside the sentence that names them."""
        super().__init__(message)
        self.length = length
        self.shortest_length = shortest_length


class ImpossibleEvidenceError(EmptyLanguageError):
    """A conditional was asked for, given evidence that has probability zero."""


class DeadEndError(PcgcdError):
    """The language model gives probability zero to every way on that a constraint allows."""


class UnsupportedConstraintError(PcgcdError):
    """A constraint uses a feature that cannot be honoured."""


class LoweredBoundWarning(UserWarning):
    """A bound of a schema was lowered, since an automaton that counts so far is too large."""


class UnknownKeywordWarning(UserWarning):
    """A schema has what is no keyword of JSON Schema, so nothing follows from it."""


class CheckpointError(PcgcdError):
    """A stored model is truncated, foreign, or inconsistent."""


class AutomatonTooLargeError(PcgcdError):
    """A construction passed its limit of states."""


class MissingDependencyError(PcgcdError, ImportError):
    """An optional package that this needs is not installed; the message says how to get it."""


class CircuitTooLargeError(PcgcdError):
    """Something lazy would have to be written out, and is larger than the limit."""
