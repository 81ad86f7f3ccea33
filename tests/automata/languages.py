"""Random automata and expressions, and their languages written out."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import strategies as st

from pcgcd import FiniteAutomaton
from pcgcd.automata import expressions as ex

Word = tuple[int, ...]

VOCAB_SIZE = 3
LENGTH = 4
WORDS: list[Word] = [
    word
    for length in range(LENGTH + 1)
    for word in itertools.product(range(VOCAB_SIZE), repeat=length)
]


@st.composite
def automata(draw: st.DrawFn, max_states: int = 4, vocab_size: int = VOCAB_SIZE) -> FiniteAutomaton:
    """Automata with choices, several initial states, dead states and empty languages."""
    num_states = draw(st.integers(1, max_states))
    states = st.integers(0, num_states - 1)
    tokens = st.sets(st.integers(0, vocab_size - 1))
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=vocab_size,
        initial=draw(st.sets(states)),
        accepting=draw(st.sets(states)),
        edges=draw(st.lists(st.tuples(states, states, tokens), max_size=9)),
    )


def language(fa: FiniteAutomaton) -> set[Word]:
    """All words up to LENGTH, by following every path in plain Python."""
    members = [frozenset(fa.labels.tokens(label).tolist()) for label in fa.label]
    edges = list(zip(fa.source.tolist(), fa.target.tolist(), members))

    def reads(word: Word) -> bool:
        states = {s for s in range(fa.num_states) if fa.initial_mask[s]}
        for token in word:
            states = {t for s, t, tokens in edges if s in states and token in tokens}
        return any(fa.accepting_mask[s] for s in states)

    return {word for word in WORDS if reads(word)}


def up_to_length(words: set[Word]) -> set[Word]:
    return {word for word in words if len(word) <= LENGTH}


def joined(left: set[Word], right: set[Word]) -> set[Word]:
    return up_to_length({a + b for a in left for b in right})


def minimal_size(fa: FiniteAutomaton) -> int:
    """States of automata-lib's minimal DFA, without its dead state."""
    edges: dict[int, dict[str, set[int]]] = {s: {} for s in range(fa.num_states)}
    for source, target, label in zip(fa.source.tolist(), fa.target.tolist(), fa.label.tolist()):
        for token in fa.labels.tokens(label).tolist():
            edges[source].setdefault(str(token), set()).add(target)
    edges[fa.num_states] = {"": {s for s in range(fa.num_states) if fa.initial_mask[s]}}
    nfa = NFA(
        states=set(edges),
        input_symbols={str(v) for v in range(fa.vocab_size)},
        transitions=edges,
        initial_state=fa.num_states,
        final_states={s for s in range(fa.num_states) if fa.accepting_mask[s]},
    )
    return len(DFA.from_nfa(nfa, minify=True).to_partial(minify=True).states)


def expressions(depth: int = 3) -> st.SearchStrategy[ex.Expression]:
    """Expressions over the bytes a, b and c, of every kind."""
    leaves: st.SearchStrategy[ex.Expression] = st.one_of(
        st.text("ab", max_size=3).map(ex.literal),
        st.sets(st.sampled_from(b"abc"), min_size=1).map(ex.byte_set),
        st.sampled_from([ex.EMPTY_STRING, ex.NOTHING, ex.ANY_BYTE, ex.ANYTHING]),
    )
    if not depth:
        return leaves
    part = expressions(depth - 1)
    several = st.lists(part, min_size=1, max_size=3)

    def spread(combine: Callable[..., ex.Expression]) -> st.SearchStrategy[ex.Expression]:
        return several.map(lambda parts: combine(*parts))

    repeats = st.tuples(part, st.integers(0, 2), st.none() | st.integers(0, 2)).map(
        lambda x: ex.repeat(x[0], x[1], None if x[2] is None else x[1] + x[2])
    )
    members = st.lists(st.builds(ex.Member, part, st.booleans()), min_size=1, max_size=3)
    any_order = st.builds(
        ex.any_order, members, leaves, st.integers(0, 2), st.none() | st.integers(1, 3)
    )
    return st.one_of(
        leaves,
        spread(ex.concatenation),
        spread(ex.union),
        spread(ex.intersection),
        repeats,
        part.map(ex.complement),
        any_order,
    )
