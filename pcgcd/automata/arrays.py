"""Read-only arrays, and checks of the numbers that automata are made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from pcgcd.basics.numbers import is_whole_number
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Weights: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


def frozen(array: Any, dtype: Any = None) -> Any:
    """A read-only copy."""
    result = np.array(array, dtype=dtype, order="C")
    result.flags.writeable = False
    return result


def joined(parts: list[Any]) -> Any:
    """Join arrays, which the list does not hold any more then: they may take much memory."""
    result = np.concatenate(parts) if len(parts) > 1 else parts[0]
    parts.clear()
    return result


def indicator(states: Any, num_states: int) -> Mask:
    """Which of the states are among the given ones, (S,), read-only."""
    mask = np.zeros(num_states, dtype=np.bool_)
    mask[states] = True
    mask.flags.writeable = False
    return mask


def _whole_numbers(what: str, values: Iterable[int]) -> Indices:
    if not isinstance(values, Iterable):
        raise InvalidParameterError(
            f"{what} must be a list or a set of whole numbers, but {values!r:.60} was given"
        )
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if array.size and array.dtype.kind not in "iu":
        wrong = [value for value in array.ravel().tolist() if not is_whole_number(value)]
        found = wrong[0] if wrong else array.dtype
        raise InvalidParameterError(f"{what} must be whole numbers, but {found!r:.60} was given")
    return array.astype(np.int64).ravel()


def state_array(name: str, states: Iterable[int], num_states: int) -> Indices:
    """States as an array, checked."""
    array = _whole_numbers(f"{name} states", states)
    wrong = array[(array < 0) | (array >= num_states)]
    if len(wrong):
        raise InvalidParameterError(
            f"{name} states must lie in 0..{num_states - 1}, but {np.unique(wrong).tolist()[:5]} "
            f"were given"
        )
    return array


def token_array(tokens: Iterable[int], vocab_size: int) -> Indices:
    """The tokens of an edge, each once and in order, checked."""
    members = _whole_numbers("the tokens of an edge", tokens)
    if len(members) > 1 and not (members[1:] > members[:-1]).all():
        members = np.unique(members)
    if len(members) and not 0 <= members[0] <= members[-1] < vocab_size:
        raise VocabularyMismatchError(
            f"tokens must lie in 0..{vocab_size - 1}, but an edge has "
            f"{members[0] if members[0] < 0 else members[-1]}"
        )
    return members
