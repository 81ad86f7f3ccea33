"""The engine of one HMM and one automaton."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.engine.backends import BackendName, Tiles, choose_backend
from pcgcd.engine.backward import BackwardMessages, Level
from pcgcd.engine.graph import Graph
from pcgcd.engine.live_sets import LiveSet, LiveSets
from pcgcd.engine.model import ModelTables
from pcgcd.errors import EmptyLanguageError, InvalidParameterError, VocabularyMismatchError
from pcgcd.hmm import HMM, MonarchHMM

if TYPE_CHECKING:
    from pcgcd.engine.state import ProductState

__all__ = ["ProductEngine"]

# Engines (the referents), the classes of tokens that none of them tells apart, and the class of
# each engine that each of these is in.
JointTiles: TypeAlias = (
    "tuple[tuple[ref[ProductEngine], ...], Tiles, list[np.ndarray[Any, np.dtype[np.int64]]]]"
)

_MEMORY_LIMIT = 1 << 30
_MESSAGE_TYPES = (torch.float32, torch.float64, torch.bfloat16)


class ProductEngine:
    """``hmm * fa`` for decoding: p(next token, and the rest satisfies the constraint | prefix).

    The weights of an automaton do not touch the hidden state, so the forward message of a prefix
    is the HMM's own filter times the number of paths to each live state: one H-vector, whatever
    the automaton. The backward messages are made once for all prompts and budgets.

    A string counts as often as it has accepting paths (Thm 4.3), as in ``hmm * fa``. "In n tokens"
    means exactly n steps of the automaton; token automata of constraints are padded with EOS, and
    then that is "finished within n tokens".

    >>> hmm = HMM.random(4, 3, generator=torch.Generator().manual_seed(0))
    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 0, {0}), (0, 1, {2})]
    ... )
    >>> state = ProductEngine.of(hmm, fa).start([2])
    >>> state.next_tokens().dense(3).exp()
    tensor([[1., 0., 0.]])
    >>> state.advance([0]).next_tokens().dense(3).exp()
    tensor([[0., 0., 1.]])
    """

    def __init__(
        self,
        hmm: HMM | MonarchHMM,
        fa: FiniteAutomaton,
        *,
        backend: BackendName | None = None,
        memory_limit: int = _MEMORY_LIMIT,
        message_dtype: torch.dtype = torch.float32,
    ) -> None:
        """Join the two; nothing is computed yet.

        Args:
            hmm: The model, on any device.
            fa: The automaton over the same tokens.
            backend: The kernels; by default the device chooses.
            memory_limit: Bytes of backward messages to keep; if all of them would take more, some
                are computed again when they are needed.
            message_dtype: The type in which backward messages are kept. With float64 everything
                is computed in it; otherwise in float32.
        """
        if hmm.vocab_size != fa.vocab_size:
            raise VocabularyMismatchError(
                f"the HMM has {hmm.vocab_size:,} tokens and the automaton {fa.vocab_size:,}; build "
                "both for one vocabulary (the automaton's width is its vocabulary's logits_size)"
            )
        if message_dtype not in _MESSAGE_TYPES:
            raise InvalidParameterError(
                f"messages are kept in float32, float64 or bfloat16, but message_dtype is "
                f"{message_dtype}"
            )
        double = message_dtype == torch.float64
        self.model = ModelTables.of(hmm, torch.float64 if double else torch.float32)
        self.graph = Graph(fa)
        self.backend = choose_backend(self.model.device, self.model.dtype, backend)
        self.tiles = Tiles(self.graph.token_order, self.graph.class_first, self.graph.token_class)
        self.live_sets = LiveSets(self.graph)
        self.joint_tiles: dict[tuple[int, ...], JointTiles] = {}
        self._messages = BackwardMessages(
            self.model, self.graph, self.tiles, self.backend, memory_limit, message_dtype
        )

    # The engine refers to neither the HMM nor the automaton, so both can be forgotten.
    _kept: ClassVar[
        WeakKeyDictionary[HMM | MonarchHMM, WeakKeyDictionary[FiniteAutomaton, ProductEngine]]
    ] = WeakKeyDictionary()

    @classmethod
    def of(cls, hmm: HMM | MonarchHMM, fa: FiniteAutomaton) -> ProductEngine:
        """The engine of a pair with the usual settings: one, as long as both exist."""
        engines = cls._kept.setdefault(hmm, WeakKeyDictionary())
        engine = engines.get(fa)
        if engine is None:
            engine = engines[fa] = cls(hmm, fa)
        return engine

    def prepare(self, budget: int) -> None:
        """Make the backward messages for up to so many tokens; more can be added later."""
        self._check(budget)
        self._messages.extend(budget)

    def level(self, r: int) -> Level:
        """The backward messages for r more tokens after the next one."""
        return self._messages.level(r)

    @property
    def message_bytes(self) -> int:
        """The memory of the backward messages that are kept."""
        return self._messages.nbytes

    def log_mass(self, budget: int) -> float:
        """The log of the sum of p(x_{1:n}) * (number of accepting paths of x_{1:n}), n = budget.

        -inf if there is none.
        """
        self._check(budget)
        if not self.graph.is_alive(self.graph.initial, budget):
            return -math.inf
        if budget == 0:
            return math.log(int(self.graph.accepting[self.graph.initial].sum()))
        self.prepare(budget)
        level, slot = self.level(budget - 1), self.graph.alive(budget - 1).slot
        edges = self.graph.edges_of(self.graph.initial)
        edges = edges[slot[self.graph.target[edges]] >= 0]
        sums, log_sums = self._messages.labels
        label, target = self.graph.label[edges], slot[self.graph.target[edges]]
        terms = sums[label].double() * level.rows[target].double()
        dots = (terms @ self.model.initial.double()).cpu().numpy()
        with np.errstate(divide="ignore"):
            logs = np.log(dots) + log_sums[label] + level.log_scale[target]
        return float(np.logaddexp.reduce(logs))

    def start(self, budgets: Sequence[int]) -> ProductState:
        """The state before the first token, one row for each budget (tokens that may come).

        Raises:
            EmptyLanguageError: Nothing is accepted in so many tokens; names how many would do.
        """
        from pcgcd.engine.state import start_batch

        return start_batch([(self, budget) for budget in budgets])

    def first_live(self, budget: int) -> LiveSet:
        """The initial states, if something can be accepted in so many tokens."""
        self._check(budget)
        if self.graph.shortest is None:
            raise EmptyLanguageError("the automaton accepts nothing at all", length=budget)
        if not self.graph.is_alive(self.graph.initial, budget):
            shortest = self.graph.shortest
            raise EmptyLanguageError(
                f"nothing is accepted in {budget} tokens; the smallest budget that works is "
                f"{shortest}",
                length=budget,
                shortest_length=shortest,
            )
        return self.live_sets.enter(self.graph.initial)

    def _check(self, budget: int) -> None:
        if budget < 0:
            raise InvalidParameterError(f"a budget is a number of tokens, but it is {budget}")

    def __repr__(self) -> str:
        return (
            f"ProductEngine({self.model.num_hidden} hidden states, {self.graph.num_states} states, "
            f"{self.model.vocab_size} tokens, prepared for {self._messages.budget})"
        )
