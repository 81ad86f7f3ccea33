"""Automata to and from automata-lib, networkx and graphviz."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.empty_moves import assemble
from pcgcd.automata.graphs import Graph
from pcgcd.automata.vocabulary.token_sets import describe, from_ranges, to_ranges
from pcgcd.automata.weights import language_only
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    import networkx as nx
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA


def _symbols(symbols: Sequence[str] | None, vocab_size: int) -> list[str]:
    if symbols is None:
        return [chr(v) if vocab_size == 256 else str(v) for v in range(vocab_size)]
    if len(symbols) != vocab_size or len(set(symbols)) != vocab_size:
        raise InvalidParameterError(
            f"symbols must be {vocab_size} different strings, one for each token, but there are "
            f"{len(symbols)}, {len(set(symbols))} of them different"
        )
    return list(symbols)


def _token_sets(fa: FiniteAutomaton) -> list[list[int]]:
    return [fa.labels.tokens(label).tolist() for label in range(fa.labels.num_labels)]


# -- automata-lib -----------------------------------------------------------------------------


def to_automata_lib(fa: FiniteAutomaton, symbols: Sequence[str] | None = None) -> DFA | NFA:
    """An automaton of automata-lib: a (partial) DFA if it is deterministic, otherwise an NFA.

    Args:
        fa: The automaton.
        symbols: The symbol of each token. By default the character of each byte, if it is over
            the 256 bytes, otherwise the token's number as text.
    """
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    language_only("to_automata_lib", fa)
    names = _symbols(symbols, fa.vocab_size)
    members = [[names[v] for v in tokens] for tokens in _token_sets(fa)]
    states = set(range(fa.num_states))
    final = set(np.flatnonzero(fa.accepting_mask).tolist())
    edges = list(zip(fa.source.tolist(), fa.target.tolist(), fa.label.tolist()))
    starts = np.flatnonzero(fa.initial_mask).tolist()
    if fa.is_deterministic:
        moves: dict[int, dict[str, int]] = {s: {} for s in states}
        for source, target, label in edges:
            moves[source].update(dict.fromkeys(members[label], target))
        return DFA(
            states=states,
            input_symbols=set(names),
            transitions=moves,
            initial_state=starts[0],
            final_states=final,
            allow_partial=True,
        )
    choices: dict[int, dict[str, set[int]]] = {s: {} for s in states}
    for source, target, label in edges:
        for symbol in members[label]:
            choices[source].setdefault(symbol, set()).add(target)
    start = starts[0] if len(starts) == 1 else fa.num_states
    if len(starts) != 1:  # automata-lib has one initial state
        choices[start] = {"": set(starts)}
    return NFA(
        states=set(choices),
        input_symbols=set(names),
        transitions=choices,
        initial_state=start,
        final_states=final,
    )


def from_automata_lib(machine: DFA | NFA, symbols: Sequence[str] | None = None) -> FiniteAutomaton:
    """The automaton of an automata-lib DFA or NFA, trim and without empty moves.

    Args:
        machine: The DFA or NFA.
        symbols: The symbol of each token. By default all symbols must be characters up to
            U+00FF, and the automaton is over the 256 bytes.
    """
    names = _symbols(symbols, 256 if symbols is None else len(symbols))
    number = {name: v for v, name in enumerate(names)}
    unknown = sorted(str(symbol) for symbol in machine.input_symbols if symbol not in number)
    if unknown:
        raise InvalidParameterError(
            f"the automaton has the symbols {unknown[:5]}, which are no tokens; pass "
            f"symbols=[...] with one string for each token"
        )
    index = {state: i for i, state in enumerate(sorted(machine.states, key=str))}
    empty: list[tuple[int, int]] = []
    edges: list[tuple[int, int, list[int]]] = []
    for state, ways in machine.transitions.items():
        for symbol, targets in ways.items():
            for target in targets if isinstance(targets, set | frozenset) else {targets}:
                pair = (index[state], index[target])
                if symbol == "":
                    empty.append(pair)
                else:
                    edges.append((*pair, [number[symbol]]))
    start = [index[machine.initial_state]]
    ends = [index[state] for state in machine.final_states]
    fa = FiniteAutomaton.from_edges(
        num_states=len(index), vocab_size=len(names), initial=start, accepting=ends, edges=edges
    )
    moves = np.array(empty, dtype=np.int64).reshape(-1, 2).T
    whole = assemble([Graph.of(fa)], [(moves[0], moves[1])], 0, start, ends)
    return whole.numbered().automaton()


# -- networkx ---------------------------------------------------------------------------------


def to_networkx(fa: FiniteAutomaton) -> nx.MultiDiGraph:
    """A graph: nodes with ``initial`` and ``accepting``, edges with ``tokens`` and a ``label``.

    The edges of a weighted automaton have a ``weight`` besides.
    """
    import networkx as nx

    graph = nx.MultiDiGraph(vocab_size=fa.vocab_size)
    for state in range(fa.num_states):
        initial, accepting = bool(fa.initial_mask[state]), bool(fa.accepting_mask[state])
        graph.add_node(state, initial=initial, accepting=accepting)
    labels = [(tuple(tokens), describe(tokens, fa.vocab_size)) for tokens in _token_sets(fa)]
    for edge, label in enumerate(fa.label.tolist()):
        data = dict(zip(("tokens", "label"), labels[label]))
        if fa.weight is not None:
            data["weight"] = float(fa.weight[edge])
        graph.add_edge(int(fa.source[edge]), int(fa.target[edge]), **data)
    return graph


def from_networkx(graph: Any, vocab_size: int | None = None) -> FiniteAutomaton:
    """The automaton of a directed graph, with the attributes that :func:`to_networkx` writes.

    Args:
        graph: A DiGraph or MultiDiGraph; its nodes are numbered in their order. If an edge has a
            ``weight``, then the automaton is weighted; edges without one weigh one.
        vocab_size: The number of tokens; by default the graph's attribute of that name.
    """
    size = graph.graph.get("vocab_size") if vocab_size is None else vocab_size
    if size is None:
        raise InvalidParameterError(
            "the graph has no attribute vocab_size; pass vocab_size=..., the number of tokens"
        )
    index = {node: i for i, node in enumerate(graph.nodes)}
    edges, weights = [], []
    for source, target, data in graph.edges(data=True):
        if "tokens" not in data:
            raise InvalidParameterError(
                f"the edge from {source!r} to {target!r} has no attribute tokens; give every edge "
                f"the tokens it admits"
            )
        edges.append((index[source], index[target], data["tokens"]))
        weights.append(data.get("weight"))
    return FiniteAutomaton.from_edges(
        num_states=len(index),
        vocab_size=size,
        initial=[index[node] for node, data in graph.nodes(data=True) if data.get("initial")],
        accepting=[index[node] for node, data in graph.nodes(data=True) if data.get("accepting")],
        edges=edges,
        weights=_weights(weights),
    )


def _weights(given: Sequence[Any]) -> list[Any] | None:
    """The weights of edges that may have none; None if none has one."""
    if all(weight is None for weight in given):
        return None
    return [1.0 if weight is None else weight for weight in given]


# -- graphviz ---------------------------------------------------------------------------------


def to_dot(fa: FiniteAutomaton) -> str:
    """Text for graphviz, from which :func:`from_dot` can make the same automaton again."""
    lines = [
        "digraph automaton {",
        f'  graph [rankdir=LR, vocab_size="{fa.vocab_size}"];',
        "  node [shape=circle];",
    ]
    for state in range(fa.num_states):
        shape = "doublecircle" if fa.accepting_mask[state] else "circle"
        lines.append(f"  {state} [shape={shape}];")
    for state in np.flatnonzero(fa.initial_mask).tolist():
        lines += [f"  start{state} [shape=point];", f"  start{state} -> {state};"]
    attributes = []
    for tokens in _token_sets(fa):
        text = describe(tokens, fa.vocab_size).replace("\\", "\\\\").replace('"', '\\"')
        attributes.append(f'label="{text}", tokens="{to_ranges(tokens)}"')
    for edge, label in enumerate(fa.label.tolist()):
        weight = "" if fa.weight is None else f', weight="{float(fa.weight[edge])!r}"'
        lines.append(f"  {fa.source[edge]} -> {fa.target[edge]} [{attributes[label]}{weight}];")
    return "\n".join([*lines, "}", ""])


_VOCAB_SIZE = re.compile(r'vocab_size="(\d+)"')
_STATE = re.compile(r"^\s*(\d+) \[shape=(circle|doublecircle)\];$", re.MULTILINE)
_START = re.compile(r"^\s*start\d+ -> (\d+);$", re.MULTILINE)
_EDGE = re.compile(
    r'^\s*(\d+) -> (\d+) \[.*tokens="([\d,-]*)"(?:, weight="([^"]*)")?\];$', re.MULTILINE
)


def from_dot(text: str) -> FiniteAutomaton:
    """The automaton of a text that :func:`to_dot` wrote; other graphviz text is not understood."""
    size, states = _VOCAB_SIZE.search(text), _STATE.findall(text)
    if size is None or not states:
        raise InvalidParameterError(
            "this is no text that to_dot wrote: it needs vocab_size and the states of an automaton"
        )
    edges = _EDGE.findall(text)
    return FiniteAutomaton.from_edges(
        num_states=len(states),
        vocab_size=int(size[1]),
        initial=[int(state) for state in _START.findall(text)],
        accepting=[int(state) for state, shape in states if shape == "doublecircle"],
        edges=[(int(a), int(b), from_ranges(tokens)) for a, b, tokens, _ in edges],
        weights=_weights([weight or None for *_, weight in edges]),
    )
