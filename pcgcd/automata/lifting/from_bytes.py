"""From an automaton over bytes to one over tokens.

A token is allowed in a state if its bytes lead somewhere, so the token automaton accepts every
tokenization of every text of the byte automaton, also with tokens that straddle what the constraint
thinks of as parts, or that split a character.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from pcgcd.automata.arrays import frozen, joined
from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.cache import AutomatonCache
from pcgcd.automata.kernels.lifting import walk_all
from pcgcd.automata.kernels.renumbering import kept_edges, split_edges
from pcgcd.automata.kernels.tables import steps_to_accept
from pcgcd.automata.kernels.walks import Moves
from pcgcd.automata.lifting.patterns import make_moves
from pcgcd.automata.lifting.token_classes import factored
from pcgcd.automata.limits import NEVER
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.automata.vocabulary.template_store import TemplateStore
from pcgcd.automata.weights import language_only
from pcgcd.basics.keeping import kept_with
from pcgcd.basics.memory import give_back
from pcgcd.errors import AutomatonTooLargeError, VocabularyMismatchError

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_INTERVAL_LIMIT = 1 << 26
_TEMPLATE_ROOM = 1 << 24
_SHARED = 2048  # states of automata whose walks are shared with others
_MANY_EDGES = 200_000  # what they are made from is worth giving back


def lift(
    byte_automaton: FiniteAutomaton,
    vocabulary: Vocabulary,
    *,
    cache: AutomatonCache | Path | str | None = None,
) -> FiniteAutomaton:
    """Lift a byte automaton to a token automaton, padded with end-of-sequence tokens.

    It accepts a sequence of tokens iff the tokens before the first EOS spell a text that the byte
    automaton accepts, and from there on all are EOS. So "accepted at length n" means "a text of at
    most n tokens". Only states between tokens are kept: reachable ones that can still accept. The
    last state is the one after EOS, if the language is not empty.

    Byte automata with one path for each text give token automata with one path for each
    tokenization: paths over tokens are paths over bytes.

    Args:
        byte_automaton: An automaton over the 256 bytes, deterministic or not.
        vocabulary: The tokens.
        cache: A folder where results are kept between runs.

    Raises:
        VocabularyMismatchError: The automaton is not over bytes.
        AutomatonTooLargeError: The token sets pass the limit of memory.

    >>> ab = FiniteAutomaton.from_edges(
    ...     num_states=3,
    ...     vocab_size=256,
    ...     initial=0,
    ...     accepting={2},
    ...     edges=[(0, 1, b"a"), (1, 2, b"b")],
    ... )
    >>> fa = lift(ab, Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3))
    >>> fa
    FiniteAutomaton(4 states, 5 edges, 4 labels, 4 tokens)
    >>> (*map(fa.accepts, ([0, 1], [2], [2, 3, 3], [0, 3])),)
    (True, True, True, False)
    """
    if cache is None:
        return _lifted(byte_automaton, vocabulary)
    store = cache if isinstance(cache, AutomatonCache) else AutomatonCache(Path(cache))
    return store.get(byte_automaton, vocabulary, _lifted)


@dataclass(frozen=True, eq=False)
class ByteTable:
    """A byte automaton, trimmed and indexed for walks.

    Attributes:
        moves: Its transitions.
        distance: The least number of bytes from each state to acceptance, or NEVER, (S,).
        is_shared: Whether walks are shared with all automata over the same tokens. Large ones would
            leave no room for those of others.
        templates: The walks that only its own states share, otherwise.
    """

    moves: Moves
    distance: Array
    is_shared: bool
    templates: TemplateStore = field(default_factory=TemplateStore)

    @classmethod
    def of(cls, automaton: FiniteAutomaton, vocabulary: Vocabulary) -> ByteTable:
        """The table of an automaton over bytes, without bytes that occur in no token."""
        language_only("lift", automaton)
        if automaton.vocab_size != 256:
            raise VocabularyMismatchError(
                f"only automata over the 256 bytes can be lifted to tokens, but this one has "
                f"{automaton.vocab_size} symbols; is it lifted already?"
            )
        classes = np.unique(automaton.labels.token_class[vocabulary.used_bytes])
        useful = np.any(automaton.labels.label_class[:, classes], axis=1)[automaton.label]
        if useful.all():
            distance = automaton.distance_to_accept.copy()
        else:
            distance = steps_to_accept(
                automaton.source[useful], automaton.target[useful], automaton.accepting_mask
            )
        useful &= distance[automaton.target] < NEVER
        is_shared = automaton.num_states <= _SHARED
        moves = make_moves(
            automaton.source[useful],
            automaton.target[useful],
            automaton.label[useful],
            automaton.labels.label_class,
            automaton.labels.token_class,
            automaton.num_states,
            is_shared=is_shared,
        )
        return cls(moves, distance, is_shared)

    @classmethod
    def shared(cls, automaton: FiniteAutomaton, vocabulary: Vocabulary) -> ByteTable:
        """The same, made once for as long as somebody has it: masks and a lifting need one both."""
        kept = _TABLES.setdefault(automaton, WeakValueDictionary())
        table = kept.get(vocabulary)
        if table is None:
            table = kept[vocabulary] = cls.of(automaton, vocabulary)
        return table

    @property
    def num_states(self) -> int:
        """The number of states so far."""
        return len(self.distance)

    def complete(self, state: int) -> bool:
        """Write what is not there yet where a walk has met a state; False if all is there."""
        return False

    def complete_all(self) -> None:
        """Write all that is not there yet."""

    def store(self, vocabulary: Vocabulary) -> TemplateStore:
        """The walks to share."""
        return vocabulary.templates if self.is_shared else self.templates

    def walk(
        self, sources: Array, vocabulary: Vocabulary, *, follow: bool
    ) -> tuple[Array, Array, Array, Array, Array, Array]:
        """The edges over tokens that leave states.

        Args:
            sources: The states to start from.
            vocabulary: The tokens.
            follow: Whether to go on from the states reached.

        Returns:
            The states walked from; source, target and label of each edge; where the bounds of each
            label begin, and these bounds: intervals of ranks.
        """
        with self.store(vocabulary).borrowed() as box:
            *result, box.templates = walk_all(
                sources.astype(np.int64),
                follow,
                vocabulary.trie.nodes,
                vocabulary.trie.max_depth,
                self.moves,
                box.templates,
                _TEMPLATE_ROOM,
                _INTERVAL_LIMIT,
            )
        walked, parts, labels, complete = result
        if not complete:
            raise AutomatonTooLargeError(
                f"the token sets of {len(walked):,} of {len(self.distance):,} states take more "
                f"than {_INTERVAL_LIMIT:,} intervals of tokens; reduce the automaton, or make the "
                f"constraint smaller"
            )
        first = labels.first[: labels.total[0] + 1]
        source, target, label = map(joined, parts)
        return walked, source, target, label, first, labels.pool[: first[-1]]


# Beside the automata, not in them: what refers to others weakly cannot be pickled.
_TABLES: WeakKeyDictionary[FiniteAutomaton, WeakValueDictionary[Vocabulary, ByteTable]]
_TABLES = WeakKeyDictionary()


def _lifted(automaton: FiniteAutomaton, vocabulary: Vocabulary) -> FiniteAutomaton:
    table = ByteTable.shared(automaton, vocabulary)
    if automaton.num_edges > _MANY_EDGES:
        give_back()
    starts = np.flatnonzero(automaton.initial_mask & (table.distance < NEVER))
    walked, source, target, label, first, bounds = table.walk(starts, vocabulary, follow=True)
    del table  # most of the memory
    # The padding: one more state, and one more label.
    end = automaton.num_states
    accepting = np.append(automaton.accepting_mask, True)
    ends = np.append(walked[accepting[walked]], np.int32(end))
    distance = steps_to_accept(source, target, accepting)
    kept = np.append(walked[distance[walked] < NEVER], end)
    if len(kept) == 1:
        return _empty(vocabulary)
    number = np.full(len(accepting), -1, dtype=np.int32)
    number[kept] = np.arange(len(kept))
    inside = number[source] >= 0
    inside &= number[target] >= 0
    is_used = np.zeros(len(first), dtype=np.bool_)
    is_used[label[inside]] = True
    is_used[-1] = True
    labels = factored(vocabulary, first, bounds, np.flatnonzero(is_used))
    rank = np.cumsum(is_used) - 1
    target, offsets = kept_edges(source, target, label, number, ends, rank, len(kept))
    del first, bounds, inside, label  # much memory, before there is more
    source, label = split_edges(target, offsets)
    source.flags.writeable = target.flags.writeable = label.flags.writeable = False
    initial = np.zeros(len(kept), dtype=np.bool_)
    initial[number[starts[number[starts] >= 0]]] = True
    result = FiniteAutomaton(
        num_states=len(kept),
        source=source,
        target=target,
        label=label,
        labels=labels,
        initial_mask=frozen(initial),
        accepting_mask=frozen(accepting[kept]),
    )
    kept_with(result, "distance_to_accept", lambda: frozen(distance[kept]))
    if result.num_edges > _MANY_EDGES:
        give_back()
    return result


def _empty(vocabulary: Vocabulary) -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=1, vocab_size=vocabulary.logits_size, initial=0, accepting=(), edges=()
    )
