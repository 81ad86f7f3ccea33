"""How much smaller automata are that need not be deterministic (section 5.5, Figure 4).

``pcgcd experiment nfa-dfa`` prints it.

The function ``add_vec_n`` has integer arguments x1..xn and y1..yn, and wants at least one pair
xi, yi: ``anyOf: [{required: [xi, yi]}, ...]``. As texts, its arguments can be read in two ways:

- ``any``: every compact JSON text whose object satisfies the schema. Members come in any order, and
  JSON does not forbid to repeat one. An automaton with choices guesses i when it meets the first
  half of the pair, and needs a loop for each of the 2n halves: linear in n. A deterministic one
  remembers for each i which half it has seen, if any: 3 ** n.
- ``schema``: members in the order of the schema, each at most once. An automaton with choices has
  to remember the place in the list beside i: quadratic in n. None does better, because texts that
  begin with xi, xj (i < j < n) and end with x(j+1), yi are a fooling set of (n - 1) (n - 2) / 2
  pairs. A deterministic one remembers which of the x it has seen: 2 ** n.

From n = 10 on names have a digit more, which adds a little to both.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from pcgcd.automata import algebra
from pcgcd.automata.expressions import (
    Expression,
    byte_range,
    concatenation,
    literal,
    option,
    star,
    union,
)
from pcgcd.automata.expressions.compilation import compile_expression
from pcgcd.automata.lifting import lift
from pcgcd.automata.vocabulary import Vocabulary
from pcgcd.constraints.sql import sql
from pcgcd.errors import AutomatonTooLargeError, InvalidParameterError
from pcgcd.experiments import nfa_dfa_display as display
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.reports import Report
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row

if TYPE_CHECKING:
    from pcgcd.automata import FiniteAutomaton
    from pcgcd.constraints.sql.database import Database

Order: TypeAlias = Literal["any", "schema"]

ORDERS: tuple[Order, ...] = ("any", "schema")
SIZES = tuple(range(1, 13))
STATE_LIMIT = 500_000
MAX_DEPTH = 2
SPIDER_DATABASE = "concert_singer"
# Used where no database is given: three tables of the size that Spider's have.
EXAMPLE_DATABASE = {
    "singer": ("singer_id", "name", "country", "age"),
    "concert": ("concert_id", "title", "theme", "venue_id", "year"),
    "venue": ("venue_id", "name", "city", "capacity"),
}
_COMMA = literal(",")
_INTEGER = option(literal("-")) + (
    literal("0") | byte_range(0x31, 0x39) + star(byte_range(0x30, 0x39))
)


@dataclass(frozen=True)
class Size:
    """The size of an automaton.

    Attributes:
        states: The number of states.
        edges: The number of edges, at most one from each state to each other.
        labels: The number of distinct sets that they carry.
        transitions: The sum of the sizes of these sets over all edges: the entries of B_f.
    """

    states: int
    edges: int
    labels: int
    transitions: int

    @classmethod
    def of(cls, fa: FiniteAutomaton) -> Size:
        """Return the size of an automaton, without writing out B_f."""
        in_class = np.bincount(fa.labels.token_class, minlength=fa.labels.num_classes)
        members = fa.labels.label_class.astype(np.int64) @ in_class
        transitions = int(members[fa.label].sum())
        return cls(fa.num_states, fa.num_edges, fa.labels.num_labels, transitions)


@dataclass(frozen=True)
class VectorRow:
    """``add_vec_n`` over bytes.

    Attributes:
        n: The number of pairs.
        order: See the module.
        nfa: With choices, reduced by bisimulation.
        dfa: The minimal deterministic automaton; None where one on the way to it, or to that of a
            smaller n, passed the limit.
    """

    n: int
    order: Order
    nfa: Size
    dfa: Size | None


@dataclass(frozen=True)
class SqlRow:
    """The SQL constraint over bytes or tokens.

    Attributes:
        granularity: "byte" or "token".
        kind: "NFA" (reduced by bisimulation) or "DFA" (minimal).
        size: None where it passed the limit.
        seconds: How long it took to make from the one before: the NFA over bytes from the
            database, the DFA from the NFA, those over tokens from those over bytes.
    """

    granularity: str
    kind: str
    size: Size | None
    seconds: float


@dataclass(frozen=True)
class NfaDfaResults:
    """All the numbers.

    Attributes:
        state_limit: Where deterministic automata are given up.
        vectors: One row for each order and n.
        sql: The rows of the SQL table.
        database: Which database its queries are about.
        max_depth: How many sub-queries may be inside one another.
        vocabulary: Which tokens the token level has; None if it was left out.
    """

    state_limit: int
    vectors: tuple[VectorRow, ...]
    sql: tuple[SqlRow, ...]
    database: str
    max_depth: int
    vocabulary: str | None


# -- add_vec_n --------------------------------------------------------------------------------


def add_vec(n: int, order: Order = "any", pairs: Iterable[int] | None = None) -> Expression:
    """Return the arguments of ``add_vec_n`` as compact JSON.

    Args:
        n: The number of pairs.
        order: See the module.
        pairs: Which pairs satisfy the schema; all by default.

    >>> fa = compile_expression(add_vec(2, "schema"))
    >>> fa.accepts(b'{"x1":4,"y1":-20}'), fa.accepts(b'{"x1":4,"y2":-20}')
    (True, False)
    """
    if n < 1:
        raise InvalidParameterError(f"add_vec_n needs at least one pair, but n is {n}")
    chosen = range(1, n + 1) if pairs is None else pairs
    if order == "any":
        body = _in_any_order(n, chosen)
    elif order == "schema":
        body = union(*(_in_schema_order(n, i) for i in chosen))
    else:
        raise InvalidParameterError(f"order must be one of {', '.join(ORDERS)}, but is {order!r}")
    return concatenation(literal("{"), body, literal("}"))


def _names(n: int) -> list[str]:
    return [f"{letter}{i}" for letter in "xy" for i in range(1, n + 1)]


def _member(*names: str) -> Expression:
    return union(*(literal(f'"{name}":') for name in names)) + _INTEGER


def _in_any_order(n: int, pairs: Iterable[int]) -> Expression:
    """Members, one half of a pair, members, the other half, members."""
    anything = _member(*_names(n))
    some = star(anything + _COMMA)
    halves = ((_member(f"x{i}"), _member(f"y{i}")) for i in pairs)
    pair = union(
        *(concatenation(a, _COMMA, some, b) for x, y in halves for a, b in ((x, y), (y, x)))
    )
    return concatenation(some, pair, star(_COMMA + anything))


def _in_schema_order(n: int, pair: int) -> Expression:
    """Each member at most once, those of the pair exactly once."""
    first, second = pair - 1, n + pair - 1
    parts = []
    for place, name in enumerate(_names(n)):
        member = _member(name)
        if place < first:
            parts.append(option(member + _COMMA))
        elif place == first:
            parts.append(member)
        else:
            parts.append(_COMMA + member if place == second else option(_COMMA + member))
    return concatenation(*parts)


def minimal_dfa(n: int, order: Order, state_limit: int = STATE_LIMIT) -> FiniteAutomaton:
    """Return the minimal deterministic automaton of :func:`add_vec`, made pair by pair.

    Subsets of the automaton for all pairs at once are many more than are different in the end;
    united with one pair after the other and minimized in between, they stay few.

    Raises:
        AutomatonTooLargeError: An automaton on the way passed the limit.
    """

    def one(i: int) -> FiniteAutomaton:
        return compile_expression(add_vec(n, order, [i]), deterministic=True)

    result = algebra.minimize(one(1), state_limit=state_limit)
    for i in range(2, n + 1):
        result = algebra.minimize(algebra.union(result, one(i)), state_limit=state_limit)
    return result


def vector_row(n: int, order: Order, state_limit: int | None = STATE_LIMIT) -> VectorRow:
    """Both automata for one n; with no limit given (None) the deterministic one is not tried.

    >>> row = vector_row(3, "any")
    >>> row.nfa.states, row.dfa.states
    (93, 267)
    """
    nfa = compile_expression(add_vec(n, order), deterministic=False)
    dfa = None
    if state_limit is not None:
        with suppress(AutomatonTooLargeError):
            dfa = Size.of(minimal_dfa(n, order, state_limit))
    return VectorRow(n, order, Size.of(nfa), dfa)


def vector_rows(
    sizes: Sequence[int], order: Order, state_limit: int = STATE_LIMIT
) -> list[VectorRow]:
    """Rows for growing n; once the limit is passed, larger ones are not tried."""
    rows: list[VectorRow] = []
    for n in sorted(sizes):
        fits = not rows or rows[-1].dfa is not None
        rows.append(vector_row(n, order, state_limit if fits else None))
    return rows


# -- SQL --------------------------------------------------------------------------------------


def gpt2_vocabulary(folder: Path) -> Vocabulary:
    """GPT-2's tokens from its own ``encoder.json``, which writes bytes as characters."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = sorted(set(range(256)) - set(shown))
    byte_of = {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}
    numbers = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    eos = numbers.pop("<|endoftext|>")
    tokens: list[bytes | None] = [None] * (1 + max(eos, *numbers.values()))
    for word, number in numbers.items():
        tokens[number] = bytes(byte_of[character] for character in word)
    return Vocabulary.from_bytes(tokens, eos)


