"""Sizes of automata for the paper's schema, against definitions that use no automata."""

from __future__ import annotations

import io
import json
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from rich.console import Console

from pcgcd.automata import FiniteAutomaton
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.constraints.sql import sql
from pcgcd.errors import InvalidParameterError
from pcgcd.experiments import nfa_dfa, nfa_dfa_display
from pcgcd.experiments.catalogue import experiment
from pcgcd.experiments.harness import runner
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.rows import Row
from pcgcd.experiments.nfa_dfa import Order, Size, add_vec, minimal_dfa, vector_row

ORDERS: tuple[Order, ...] = ("any", "schema")

SMALL = {"singer": ("name", "age")}


def names(n: int) -> list[str]:
    return [f"{letter}{i}" for letter in "xy" for i in range(1, n + 1)]


def satisfies(members: tuple[str, ...], n: int) -> bool:
    """The schema: some pair is complete."""
    return any({f"x{i}", f"y{i}"} <= set(members) for i in range(1, n + 1))


def text(members: tuple[str, ...], values: str = "7") -> bytes:
    return (
        json.dumps(dict.fromkeys(members, 0), separators=(",", ":")).replace("0", values).encode()
    )


def listed(members: tuple[str, ...]) -> bytes:
    return b"{" + b",".join(f'"{name}":-10'.encode() for name in members) + b"}"


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_accepts_exactly_the_objects_with_a_complete_pair(
    n: int, order: Order, deterministic: bool
) -> None:
    fa = compile_expression(add_vec(n, order), deterministic=deterministic)
    for size in range(2 * n + 1):
        for members in combinations(names(n), size):
            assert fa.accepts(text(members)) == satisfies(members, n)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_differ_in_which_lists_of_members_they_allow(order: Order) -> None:
    fa = minimal_dfa(2, order)
    for size in range(5):
        for members in product(names(2), repeat=size):
            ordered = list(members) == sorted(set(members))
            expected = satisfies(members, 2) and (order == "any" or ordered)
            assert fa.accepts(listed(members)) == expected


def test_values_are_integers() -> None:
    fa = minimal_dfa(1, "schema")
    for value in ("0", "-0", "10", "-123"):
        assert fa.accepts(text(("x1", "y1"), value))
    for value in ("", "-", "01", "1.5", "1e3", '"1"', "null", " 1"):
        assert not fa.accepts(text(("x1", "y1"), value))


def test_states_with_choices_grow_linearly_in_any_order() -> None:
    counts = [vector_row(n, "any", None).nfa.states for n in range(2, 10)]
    growth = {later - earlier for earlier, later in pairwise(counts)}
    assert len(growth) == 1


def test_states_with_choices_grow_quadratically_in_schema_order() -> None:
    counts = [vector_row(n, "schema", None).nfa.states for n in range(2, 10)]
    growth = [later - earlier for earlier, later in pairwise(counts)]
    assert len({later - earlier for earlier, later in pairwise(growth)}) == 1


def test_no_automaton_in_schema_order_is_smaller_than_quadratic() -> None:
    """A fooling set: each own pair is accepted, and of any two crossed ones at most one."""
    n = 6
    place = {name: index for index, name in enumerate(names(n))}

    def valid(members: tuple[str, ...]) -> bool:
        places = [place[name] for name in members]
        return all(a < b for a, b in pairwise(places)) and satisfies(members, n)

    pairs = [((f"x{i}", f"x{j}"), (f"x{j + 1}", f"y{i}")) for i, j in combinations(range(1, n), 2)]
    assert len(pairs) == (n - 1) * (n - 2) // 2
    assert all(valid(start + end) for start, end in pairs)
    for (start, end), (other_start, other_end) in combinations(pairs, 2):
        assert not (valid(start + other_end) and valid(other_start + end))


