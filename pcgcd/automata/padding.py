"""Padding with end-of-sequence tokens: "finished within n tokens" as "in exactly n steps"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pcgcd.automata.arrays import Mask, indicator
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.errors import InvalidParameterError


def is_padded(fa: FiniteAutomaton, eos_ids: Sequence[int]) -> bool:
    """Return whether texts end with EOS in accepting states, and only EOS can follow."""
    is_eos = indicator(list(eos_ids), fa.vocab_size)
    member, classes = fa.labels.label_class, fa.labels.token_class
    takes_eos: Mask = np.any(member[:, np.unique(classes[is_eos])], axis=1)[fa.label]  # (E,)
    takes_text: Mask = np.any(member[:, np.unique(classes[~is_eos])], axis=1)[fa.label]  # (E,)
    can_end = indicator(fa.source[takes_eos], fa.num_states)
    over = indicator(fa.target[takes_eos], fa.num_states)
    return bool(
        can_end[fa.accepting_mask].all()
        and fa.accepting_mask[over].all()
        and not takes_text[over[fa.source]].any()
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
