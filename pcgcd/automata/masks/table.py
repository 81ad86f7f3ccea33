"""Which tokens may come next: packed masks of a token automaton.

A token is allowed if some state after it can still accept; with a budget, if it can accept within
the tokens that remain. That is one breadth-first search backwards, for every budget at once.
"""

from __future__ import annotations

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.kernels.masks import (
    EDGE_WORDS,
    NONE,
    common_sets,
    mask_rows,
    pack_labels,
    reached_budget,
    step,
    steps,
    write_mask,
    write_masks,
    write_union,
)
from pcgcd.automata.limits import NEVER
from pcgcd.automata.masks.bits import Words
from pcgcd.automata.masks.state_sets import Array, PrefixMasks, States, plain_states
from pcgcd.basics.keeping import kept_with
from pcgcd.errors import AutomatonTooLargeError

# Labels of fewer tokens than a fourth of a mask's words are quicker to write one by one.
_WORDS_PER_LISTED = 4
_MOST_WORDS = 1 << 31
_SET_BYTES = 16 << 20


class MaskTable(PrefixMasks):
    """A token automaton, indexed so that a mask takes a microsecond, also the first of a state.

    Labels with many tokens are kept as packed bits, the others as lists; each state has its edges
    in the order in which shrinking budgets forbid them. Sets of labels that take long to write are
    written beforehand, once for all states that have them. One compiled call writes a mask, or
    those of many prefixes.

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=3,
    ...     vocab_size=2,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 1, [0]), (0, 2, [1]), (2, 1, [1])],
    ... )
    >>> MaskTable.of(fa).mask(0), MaskTable.of(fa).mask(0, remaining=1)
    (array([3], dtype=uint32), array([1], dtype=uint32))
    """

    def __init__(self, fa: FiniteAutomaton) -> None:
        super().__init__(fa.num_states, fa.vocab_size)
        index, distance = fa.edge_index, fa.distance_to_accept
        label_class, token_class = fa.labels.label_class, fa.labels.token_class
        listed = self.num_words // _WORDS_PER_LISTED
        span, pool = pack_labels(label_class, token_class, self.num_words, listed)
        most_sets = _SET_BYTES // (4 * self.num_words)
        number, set_first, set_pool = common_sets(
            index.first, index.label, span, listed // 2, most_sets
        )
        num_edges = len(index.label)
        words = 2 * fa.num_states + EDGE_WORDS * num_edges + len(pool) + _SET_BYTES // 4
        if words > _MOST_WORDS:
            raise AutomatonTooLargeError(
                f"the masks of {fa.num_states:,} states, {num_edges:,} edges and "
                f"{fa.labels.num_labels:,} labels would take more than {_MOST_WORDS:,} words; "
                f"reduce the automaton, or make the constraint smaller"
            )
        self._rows = mask_rows(
            index.first,
            distance[index.target] + 1,
            index.target,
            index.label,
            span,
            pool,
            number,
            set_first,
            set_pool,
            self.num_words,
        )
        self._labels = (label_class, token_class)
        self._start = tuple(np.flatnonzero(fa.initial_mask & (distance < NEVER)).tolist())

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> MaskTable:
        """The table of an automaton, made once."""
        return kept_with(fa, "_masks", lambda: cls(fa))

    @property
    def nbytes(self) -> int:
        """The memory of the arrays that the automaton does not have itself."""
        return int(self._rows.nbytes)

    def start(self) -> tuple[int, ...]:
        return self._start

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        members = states if type(states) is tuple else plain_states(states)
        if len(members) == 1:
            found = step(members[0], int(token), self._rows, *self._labels)
            if found >= 0:
                return (found,)
            if found == NONE:
                return ()
        if members and not 0 <= min(members) <= max(members) < self.num_states:
            raise self._wrong_states(members)
        self._check_token(token)
        found = steps(np.array(members, dtype=np.int64), int(token), self._rows, *self._labels)
        return tuple(found.tolist())

    def _threshold(self, members: tuple[int, ...], budget: int) -> int:
        result = 0
        for state in members:
            reached = reached_budget(state, budget, self._rows)
            if reached < 0:
                raise self._wrong_states(members)
            result = max(result, reached)
        return result

    def _write(self, out: Words, members: tuple[int, ...], budget: int) -> None:
        if len(members) == 1:
            known = write_mask(out, members[0], budget, self._rows)
        else:
            known = write_union(out, np.array(members, dtype=np.int64), budget, self._rows)
        if not known:
            raise self._wrong_states(members)

    def _write_all(self, out: Words, members: Array, first: Array, budgets: Array) -> None:
        if not write_masks(out, members, first, budgets, self._rows):
            raise self._wrong_states(members)