@pytest.mark.parametrize(("order", "base"), [("any", 3), ("schema", 2)])
def test_deterministic_states_grow_exponentially(order: Order, base: int) -> None:
    """At least one state for each memory of what was seen, and at least doubled by each pair."""
    counts = {n: minimal_dfa(n, order).num_states for n in range(1, 7)}
    for n in range(2, 7):
        assert counts[n] >= base**n
        assert counts[n] >= 2 * counts[n - 1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_deterministic_one_is_minimal(n: int, order: Order) -> None:
    minimal = minimal_dfa(n, order)
    reference = DFA.from_nfa(as_library_nfa(compile_expression(add_vec(n, order)))).minify()
    assert minimal.is_deterministic
    # automata-lib's automaton is complete, so it has a state for what cannot be saved any more.
    assert minimal.num_states == len(reference.to_complete().states) - 1


def as_library_nfa(fa: FiniteAutomaton) -> NFA:
    """For automata-lib, over the bytes that occur in these texts."""
    moves: dict[int, dict[str, set[int]]] = {state: {} for state in range(fa.num_states)}
    symbols = {chr(byte) for byte in b'{}":,-xy0123456789'}
    for source, target, label in zip(fa.source, fa.target, fa.label):
        for byte in fa.labels.tokens(int(label)):
            moves[int(source)].setdefault(chr(byte), set()).add(int(target))
    return NFA(
        states=set(moves),
        input_symbols=symbols,
        transitions=moves,
        initial_state=int(fa.initial_mask.argmax()),
        final_states={state for state in moves if fa.accepting_mask[state]},
    )


def test_size_counts_every_entry_of_the_emission_matrix() -> None:
    fa = compile_expression(add_vec(2, "any"), deterministic=False)
    size = Size.of(fa)
    assert size.transitions == sum(len(fa.labels.tokens(int(label))) for label in fa.label)
    assert (size.states, size.edges) == (fa.num_states, fa.num_edges)


def test_limit_is_reported_and_larger_ones_are_not_tried() -> None:
    rows = nfa_dfa.vector_rows((2, 3, 4, 5), "any", 300)
    fits = {row.n: row.dfa is not None for row in rows}
    assert fits[2]
    assert not fits[4]
    assert not fits[5]
    queries = nfa_dfa.sql_rows(SMALL, None, max_depth=0, state_limit=300)
    assert any(row.size is None for row in queries)
    results = nfa_dfa.NfaDfaResults(300, tuple(rows), tuple(queries), "an example", 0, None)
    assert "over 300" in printed(results)


def test_token_level_automata_are_as_large_as_those_over_bytes_or_smaller() -> None:
    """Between tokens an automaton is in some state over bytes; one more is for the padding."""
    words = [bytes([byte]) for byte in range(128)] + [b"SELECT", b" FROM ", b"name", None]
    vocabulary = Vocabulary.from_bytes(words, len(words) - 1)
    rows = {
        (row.granularity, row.kind): row.size
        for row in nfa_dfa.sql_rows(SMALL, vocabulary, max_depth=0, labels=["n"])
    }
    for kind in ("NFA", "DFA"):
        over_bytes, over_tokens = rows["byte", kind], rows["token", kind]
        assert over_bytes is not None
        assert over_tokens is not None
        assert over_tokens.states <= over_bytes.states + 1
        assert over_tokens.transitions > 0


def test_sql_automata_have_the_language_of_the_constraint() -> None:
    constraint = sql(SMALL, max_depth=0, labels=["n"])
    for deterministic in (False, True):
        fa = compile_expression(constraint.expression, deterministic=deterministic)
        assert fa.accepts(b"SELECT name FROM singer WHERE age > 20")
        assert not fa.accepts(b"SELECT name FORM singer")


def test_results_table_and_figure_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PCGCD_DATA", raising=False)
    monkeypatch.setattr(nfa_dfa, "EXAMPLE_DATABASE", {"t": ("a",)})
    runner.run(experiment("nfa-dfa"), Options(limit=3), tmp_path)
    stored = json.loads((tmp_path / "results.json").read_text())
    rows = [Row.from_dict(row) for row in stored["rows"]]
    results = nfa_dfa.results_of(rows, stored["facts"])
    assert [row.n for row in results.vectors] == [1, 2, 3, 1, 2, 3]
    assert results.vectors[2].dfa == Size.of(minimal_dfa(3, "any"))
    assert [row.kind for row in results.sql] == ["NFA", "DFA"]
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "table.md").read_text()
    for row in results.vectors:
        assert f"{row.nfa.states:,} ({row.nfa.edges:,})" in table


def printed(results: nfa_dfa.NfaDfaResults) -> str:
    console = Console(file=io.StringIO(), width=120)
    for part in nfa_dfa_display.report(results):
        console.print(part)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


@pytest.mark.parametrize(("n", "order"), [(0, "any"), (2, "alphabetical")])
def test_wrong_arguments_are_refused(n: int, order: Order) -> None:
    with pytest.raises(InvalidParameterError):
        add_vec(n, order)
