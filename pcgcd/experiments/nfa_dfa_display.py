"""The table and the picture of :mod:`pcgcd.experiments.nfa_dfa`."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from pcgcd.viz.style import BLUE, INK, ORANGE

if TYPE_CHECKING:
    from pcgcd.experiments.nfa_dfa import NfaDfaResults, Size, VectorRow

_TITLES = {
    "any": "Members in any order, repeats allowed",
    "schema": "Members in the schema's order",
}
_POINTS = 9


def report(results: NfaDfaResults) -> list[Table | str]:
    """What is printed."""
    limit = results.state_limit
    vectors = Table(
        title="add_vec_n over bytes: states (edges)", box=box.SIMPLE_HEAD, title_justify="left"
    )
    vectors.add_column("n", justify="right")
    orders = [order for order in _TITLES if _rows(results, order)]
    for order in orders:
        for kind in ("NFA", "minimal DFA"):
            short = "any order" if order == "any" else "schema's order"
            vectors.add_column(f"{short}\n{kind}", justify="right", no_wrap=True)
    for n in sorted({row.n for row in results.vectors}):
        cells = []
        for order in orders:
            for row in _rows(results, order):
                if row.n == n:
                    cells += [_cell(row.nfa, limit), _cell(row.dfa, limit)]
        vectors.add_row(str(n), *cells)
    queries = Table(
        title=f"SQL over {results.database}, sub-queries {results.max_depth} deep",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    queries.add_column("")
    for column in ("states", "edges", "labels", "transitions", "seconds"):
        queries.add_column(column, justify="right")
    for query in results.sql:
        numbers = (
            [f"over {limit:,}", "", "", ""]
            if query.size is None
            else [f"{number:,}" for number in astuple(query.size)]
        )
        queries.add_row(f"{query.granularity} {query.kind}", *numbers, f"{query.seconds:.2f}")
    tokens = results.vocabulary or "left out, since no vocabulary was given"
    notes = (
        f"Token level: {tokens}.\n"
        f"Over {limit:,}: determinizing passed so many states, for this n or for a smaller one.\n"
        "The paper's SQL grammar has 7,999 (NFA) and 57,263 (DFA) states over characters, 31,858 "
        "(NFA) over tokens; it is another grammar."
    )
    return [vectors, queries, notes]


def _rows(results: NfaDfaResults, order: str) -> list[VectorRow]:
    return [row for row in results.vectors if row.order == order]


def _cell(size: Size | None, limit: int) -> str:
    return f"over {limit:,}" if size is None else f"{size.states:,} ({size.edges:,})"


def figure(results: NfaDfaResults) -> Figure:
    """Figure 4 of the paper: states over n, once for each reading of the schema."""
    picture = Figure(figsize=(9.2, 4.1))
    panels = picture.subplots(1, 2, sharey=True)
    picture.subplots_adjust(left=0.085, right=0.985, top=0.82, bottom=0.2, wspace=0.08)
    for axes, order in zip(panels, _TITLES):
        rows = _rows(results, order)
        nfas = [(row.n, row.nfa.states) for row in rows]
        dfas = [(row.n, row.dfa.states) for row in rows if row.dfa]
        for counted, style, colour, name in (
            (nfas, "o-", BLUE, "NFA, reduced by bisimulation"),
            (dfas, "s-", ORANGE, "minimal DFA"),
        ):
            sizes, states = [n for n, _ in counted], [number for _, number in counted]
            axes.plot(sizes, states, style, color=colour, label=name, markersize=4.5)
        _frame(axes, _TITLES[order], results)
    panels[0].set_ylabel("states", fontsize=_POINTS)
    handles, names = panels[0].get_legend_handles_labels()
    picture.legend(
        handles, names, loc="upper center", ncols=len(names), frameon=False, fontsize=_POINTS
    )
    note = (
        "add_vec_n: integers x1..xn, y1..yn, of which some pair xi, yi is required. Exact counts, "
        "over bytes.\nDFAs are given up where an automaton on the way to them passes the dotted "
        "line."
    )
    picture.text(0.012, 0.02, note, size=_POINTS - 1.5, color=INK, va="bottom")
    return picture


def _frame(axes: Axes, title: str, results: NfaDfaResults) -> None:
    axes.set_yscale("log")
    axes.axhline(results.state_limit, color=INK, linewidth=0.8, linestyle=":")
    axes.set_title(title, fontsize=_POINTS + 1.5, color=INK)
    axes.set_xlabel("n", fontsize=_POINTS)
    axes.set_xticks(sorted({row.n for row in results.vectors}))
    axes.tick_params(labelsize=_POINTS - 1)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
