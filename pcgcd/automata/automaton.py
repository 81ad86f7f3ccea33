"""Finite automata, deterministic or not, as circuits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata import ambiguity
from pcgcd.automata.labels import Labels
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.automata.masks.methods import Masking
from pcgcd.automata.running import Runner
from pcgcd.circuits import (
    Chain,
    ChainOperators,
    Composition,
    Diagonal,
    Incidence,
    LabelSets,
    Operator,
)
from pcgcd.circuits.tables import table_html
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

__all__ = ["FiniteAutomaton"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


def _frozen(array: Any, dtype: Any) -> Any:
    result = np.array(array, dtype=dtype)
    result.flags.writeable = False
    return result


@dataclass(frozen=True, eq=False, repr=False)
class FiniteAutomaton(Masking, Chain):
    """A finite automaton (Def. 3.1) whose edges carry sets of tokens, and a circuit for every n.

    As a circuit its value on a string is the number of accepting paths (Thm 4.3): zero or one
    where the automaton is unambiguous. Between two states there is at most one edge.

    Use :meth:`from_edges` to make one.

    Attributes:
        num_states: The number of states S.
        source: The source state of each edge, (E,).
        target: The target state of each edge, (E,).
        label: The label of each edge, (E,), a row of ``labels``.
        labels: The distinct token sets, through classes of equivalent tokens.
        initial_mask: Which states are initial, (S,).
        accepting_mask: Which states are accepting, (S,).

    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2,
    ...     vocab_size=3,
    ...     initial=0,
    ...     accepting={1},
    ...     edges=[(0, 0, {0, 1}), (0, 1, {2})],
    ... )
    >>> fa
    FiniteAutomaton(2 states, 2 edges, 2 labels, 3 tokens)
    >>> fa.accepts([0, 1, 2]), fa.accepts([2, 0])
    (True, False)
    >>> fa.T_out.to_dense()
    tensor([[1., 1.],
            [0., 0.]])
    """

    num_states: int
    source: Indices
    target: Indices
    label: Indices
    labels: Labels
    initial_mask: Mask
    accepting_mask: Mask
    _device: torch.device = field(default=torch.device("cpu"))

    # -- making one ---------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        *,
        num_states: int,
        vocab_size: int,
        initial: int | Iterable[int],
        accepting: Iterable[int],
        edges: Iterable[tuple[int, int, Iterable[int]]],
    ) -> FiniteAutomaton:
        """An automaton from (source, target, tokens) triples.

        Edges between the same two states are joined; edges without tokens are dropped.

        Args:
            num_states: States are numbered 0..num_states-1.
            vocab_size: Tokens are numbered 0..vocab_size-1.
            initial: The initial state, or several.
            accepting: The accepting states.
            edges: The edges, in the order that the edges of the automaton will have.
        """
        if num_states < 1 or vocab_size < 1:
            raise InvalidParameterError(
                f"an automaton needs at least one state and one token, but num_states={num_states} "
                f"and vocab_size={vocab_size}"
            )
        starts = [initial] if isinstance(initial, int | np.integer) else list(initial)
        token_sets: dict[tuple[int, int], list[Indices]] = {}
        for source, target, tokens in edges:
            members = _token_array(tokens, vocab_size)
            if len(members):
                token_sets.setdefault((int(source), int(target)), []).append(members)
        pairs = np.array(list(token_sets), dtype=np.int64).reshape(-1, 2)
        for name, states in (
            ("initial", starts),
            ("accepting", list(accepting)),
            ("edge", pairs.ravel()),
        ):
            _check_states(name, states, num_states)
        merged = [
            sets[0] if len(sets) == 1 else np.unique(np.concatenate(sets))
            for sets in token_sets.values()
        ]
        label, labels = Labels.from_token_sets(merged, vocab_size)
        return cls(
            num_states=num_states,
            source=_frozen(pairs[:, 0], np.int64),
            target=_frozen(pairs[:, 1], np.int64),
            label=_frozen(label, np.int64),
            labels=labels,
            initial_mask=_mask(starts, num_states),
            accepting_mask=_mask(list(accepting), num_states),
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> FiniteAutomaton:
        """The same automaton with its circuit on another device (its weights have no type)."""
        return self if device is None else replace(self, _device=torch.device(device))

    # -- the paper's tensors (Def. 3.2) -------------------------------------------------------

    @property
    def num_edges(self) -> int:
        """The number of edges E."""
        return len(self.source)

    @property
    def vocab_size(self) -> int:
        """The number of tokens V."""
        return self.labels.vocab_size

    @cached_property
    def initial(self) -> Tensor:
        """The indicator of the initial states, pi_f, (S,)."""
        return torch.tensor(self.initial_mask, device=self._device)

    @cached_property
    def accepting(self) -> Tensor:
        """The indicator of the accepting states, f, (S,)."""
        return torch.tensor(self.accepting_mask, device=self._device)

    @cached_property
    def T_out(self) -> Operator:
        """The incidence of edges with their sources, (S, E)."""
        source = self._tensor(self.source)
        return Incidence(
            source, torch.arange(len(source), device=self._device), (self.num_states, len(source))
        )

    @cached_property
    def T_in(self) -> Operator:
        """The incidence of edges with their targets, (E, S)."""
        target = self._tensor(self.target)
        return Incidence(
            torch.arange(len(target), device=self._device), target, (len(target), self.num_states)
        )

    @cached_property
    def B_f(self) -> Operator:
        """Which tokens each edge admits, (E, V): edge to label, label to token set."""
        label = self._tensor(self.label)
        labels = LabelSets(
            torch.tensor(self.labels.label_class, device=self._device),
            self._tensor(self.labels.token_class),
        )
        edges = torch.arange(len(label), device=self._device)
        return Composition(Incidence(edges, label, (len(label), labels.shape[0])), labels)

    @cached_property
    def edge_hmm(self) -> ChainOperators:
        """The HMM on edges that the automaton induces (Def. 4.2), with unnormalised weights.

        A_f = T_in T_out stays factored, pi_f and f are lifted to edges.
        """
        if not self.num_edges:
            return self._with_an_impossible_edge().edge_hmm
        starts = np.flatnonzero(self.initial_mask[self.source])
        columns = self._tensor(starts)
        return ChainOperators(
            initial=Incidence(torch.zeros_like(columns), columns, (1, self.num_edges)),
            transition=Composition(self.T_in, self.T_out),
            emission=self.B_f,
            final=Diagonal(self.accepting[self._tensor(self.target)]),
        )

    @property
    def operators(self) -> ChainOperators:
        """See :class:`pcgcd.circuits.Chain`: the edge HMM."""
        return self.edge_hmm

    def _with_an_impossible_edge(self) -> FiniteAutomaton:
        """An equal automaton with an edge that admits no token, since circuits have units."""
        nothing = Labels(_frozen(np.zeros((1, 1)), np.bool_), self.labels.token_class)
        zero = _frozen([0], np.int64)
        return replace(self, source=zero, target=zero, label=zero, labels=nothing)

    def _tensor(self, array: Any) -> Tensor:
        return torch.tensor(array, dtype=torch.long, device=self._device)

    # -- what can be asked --------------------------------------------------------------------

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Whether some path from an initial to an accepting state spells the tokens."""
        return self._runner.accepts_word(tokens)

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self)

    def shortest_length(self, limit: int = 100_000) -> int | None:
        """The smallest length n >= 1 of a word up to the limit, if there is one.

        See :class:`pcgcd.circuits.CircuitLike`; :meth:`shortest_word` knows the empty word too.
        """
        starts = self.initial_mask[self.source]
        lengths = self.distance_to_accept[self.target[starts]] + 1
        return int(lengths.min()) if len(lengths) and lengths.min() <= limit else None

    @cached_property
    def distance_to_accept(self) -> Indices:
        """The number of steps from each state to the nearest accepting one, (S,).

        Where there is no way it is 2 ** 62, more than any length.
        """
        from pcgcd.automata import words

        distance = words.distance_to_accept(self)
        distance.flags.writeable = False
        return distance

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether there is one initial state, and at most one edge for each state and token."""
        return ambiguity.is_deterministic(self)

    @cached_property
    def is_unambiguous(self) -> bool:
        """Whether no string has two accepting paths. Polynomial: looks at pairs of states."""
        return self.is_deterministic or ambiguity.is_unambiguous(self)

    @property
    def is_indicator(self) -> bool:
        """See :class:`pcgcd.circuits.CircuitLike`."""
        return self.is_unambiguous

    @property
    def counts_paths(self) -> bool:
        """See :class:`pcgcd.circuits.Chain`."""
        return not self.is_unambiguous

    # -- its language -------------------------------------------------------------------------
    # The algebra is compiled when it is first used, so it is not imported before.

    def union(self, *others: FiniteAutomaton) -> FiniteAutomaton:
        """The words of any of the automata."""
        from pcgcd.automata import algebra

        return algebra.union(self, *others)

    def concatenate(self, *others: FiniteAutomaton) -> FiniteAutomaton:
        """A word of this one, then of the others in turn."""
        from pcgcd.automata import algebra

        return algebra.concatenate(self, *others)

    def repeat(
        self, least: int = 0, most: int | None = None, *, state_limit: int = STATE_LIMIT
    ) -> FiniteAutomaton:
        """Between ``least`` and ``most`` of its words (None: any number) after each other."""
        from pcgcd.automata import algebra

        return algebra.repeat(self, least, most, state_limit=state_limit)

    def star(self) -> FiniteAutomaton:
        """Any number of its words after each other."""
        return self.repeat()

    def option(self) -> FiniteAutomaton:
        """Its words and the empty one."""
        return self.repeat(0, 1)

    def reverse(self) -> FiniteAutomaton:
        """Its words read backwards."""
        from pcgcd.automata import algebra

        return algebra.reverse(self)

    def intersection(
        self, *others: FiniteAutomaton, state_limit: int = STATE_LIMIT
    ) -> FiniteAutomaton:
        """The words that all of the automata accept."""
        from pcgcd.automata import algebra

        return algebra.intersection(self, *others, state_limit=state_limit)

    def difference(
        self, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT
    ) -> FiniteAutomaton:
        """The words that the other does not accept."""
        from pcgcd.automata import algebra

        return algebra.difference(self, other, state_limit=state_limit)

    def complement(self, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
        """Every other word over the vocabulary."""
        from pcgcd.automata import algebra

        return algebra.complement(self, state_limit=state_limit)

    def determinize(self, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
        """A deterministic automaton for the same words."""
        from pcgcd.automata import algebra

        return algebra.determinize(self, state_limit=state_limit)

    def minimize(self, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
        """The smallest deterministic automaton for the same words."""
        from pcgcd.automata import algebra

        return algebra.minimize(self, state_limit=state_limit)

    def reduce(self) -> FiniteAutomaton:
        """A smaller automaton by bisimulation; it may keep its choices."""
        from pcgcd.automata import algebra

        return algebra.reduce(self)

    def trim(self) -> FiniteAutomaton:
        """Only the states on a way from an initial to an accepting one."""
        from pcgcd.automata import algebra

        return algebra.trim(self)

    def shuffle(self, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
        """A word of each, their tokens interleaved in any way."""
        from pcgcd.automata import algebra

        return algebra.shuffle(self, other, state_limit=state_limit)

    def is_empty(self) -> bool:
        """Whether no word is accepted."""
        return bool((self.distance_to_accept[self.initial_mask] > self.num_states).all())

    def is_universal(self, *, state_limit: int = STATE_LIMIT) -> bool:
        """Whether every word over the vocabulary is accepted."""
        from pcgcd.automata import algebra

        return algebra.is_universal(self, state_limit=state_limit)

    def is_equivalent(self, other: FiniteAutomaton, *, state_limit: int = STATE_LIMIT) -> bool:
        """Whether both accept the same words."""
        from pcgcd.automata import algebra

        return algebra.is_equivalent(self, other, state_limit=state_limit)

    def shortest_word(self) -> tuple[int, ...] | None:
        """The first of the shortest words, if there is any."""
        from pcgcd.automata import words

        return words.shortest_word(self)

    def enumerate_words(
        self, max_length: int | None = None, limit: int | None = None
    ) -> Iterator[tuple[int, ...]]:
        """The words, each once, by length and then in the order of their tokens."""
        from pcgcd.automata import words

        return words.enumerate_words(self, max_length, limit)

    def count_words(self, length: int, *, state_limit: int = STATE_LIMIT) -> int:
        """How many different words of a length are accepted, exactly."""
        from pcgcd.automata import words

        return words.count_words(self, length, state_limit=state_limit)

    def random_word(
        self,
        *,
        length: int | None = None,
        max_length: int | None = None,
        generator: torch.Generator | int,
        state_limit: int = STATE_LIMIT,
    ) -> tuple[int, ...]:
        """A word of the length, or up to the greatest length, all being equally likely."""
        from pcgcd.automata import words

        return words.random_word(
            self,
            length=length,
            max_length=max_length,
            generator=generator,
            state_limit=state_limit,
        )

    def to_dot(self) -> str:
        """The automaton as text for graphviz."""
        from pcgcd.automata import interop

        return interop.to_dot(self)

    def _repr_svg_(self) -> str:
        from pcgcd.automata import drawing

        return drawing.to_svg(self)

    def _repr_html_(self) -> str:
        return table_html(repr(self), (), (), self._repr_svg_())

    def __repr__(self) -> str:
        return (
            f"FiniteAutomaton({self.num_states} states, {self.num_edges} edges, "
            f"{self.labels.num_labels} labels, {self.vocab_size} tokens)"
        )


def _mask(states: Any, num_states: int) -> Mask:
    mask = np.zeros(num_states, dtype=np.bool_)
    mask[np.asarray(states, dtype=np.int64)] = True
    mask.flags.writeable = False
    return mask


def _check_states(name: str, states: Any, num_states: int) -> None:
    wrong = sorted({int(s) for s in states if not 0 <= s < num_states})
    if wrong:
        raise InvalidParameterError(
            f"{name} states must lie in 0..{num_states - 1}, but {wrong[:5]} were given"
        )


def _token_array(tokens: Iterable[int], vocab_size: int) -> Indices:
    if isinstance(tokens, np.ndarray):
        members = tokens.astype(np.int64).ravel()
    else:
        members = np.fromiter(tokens, dtype=np.int64)
    if not np.all(members[1:] > members[:-1]):
        members = np.unique(members)
    if len(members) and not 0 <= members[0] <= members[-1] < vocab_size:
        raise VocabularyMismatchError(
            f"tokens must lie in 0..{vocab_size - 1}, but an edge has "
            f"{members[0] if members[0] < 0 else members[-1]}"
        )
    return members