def sql_rows(
    database: Database,
    vocabulary: Vocabulary | None,
    *,
    max_depth: int = MAX_DEPTH,
    labels: Sequence[str] | None = None,
    state_limit: int = STATE_LIMIT,
) -> list[SqlRow]:
    """Return the sizes of the SQL constraint; over tokens too if there is a vocabulary."""
    rows = []
    started = time.perf_counter()

    def add(granularity: str, kind: str, fa: FiniteAutomaton | None) -> None:
        nonlocal started
        now = time.perf_counter()
        rows.append(SqlRow(granularity, kind, Size.of(fa) if fa else None, now - started))
        started = time.perf_counter()

    nfa = sql(database, max_depth=max_depth, labels=labels).automaton
    add("byte", "NFA", nfa)
    dfa = _minimized(nfa, state_limit)
    add("byte", "DFA", dfa)
    if vocabulary is not None:
        token_nfa = lift(nfa, vocabulary)
        add("token", "NFA", token_nfa)
        # A token is a string of bytes, so determinism is kept: the DFA's own lift is a DFA.
        deterministic = token_nfa if dfa is None else lift(dfa, vocabulary)
        add("token", "DFA", _minimized(deterministic, state_limit))
    return rows


def _minimized(fa: FiniteAutomaton, state_limit: int) -> FiniteAutomaton | None:
    try:
        return algebra.minimize(fa, state_limit=state_limit)
    except AutomatonTooLargeError:
        return None


