"""Finite automata, deterministic or not, as circuits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata import ambiguity
from pcgcd.automata.arrays import Indices, Mask, Weights, frozen, indicator, state_array
from pcgcd.automata.deferred import MethodsOf
from pcgcd.automata.edge_index import EdgeIndex
from pcgcd.automata.edge_lists import read_edges
from pcgcd.automata.labels import Labels
from pcgcd.automata.running import Runner
from pcgcd.circuits import (
    Chain,
    ChainOperators,
    Composition,
    Diagonal,
    Identity,
    Incidence,
    LabelSets,
    Operator,
    compose,
)
from pcgcd.circuits.tables import table_html
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.automata import algebra, drawing, interop, words
    from pcgcd.automata.masks.bits import Words
    from pcgcd.automata.masks.state_sets import States
    from pcgcd.automata.masks.table import MaskTable
else:  # These need numba, which takes a second to import.
    algebra, drawing, interop, words = (
        MethodsOf(f"pcgcd.automata.{name}") for name in ("algebra", "drawing", "interop", "words")
    )


@dataclass(frozen=True, eq=False, repr=False)
class FiniteAutomaton(Chain):
    """A finite automaton (Def. 3.1) whose edges carry sets of tokens, and a circuit for every n.

    As a circuit its value on a string is the number of accepting paths (Thm 4.3): zero or one
    where the automaton is unambiguous. Between two states there is at most one edge.

    Edges may carry weights. Then the value is the sum, over the accepting paths, of the product of
    their weights: a soft constraint. Between two states there is at most one edge for each weight,
    and these edges share no token. A word is accepted if its weight is positive.

    Use :meth:`from_edges` to make one.

    Attributes:
        num_states: The number of states S.
        source: The source state of each edge, (E,).
        target: The target state of each edge, (E,).
        label: The label of each edge, (E,), a row of ``labels``.
        labels: The distinct token sets, through classes of equivalent tokens.
        initial_mask: Which states are initial, (S,).
        accepting_mask: Which states are accepting, (S,).
        weight: The weight of each edge, (E,), positive; None: all are one.

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
    weight: Weights | None = None
    _device: torch.device = field(default=torch.device("cpu"))
    _dtype: torch.dtype | None = None

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
        weights: Iterable[float] | None = None,
    ) -> FiniteAutomaton:
        """An automaton from (source, target, tokens) triples.

        Edges between the same two states are joined, of a weighted automaton those with the same
        weight; edges without tokens, or with weight zero, are dropped. Where weighted edges between
        two states share tokens, the weights of these tokens are added.

        Args:
            num_states: States are numbered 0..num_states-1.
            vocab_size: Tokens are numbered 0..vocab_size-1.
            initial: The initial state, or several.
            accepting: The accepting states.
            edges: The edges, in the order that the edges of the automaton will have.
            weights: The weights of a weighted automaton, one for each of the edges.

        >>> soft = FiniteAutomaton.from_edges(
        ...     num_states=1,
        ...     vocab_size=2,
        ...     initial=0,
        ...     accepting=[0],
        ...     edges=[(0, 0, {0, 1}), (0, 0, {1})],
        ...     weights=[0.5, 1.5],
        ... )
        >>> soft.log_value(torch.tensor([[0, 0], [0, 1], [1, 1]])).exp()
        tensor([0.2500, 1.0000, 4.0000])
        """
        if num_states < 1 or vocab_size < 1:
            raise InvalidParameterError(
                f"an automaton needs at least one state and one token, but num_states={num_states} "
                f"and vocab_size={vocab_size}"
            )
        starts = initial if isinstance(initial, Iterable) else [initial]
        pairs, label, labels, weight = read_edges(num_states, vocab_size, edges, weights)
        return cls(
            num_states=num_states,
            source=frozen(pairs[:, 0]),
            target=frozen(pairs[:, 1]),
            label=frozen(label),
            labels=labels,
            initial_mask=indicator(state_array("initial", starts, num_states), num_states),
            accepting_mask=indicator(state_array("accepting", accepting, num_states), num_states),
            weight=None if weight is None else frozen(weight),
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> FiniteAutomaton:
        """The same automaton with its circuit on another device.

        The type is that of the weights in the circuit, which otherwise are of torch's default type;
        :attr:`weight` stays what it is. Zeros and ones have no type.
        """
        changes: dict[str, Any] = {}
        if device is not None:
            changes["_device"] = torch.device(device)
        if dtype is not None and self.is_weighted:
            changes["_dtype"] = dtype
        return replace(self, **changes) if changes else self

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
        shape = (self.num_states, self.num_edges)
        return Incidence(self._tensor(self.source), self._edge_numbers, shape)

    @cached_property
    def T_in(self) -> Operator:
        """The incidence of edges with their targets, (E, S)."""
        shape = (self.num_edges, self.num_states)
        return Incidence(self._edge_numbers, self._tensor(self.target), shape)

    @cached_property
    def B_f(self) -> Operator:
        """Which tokens each edge admits, (E, V): edge to label, label to token set."""
        member = torch.tensor(self.labels.label_class, device=self._device)
        labels = LabelSets(member, self._tensor(self.labels.token_class))
        shape = (self.num_edges, self.labels.num_labels)
        return Composition(Incidence(self._edge_numbers, self._tensor(self.label), shape), labels)

    @cached_property
    def edge_hmm(self) -> ChainOperators:
        """The HMM on edges that the automaton induces (Def. 4.2), with unnormalised weights.

        A_f = T_in T_out stays factored, pi_f and f are lifted to edges. An edge's weight is paid on
        entering it, so that the emission is of zeros and ones.
        """
        if not self.num_edges:
            return self._with_an_impossible_edge().edge_hmm
        columns = self._tensor(np.flatnonzero(self.initial_mask[self.source]))
        starts = Incidence(torch.zeros_like(columns), columns, (1, self.num_edges))
        return ChainOperators(
            initial=compose(starts, self._weights),
            transition=compose(self.T_in, self.T_out, self._weights),
            emission=self.B_f,
            final=Diagonal(self.accepting[self._tensor(self.target)]),
        )

    @property
    def operators(self) -> ChainOperators:
        """See :class:`pcgcd.circuits.Chain`: the edge HMM."""
        return self.edge_hmm

    @cached_property
    def _weights(self) -> Operator:
        """The weights on a diagonal, (E, E)."""
        if self.weight is None:
            return Identity(self.num_edges)
        exact = torch.tensor(self.weight, device=self._device)
        weights = exact.to(self._dtype or torch.get_default_dtype())
        # What a narrow type cannot hold must become neither zero nor infinite.
        fits = bool(((weights > 0) & weights.isfinite()).all())
        return Diagonal(weights if fits else exact)

    def _with_an_impossible_edge(self) -> FiniteAutomaton:
        """An equal automaton with an edge that admits no token, since circuits have units."""
        nothing = Labels(frozen([[False]]), self.labels.token_class)
        zero = frozen([0])
        weight = frozen([1.0]) if self.is_weighted else None
        return replace(self, source=zero, target=zero, label=zero, labels=nothing, weight=weight)

    @property
    def _edge_numbers(self) -> Tensor:
        return torch.arange(self.num_edges, device=self._device)

    def _tensor(self, array: Any) -> Tensor:
        return torch.tensor(array, dtype=torch.long, device=self._device)

    # -- what can be asked --------------------------------------------------------------------

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Return whether some path from an initial to an accepting state spells the tokens."""
        return self._runner.accepts_word(tokens)

    def log_weight(self, tokens: Sequence[int]) -> float:
        """The logarithm of the sum, over the accepting paths, of the product of their weights.

        Without weights it is that of the number of accepting paths; -inf where there is none. In
        float64 and in log space, so that no length is too long.
        """
        return self._runner.log_weight(tokens)

    @property
    def is_weighted(self) -> bool:
        """Whether the edges carry weights."""
        return self.weight is not None

    @cached_property
    def edge_index(self) -> EdgeIndex:
        """The edges from which acceptance can be reached, by source."""
        return EdgeIndex.of(self)

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

        Where there is no way it is ``NEVER`` (of ``pcgcd.automata.limits``), more than any length.
        """
        from pcgcd.automata.kernels.tables import steps_to_accept

        distance: Indices = steps_to_accept(self.source, self.target, self.accepting_mask)
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
        return not self.is_weighted and self.is_unambiguous

    @property
    def counts_paths(self) -> bool:
        """See :class:`pcgcd.circuits.Chain`. The paths of a weighted automaton are meant."""
        return not self.is_weighted and not self.is_unambiguous

    # -- its language -------------------------------------------------------------------------

    support = algebra.support
    union = algebra.union
    concatenate = algebra.concatenate
    repeat = algebra.repeat
    star = algebra.star
    option = algebra.option
    reverse = algebra.reverse
    intersection = algebra.intersection
    difference = algebra.difference
    complement = algebra.complement
    determinize = algebra.determinize
    minimize = algebra.minimize
    reduce = algebra.reduce
    trim = algebra.trim
    shuffle = algebra.shuffle
    is_empty = algebra.is_empty
    is_universal = algebra.is_universal
    is_equivalent = algebra.is_equivalent
    shortest_word = words.shortest_word
    enumerate_words = words.enumerate_words
    count_words = words.count_words
    random_word = words.random_word
    to_dot = interop.to_dot
    _repr_svg_ = drawing.to_svg

    # -- masks: which tokens may come next after a prefix, which a set of states stands for ---

    @cached_property
    def _mask_table(self) -> MaskTable:
        from pcgcd.automata.masks.table import MaskTable

        return MaskTable.of(self)

    @property
    def start_states(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""
        return self._mask_table.start()

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""
        return self._mask_table.advance(states, token)

    def mask(self, states: States, remaining: int | None = None) -> Mask:
        """Which tokens may come next, (V,) booleans, read-only.

        With ``remaining`` (tokens that may still come, this one included) a token is allowed if
        the text can then be finished in time: the mask of GCD, Eq. (2). Without it, if it can be
        finished at all: the mask of LCD, Eq. (1).

        Args:
            states: A state, the states of one prefix, or their indicator (S,).
            remaining: The token budget that is left; None for any number.
        """
        from pcgcd.automata.masks.bits import unpack

        allowed = unpack(self._mask_table.mask(states, remaining), self.vocab_size)
        allowed.flags.writeable = False
        return allowed

    def masks(
        self, states: Sequence[States], remaining: int | Sequence[int | None] | None = None
    ) -> Words:
        """The masks of k prefixes in one call, packed, (k, ceil(V / 32)) 32-bit words.

        The functions of :mod:`pcgcd.automata.masks.bits` turn them into tensors and lists.
        """
        return self._mask_table.masks(states, remaining)

    # -- how it is shown ----------------------------------------------------------------------

    def _repr_html_(self) -> str:
        return table_html(repr(self), (), (), self._repr_svg_())

    def __repr__(self) -> str:
        return (
            f"FiniteAutomaton({self.num_states} states, {self.num_edges} edges, "
            f"{self.labels.num_labels} labels, {self.vocab_size} tokens"
            f"{', weighted' if self.is_weighted else ''})"
        )
