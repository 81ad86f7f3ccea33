"""docs/results/README.md: what the experiments found beside what the paper reports.

    python benchmarks/paper.py           writes docs/results/README.md
    python benchmarks/paper.py --check   ends with status 1 if that would change it

Our numbers are read from docs/results/NAME/results.json; an experiment without one is listed as not
run. The paper's are those of its tables. What they mean is written by hand in paper.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import RESULTS
from rich.table import Table

from pcgcd.experiments import runtime
from pcgcd.experiments.catalogue import EXPERIMENTS
from pcgcd.experiments.harness.reports import (
    in_order,
    log_evidence,
    markdown_table,
    models_text,
    table_of,
    written,
)
from pcgcd.experiments.harness.rows import Row
from pcgcd.experiments.harness.statistics import estimate, grouped, measure
from pcgcd.experiments.nfa_dfa import results_of

PAGE = RESULTS / "README.md"
NOTES = Path(__file__).with_suffix(".md")

Shown = Callable[[Sequence[Row], dict[str, Any]], list[Table | str]]


def _by_k(
    rows: Sequence[Row],
    title: str,
    name: str,
    scale: float,
    paper: dict[tuple[str, int], float] | None = None,
    where: str = "",
) -> Table:
    """A measure of each setting and method against k.

    The paper's number stands behind ours in the settings that it is about, whose name contains
    ``where``.
    """
    groups = grouped(rows)
    all_k = sorted({group[2] for group in groups})
    table = table_of(title, "setting", "method", *(f"k = {k}" for k in all_k), left=2)
    for setting in dict.fromkeys(group[0] for group in groups):
        own = {group[1:]: found for group, found in groups.items() if group[0] == setting}
        for method in in_order([group[0] for group in own]):
            cells = []
            for k in all_k:
                found = own.get((method, k), ())
                of_evidence = name == "log_evidence" and found
                value = log_evidence(found) if of_evidence else estimate(found, measure(name))
                known = (paper or {}).get((method, k)) if where in setting else None
                shown = written(value, scale)
                cells.append(shown if known is None else f"{shown} (paper {known:g})")
            table.add_row(setting, method, *cells)
    return table


def _log_evidence(rows: Sequence[Row]) -> Table:
    title = "Log-evidence, where no run lost all its particles"
    return _by_k(rows, title, "log_evidence", 1)


def _function_calling(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    paper = {("LCD+SMC", 4): 95.26, ("LCD+SMC", 16): 95.40}
    paper |= {(name, k): 100.0 for name in ("GCD+SMC", "P-GCD+SMC") for k in (4, 16)}
    title = "Constraint satisfaction, % (Table 1)"
    return [
        _by_k(rows, title, "satisfied", 100, paper, where="JSON, n = 128"),
        _by_k(rows, "Accuracy, % (Figure 2 has no numbers)", "score", 100),
        _log_evidence(rows),
    ]


def _commongen(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    return [
        _by_k(rows, "Expected BLEU-4 (Figure 3 has no numbers)", "score", 1),
        _by_k(rows, "Satisfied, %", "satisfied", 100),
        _log_evidence(rows),
    ]


def _spider(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    table = {
        "LCD+SMC": (59.8, 65.4, 67.2),
        "GCD+SMC": (59.0, 66.8, 69.0),
        "P-GCD+SMC": (56.2, 67.9, 69.1),
    }
    paper = {(m, k): v for m, values in table.items() for k, v in zip((1, 4, 8), values)}
    title = "Execution accuracy, % (Table 4)"
    return [
        _by_k(rows, title, "score", 100, paper, where="n = 128"),
        _by_k(rows, "Satisfied, %", "satisfied", 100),
        _log_evidence(rows),
    ]


def _hmm_size(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    return [
        _by_k(rows, "Accuracy, % (Table 3: LCD 66.4 to 69.7, P-GCD 65.4 to 71.6)", "score", 100),
        _log_evidence(rows),
    ]


def _runtime(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    table = table_of(
        "Slowdown beside unconstrained generation (Table 2)", "method", "ours", "paper"
    )
    for name, values in runtime.slowdowns(rows).items():
        mean = sum(values) / len(values)
        table.add_row(name, f"{mean:.3f}", f"{runtime.PAPER.get(name, float('nan')):g}")
    return [table]


def _nfa_dfa(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    paper = {("byte", "NFA"): "7,999", ("byte", "DFA"): "57,263", ("token", "NFA"): "31,858"}
    paper["token", "DFA"] = "out of memory"
    table = table_of("States of the SQL constraint (Table 5)", "automaton", "ours", "paper")
    found = results_of(rows, facts)
    for row in found.sql:
        states = f"over {found.state_limit:,}" if row.size is None else f"{row.size.states:,}"
        table.add_row(f"{row.granularity} {row.kind}", states, paper[row.granularity, row.kind])
    return [table]


def _bias(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    """The two claims: P-GCD at k = 4 beside LCD+SMC at k = 64, and the variance of Z."""
    rows = [row for row in rows if "missing" not in row.measures]
    table = table_of(
        "Total variation to the posterior, and the variance of Z / Z²",
        *("model", "method", "k", "languages", "total variation", "variance of Z / Z²"),
        left=2,
    )
    groups = grouped(rows)
    wanted = [("posterior", 64), ("LCD+SMC", 4), ("LCD+SMC", 64), ("GCD+SMC", 4), ("GCD+SMC", 64)]
    for name in ("P-GCD+SMC", "P-GCD+SMC+potential", "twisted+SMC"):
        wanted += [(name, 4), (name, 64)]
    wanted += [(f"genlm-control, {name}", k) for name in ("AWRS", "product") for k in (4, 64)]
    for setting in dict.fromkeys(group[0] for group in groups):
        for method, k in wanted:
            found = groups.get((setting, method, k))
            if found:
                spread = estimate(found, measure("var_z"))
                table.add_row(
                    setting,
                    method,
                    str(k),
                    str(len({row.key.example for row in found})),
                    written(estimate(found, measure("tv")), digits=3),
                    "–" if spread is None else f"{spread.mean:.3g}",
                )
    return [table]


def _budget(rows: Sequence[Row], facts: dict[str, Any]) -> list[Table | str]:
    table = table_of(
        "Complete and valid within the budget, % of texts", "setting", "method", "ours", left=2
    )
    for (setting, method, _), found in grouped(rows).items():
        if not any("missing" in row.measures for row in found):
            scored = [row if row.score is not None else Row(row.key, score=0.0) for row in found]
            table.add_row(setting, method, written(estimate(scored, measure("score")), 100))
    return [table]


SECTIONS: dict[str, Shown] = {
    "function-calling": _function_calling,
    "commongen": _commongen,
    "spider": _spider,
    "runtime": _runtime,
    "hmm-size": _hmm_size,
    "nfa-dfa": _nfa_dfa,
    "bias": _bias,
    "budget": _budget,
}


def notes() -> dict[str, str]:
    """What is written by hand: a head under the empty name, and what each experiment shows."""
    head, *parts = re.split(r"^## ", NOTES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = (part.partition("\n") for part in parts)
    return {"": head.strip(), **{name.strip(): text.strip() for name, _, text in found}}


def section(name: str, note: str) -> str:
    """One experiment: the command, the tables, and what they mean."""
    path = RESULTS / name / "results.json"
    if not path.is_file():
        return f"## {name}\n\nNot run yet: `pcgcd experiment {name}`.\n"
    results = json.loads(path.read_text(encoding="utf-8"))
    rows = [Row.from_dict(row) for row in results["rows"]]
    ended = "" if results["complete"] else f" of {results['planned']:,} planned, ended early"
    lines = [
        f"## {name}",
        f"`{results['command']}`: {len(rows):,} rows{ended}. "
        f"Everything: [`{name}/table.md`]({name}/table.md).",
    ]
    lines += models_text(results["facts"])
    for part in SECTIONS[name](rows, results["facts"]):
        lines.append(markdown_table(part) if isinstance(part, Table) else part)
    lines += [note] * bool(note)
    return "\n\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    written_by_hand = notes()
    parts = (section(name, written_by_hand.get(name, "")) for name in EXPERIMENTS)
    return "\n".join([written_by_hand[""] + "\n", *parts])


def main(argv: list[str] | None = None, target: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args(argv)
    text = page()
    if arguments.check:
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            return 0
        print(
            "docs/results/README.md is not made from docs/results: run python benchmarks/paper.py"
        )
        return 1
    target.write_text(text, encoding="utf-8")
    print(f"written: docs/results/{target.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
