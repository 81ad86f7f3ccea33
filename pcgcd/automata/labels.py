"""The distinct token sets of an automaton, factored through classes of equivalent tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pcgcd.automata.arrays import Indices, Mask

_LABELS_AT_A_TIME = 512


@dataclass(frozen=True, eq=False)
class Labels:
    """Token sets, none written out for each edge: ``token in label`` iff

        label_class[label, token_class[token]].

    Attributes:
        label_class: Booleans (number of labels, number of classes).
        token_class: The class of each token, (V,): tokens that no label distinguishes share one.
    """  # noqa: D415

    label_class: Mask
    token_class: Indices

    @property
    def num_labels(self) -> int:
        """How many distinct token sets there are."""
        return int(self.label_class.shape[0])

    @property
    def num_classes(self) -> int:
        """How many classes of tokens there are."""
        return int(self.label_class.shape[1])

    @property
    def vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self.token_class)

    def tokens(self, label: int) -> Indices:
        """The members of a label, in order."""
        return np.flatnonzero(self.label_class[label][self.token_class])

    @cached_property
    def masks(self) -> list[int]:
        """The labels as integers, in which bit t stands for token t: for small vocabularies."""
        rows = np.packbits(self.label_class[:, self.token_class], axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in rows]

    def overlaps(self) -> Mask:
        """Which pairs of labels share a token, (labels, labels)."""
        counts = self.label_class.astype(np.float32)
        result: Mask = counts @ counts.T > 0
        return result

    @classmethod
    def from_token_sets(
        cls, token_sets: Sequence[Indices], vocab_size: int
    ) -> tuple[Indices, Labels]:
        """The label of each of the given sets (sorted arrays), and the labels.

        >>> label, labels = Labels.from_token_sets(
        ...     [np.array([0, 1]), np.array([2]), np.array([0, 1])], 5
        ... )
        >>> label, labels.token_class, labels.num_classes
        (array([0, 1, 0]), array([0, 0, 1, 2, 2]), 3)
        """
        keys = [tokens.tobytes() for tokens in token_sets]
        by_key = dict(zip(keys, token_sets))
        number, distinct = {key: i for i, key in enumerate(by_key)}, list(by_key.values())
        label = np.array([number[key] for key in keys], dtype=np.int64)
        token_class = _classes(distinct, vocab_size)
        num_classes = int(token_class.max()) + 1
        label_class = np.zeros((len(distinct), num_classes), dtype=np.bool_)
        for row, tokens in enumerate(distinct):
            label_class[row, token_class[tokens]] = True
        label_class.flags.writeable = token_class.flags.writeable = False
        return label, cls(label_class, token_class)


def _classes(token_sets: Sequence[Indices], vocab_size: int) -> Indices:
    """Number tokens by which sets they belong to, in the order of first occurrence."""
    token_class = np.zeros(vocab_size, dtype=np.int64)
    for first in range(0, len(token_sets), _LABELS_AT_A_TIME):
        members = np.zeros((vocab_size, min(_LABELS_AT_A_TIME, len(token_sets) - first)), np.bool_)
        for column in range(members.shape[1]):
            members[token_sets[first + column], column] = True
        key = np.concatenate(
            [token_class[:, None].view(np.uint8), np.packbits(members, axis=1)], axis=1
        )
        rows = np.ascontiguousarray(key).view(np.dtype((np.void, key.shape[1]))).ravel()
        _, first_use, inverse = np.unique(rows, return_index=True, return_inverse=True)
        rank = np.empty(len(first_use), dtype=np.int64)
        rank[np.argsort(first_use)] = np.arange(len(first_use))
        token_class = rank[inverse]
    return token_class
