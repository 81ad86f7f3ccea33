"""Padding with end-of-sequence tokens: "finished within n tokens" as "in exactly n steps"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.errors import InvalidParameterError

__all__ = ["is_padded", "padded"]

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


def _ends(fa: FiniteAutomaton, eos_ids: Sequence[int]) -> tuple[Mask, Mask]:
    """Which edges take some end-of-sequence token, and which take nothing else."""
    is_eos = np.zeros(fa.vocab_size, dtype=np.bool_)
    is_eos[list(eos_ids)] = True
    member, classes = fa.labels.label_class, fa.labels.token_class
    with_eos: Mask = np.any(member[:, np.unique(classes[is_eos])], axis=1)
    with_text: Mask = np.any(member[:, np.unique(classes[~is_eos])], axis=1)
    return with_eos[fa.label], ~with_text[fa.label]


def is_padded(fa: FiniteAutomaton, eos_ids: Sequence[int]) -> bool:
    """Whether texts end by EOS in accepting states, after which nothing but EOS can follow."""
    takes_eos, only_eos = _ends(fa, eos_ids)
    can_end = np.zeros(fa.num_states, dtype=np.bool_)
    can_end[fa.source[takes_eos]] = True
    over = np.zeros(fa.num_states, dtype=np.bool_)
    over[fa.target[takes_eos]] = True
    return bool(
        can_end[fa.accepting_mask].all()
        and fa.accepting_mask[over].all()
        and only_eos[over[fa.source]].all()
    )


def padded(fa: FiniteAutomaton, eos_ids: Sequence[int]) -> FiniteAutomaton:
    """An automaton whose texts end by EOS, or by the budget, where it accepts, and nowhere else.

    A word of the automaton is a text if it has no end-of-sequence token but a last one, and each
    such token may follow a word without any. After it comes an absorbing state that takes EOS only.
    Words in which something follows an EOS are no texts, and are left out.

    Args:
        fa: An automaton over tokens. One that is padded already, as compiled constraints are, is
            returned as it is.
        eos_ids: The end-of-sequence tokens.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2, vocab_size=2, initial=0, accepting={1}, edges=[(0, 0, {0}), (0, 1, {1})]
    ... )
    >>> fa.accepts([0, 1, 1]), padded(fa, [1]).accepts([0, 1, 1])
    (False, True)
    """
    if not eos_ids:
        raise InvalidParameterError("a text needs an end-of-sequence token, but there is none")
    if is_padded(fa, eos_ids):
        return fa
    end = fa.num_states
    weights = np.ones(fa.num_edges) if fa.weight is None else fa.weight
    members = [fa.labels.tokens(label) for label in range(fa.labels.num_labels)]
    texts = [np.setdiff1d(tokens, eos_ids, assume_unique=True) for tokens in members]
    edges: list[tuple[int, int, Any]] = []
    last: dict[tuple[int, int], float] = {}  # (state, EOS token): the weight of ending so
    for source, target, label, weight in zip(
        fa.source.tolist(), fa.target.tolist(), fa.label.tolist(), weights.tolist()
    ):
        edges.append((source, target, texts[label]))
        if fa.accepting_mask[target]:
            for token in np.intersect1d(members[label], eos_ids).tolist():
                last[source, token] = last.get((source, token), 0.0) + weight
    for state in [*np.flatnonzero(fa.accepting_mask).tolist(), end]:
        for token in eos_ids:
            last.setdefault((state, token), 1.0)
    edges += [(state, end, [token]) for state, token in last]
    return FiniteAutomaton.from_edges(
        num_states=end + 1,
        vocab_size=fa.vocab_size,
        initial=np.flatnonzero(fa.initial_mask).tolist(),
        accepting=[*np.flatnonzero(fa.accepting_mask).tolist(), end],
        edges=edges,
        weights=None if fa.weight is None else [*weights, *last.values()],
    )