# -- the experiment ---------------------------------------------------------------------------

NAME = "nfa-dfa"
SUMMARY = "how much smaller automata with choices are"
SQL = "SQL"
_VECTORS: Mapping[Order, str] = {"any": "any order", "schema": "schema's order"}
_NUMBERS = ("states", "edges", "labels", "transitions")


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`.

    ``limit`` is the largest n. Queries are about a database of Spider and over GPT-2's tokens where
    the data folder has them, else about a small example and without tokens.
    """
    sizes = SIZES[: options.limit]
    folder = _folder(options.data)
    database, about = _database(folder)
    vocabulary, words = _tokens(folder)
    levels = ("byte",) if vocabulary is None else ("byte", "token")
    jobs = [
        Job(
            tuple(_key(str(n), setting, kind) for n in sizes for kind in ("NFA", "DFA")),
            partial(_vector_results, sizes, order),
        )
        for order, setting in _VECTORS.items()
    ]
    keys = tuple(_key(level, SQL, kind) for level in levels for kind in ("NFA", "DFA"))
    jobs.append(Job(keys, partial(_sql_results, database, vocabulary)))
    facts = {
        "sizes": sizes,
        "state_limit": STATE_LIMIT,
        "database": about,
        "max_depth": MAX_DEPTH,
        "vocabulary": words,
    }
    return Plan(facts, jobs)


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    results = results_of(rows, facts)
    return Report(display.report(results), {"sizes": display.figure(results)})


def results_of(rows: Sequence[Row], facts: Mapping[str, Any]) -> NfaDfaResults:
    """Return the rows of a run as the numbers that they are."""
    found = {(row.key.setting, row.key.example, row.key.method): row for row in rows}

    def size(*key: str) -> Size | None:
        return _size(found[key]) if key in found else None

    vectors = []
    for order, setting in _VECTORS.items():
        for n in facts["sizes"]:
            nfa = size(setting, str(n), "NFA")
            if nfa is not None:
                vectors.append(VectorRow(n, order, nfa, size(setting, str(n), "DFA")))
    queries = [
        SqlRow(level, kind, size(SQL, level, kind), found[SQL, level, kind].seconds)
        for level in ("byte", "token")
        for kind in ("NFA", "DFA")
        if (SQL, level, kind) in found
    ]
    names = ("state_limit", "database", "max_depth", "vocabulary")
    given = {name: facts[name] for name in names}
    return NfaDfaResults(vectors=tuple(vectors), sql=tuple(queries), **given)


def _key(example: str, setting: str, kind: str) -> Key:
    return Key(example, setting, kind, 0, 0)


def _row(key: Key, size: Size | None, seconds: float = 0.0) -> Row:
    measures = {} if size is None else {name: getattr(size, name) for name in _NUMBERS}
    score = None if size is None else float(size.states)
    return Row(key, score=score, seconds=round(seconds, 3), measures=measures)


def _size(row: Row) -> Size | None:
    return Size(*(int(row.measures[name]) for name in _NUMBERS)) if row.measures else None


def _vector_results(sizes: Sequence[int], order: Order) -> list[Row]:
    return [
        _row(_key(str(row.n), _VECTORS[order], kind), size)
        for row in vector_rows(sizes, order)
        for kind, size in (("NFA", row.nfa), ("DFA", row.dfa))
    ]


def _sql_results(database: Database, vocabulary: Vocabulary | None) -> list[Row]:
    return [
        _row(_key(row.granularity, SQL, row.kind), row.size, row.seconds)
        for row in sql_rows(database, vocabulary)
    ]


def _folder(given: Path | None) -> Path | None:
    """Return the data folder, if there is one: this experiment can do without."""
    named = os.environ.get("PCGCD_DATA")
    return given if given is not None else None if named is None else Path(named)


def _database(folder: Path | None) -> tuple[Database, str]:
    path = f"spider/database/{SPIDER_DATABASE}/{SPIDER_DATABASE}.sqlite"
    if folder is not None and (folder / path).is_file():
        return folder / path, f"Spider's {SPIDER_DATABASE}"
    return EXAMPLE_DATABASE, "an example with three tables"


def _tokens(folder: Path | None) -> tuple[Vocabulary | None, str | None]:
    gpt2 = None if folder is None else folder / "tokenizers" / "gpt2"
    if gpt2 is None or not (gpt2 / "encoder.json").is_file():
        return None, None
    vocabulary = gpt2_vocabulary(gpt2)
    return vocabulary, f"GPT-2, {vocabulary.size:,} tokens"
