"""The engine of a chain: a real-valued one that guides, times an automaton that constrains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast
from weakref import WeakKeyDictionary, ref

import numpy as np
import torch

from pcgcd.automata import FiniteAutomaton
from pcgcd.basics.keeping import kept_with
from pcgcd.circuits import Chain
from pcgcd.engine.backends import BackendName, Tiles, choose_backend
from pcgcd.engine.backward import BackwardMessages
from pcgcd.engine.cones import Users
from pcgcd.engine.graph import Graph
from pcgcd.engine.guide import GuideTables
from pcgcd.engine.prefix_engine import PrefixEngine, everything
from pcgcd.engine.recursion import Recursion
from pcgcd.engine.tracks import check_budget
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

if TYPE_CHECKING:
    from pcgcd.engine.chain_state import ChainState

# Engines (the referents), the classes of tokens that none of them distinguishes, and the class of
# each engine that each of these is in.
JointTiles: TypeAlias = (
    "tuple[tuple[ref[ChainEngine], ...], Tiles, list[np.ndarray[Any, np.dtype[np.int64]]]]"
)

_MEMORY_LIMIT = 1 << 30
_MESSAGE_TYPES = (torch.float32, torch.float64, torch.bfloat16)


class ChainEngine(PrefixEngine):
    """``guide * automaton``, token by token: the mass of what may come next, given a prefix.

    The weights of an automaton do not touch the hidden unit, so the forward message of a prefix
    is the guide's own filter times the number (or the weight) of the paths to each live state: one
    H-vector, whatever the automaton. The backward messages are made once for all prompts and
    budgets, when they are first asked for.

    A string counts as often as it has accepting paths (Thm 4.3), as in ``hmm * fa``. "In n tokens"
    means exactly n steps of the automaton; token automata of constraints are padded with EOS, and
    then that is "finished within n tokens".

    >>> from pcgcd import HMM
    >>> hmm = HMM.random(4, 3, generator=torch.Generator().manual_seed(0))
    >>> fa = FiniteAutomaton.from_edges(
    ...     num_states=2, vocab_size=3, initial=0, accepting={1}, edges=[(0, 0, {0}), (0, 1, {2})]
    ... )
    >>> state = ChainEngine.of(hmm, fa).start([2])
    >>> state.next_tokens().dense(3).exp()
    tensor([[1., 0., 0.]])
    >>> state.advance([0]).next_tokens().dense(3).exp()
    tensor([[0., 0., 1.]])
    """

    is_fast: ClassVar[bool] = True

    def __init__(
        self,
        guide: Chain,
        automaton: FiniteAutomaton,
        *,
        dtype: torch.dtype | None = None,
        backend: BackendName | None = None,
        memory_limit: int = _MEMORY_LIMIT,
        message_dtype: torch.dtype | None = None,
    ) -> None:
        """Join the two; nothing is computed yet.

        Args:
            guide: A real-valued chain, on any device.
            automaton: An automaton over the same tokens.
            dtype: The type to compute in, float32 (the default) or float64.
            backend: The kernels; by default the device chooses.
            memory_limit: Bytes of backward messages to keep. If all of them would take more, only
                those that prefixes need are computed, and some of them again when they are needed
                (see :mod:`pcgcd.engine.cones`).
            message_dtype: The type in which backward messages are kept, ``dtype`` or bfloat16.
        """
        if guide.vocab_size != automaton.vocab_size:
            raise VocabularyMismatchError(
                f"the guide has {guide.vocab_size:,} tokens and the automaton "
                f"{automaton.vocab_size:,}; build both for one vocabulary (the automaton's width "
                "is its vocabulary's logits_size)"
            )
        dtype = dtype or (torch.float64 if message_dtype == torch.float64 else torch.float32)
        message_dtype = message_dtype or dtype
        if message_dtype not in _MESSAGE_TYPES:
            raise InvalidParameterError(
                f"messages are kept in float32, float64 or bfloat16, but message_dtype is "
                f"{message_dtype}"
            )
        self.guide = GuideTables.of(guide, dtype)
        self.graph = Graph.of(automaton)
        self.backend = choose_backend(self.guide.device, self.guide.dtype, backend)
        self.joint_tiles: dict[tuple[int, ...], JointTiles] = {}
        self.users = Users()
        self._memory_limit, self._message_dtype = memory_limit, message_dtype

    @classmethod
    def of(
        cls, guide: Chain, automaton: FiniteAutomaton, dtype: torch.dtype = torch.float32
    ) -> ChainEngine:
        """The engine of a pair with the usual settings: one, as long as both exist unchanged."""
        # The guide keeps the engine as long as there is the automaton; the engine keeps neither.
        kept: WeakKeyDictionary[FiniteAutomaton, dict[torch.dtype, ChainEngine]] = kept_with(
            guide, "_engines", WeakKeyDictionary
        )
        engines = kept.setdefault(automaton, {})
        engine = engines.get(dtype)
        if engine is None or engine.guide is not GuideTables.of(guide, dtype):
            engine = engines[dtype] = cls(guide, automaton, dtype=dtype)
        return engine

    @cached_property
    def tiles(self) -> Tiles:
        """The vocabulary cut into classes of tokens that the automaton does not distinguish."""
        return _tiles(self.graph)

    @cached_property
    def messages(self) -> BackwardMessages:
        """The backward messages of the product."""
        return self._messages(self.graph, self.tiles)

    @cached_property
    def free_messages(self) -> BackwardMessages:
        """The backward messages of the guide alone."""
        graph = Graph.of(everything(self.graph.vocab_size))
        return self._messages(graph, _tiles(graph))

    def _messages(self, graph: Graph, tiles: Tiles) -> BackwardMessages:
        recursion = Recursion(self.guide, graph, tiles, self.backend, self._message_dtype)
        return BackwardMessages(recursion, self.users, self._memory_limit)

    def prepare(self, budget: int) -> None:
        """Make the backward messages for a text of so many tokens; more can be added later."""
        if budget < 0:
            raise InvalidParameterError(f"a budget is a number of tokens, but it is {budget}")
        self.messages.prepare(budget)

    @property
    def message_bytes(self) -> int:
        """The memory of the backward messages that are kept."""
        return self.messages.nbytes

    def log_mass(self, budget: int) -> float:
        """The log of the sum of guide(x) * (number of accepting paths of x), x of that length."""
        return self.messages.log_mass(budget)

    def check(self, budget: int) -> None:
        check_budget(self.graph, budget)

    def start(self, budgets: Sequence[int | None]) -> ChainState:
        return cast("ChainState", super().start(budgets))

    def __repr__(self) -> str:
        return (
            f"ChainEngine({self.guide.num_hidden} hidden units, {self.graph.num_states} states, "
            f"{self.guide.vocab_size} tokens)"
        )


def _tiles(graph: Graph) -> Tiles:
    return Tiles(graph.token_order, graph.class_first, graph.token_class)
