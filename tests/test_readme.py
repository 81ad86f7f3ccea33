"""The README's code runs as it is printed, and prints what is shown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.blocks import python_blocks, run_block

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_the_readme_opens_with_the_two_commands() -> None:
    head = TEXT[:300]
    assert "make demo" in head
    assert "make test" in head


def test_code_of_the_readme_runs_in_order() -> None:
    names: dict[str, Any] = {}
    for number, block in enumerate(python_blocks(TEXT)):
        run_block(block, f"README block {number}", names)


def test_an_output_that_differs_from_the_one_shown_fails() -> None:
    [block] = python_blocks("```python\nprint(1, 'second')\n```\n\n```text\n1 ...\n```\n")
    run_block(block, "right", {})
    with pytest.raises(pytest.fail.Exception, match="but prints"):
        run_block(block._replace(output="2 ...\n"), "wrong", {})


def _results(name: str) -> Any:
    return json.loads((README.parent / "docs" / "results" / f"{name}.json").read_text("utf-8"))


def _measured() -> Iterator[str]:
    """What the table of the README must say, computed from the committed results."""
    guidance, spelled = _results("guidance")["summary"], _results("guidance_spelled")["summary"]
    for task, words in (("function calls", "function calls"), ("words", "sentences")):
        rows = [row for row in guidance if row["task"] == task]
        drawn = sum(row["prompts"] * row["particles"] for row in rows)
        yield f"{sum(row['satisfied'] for row in rows):,} of {drawn:,} {words}"

    def gains(rows: Any, method: str) -> list[str]:
        by_task = {row["task"]: row for row in rows if row["method"] == method}
        found = (by_task[task] for task in ("function calls", "words"))
        return [f"{row['gain']:.1f} ± {row['standard_error']:.1f}" for row in found]

    for method, said in (
        ("twisted, spelled", "by {} on function calls and by {} on sentences"),
        ("GCD, spelled", "without an HMM {} and {}"),
        ("P-GCD alone", "P-GCD as in the paper: {} and {}"),
    ):
        yield said.format(*gains(spelled, method))
    spread = {(row["task"], row["method"]): row["variance"] for row in spelled}
    calls, words = (
        spread[task, "GCD"] / spread[task, "twisted, spelled"]
        for task in ("function calls", "words")
    )
    yield f"is {calls:.1f} and {words:.0f} times lower"
    seconds = {(row["task"], row["method"]): row["cpu_seconds"] for row in spelled}
    calls, words = (
        seconds[task, "twisted, spelled"] / seconds[task, "GCD"]
        for task in ("function calls", "words")
    )
    yield f"{calls:.1f} and {words:.1f} times the CPU time of GCD"

    bench = _results("json_schema_full")["sets"]["bench"]
    own, xgrammar, llguidance = (
        (bench[name]["wholly_right"], bench[name]["unsound"])
        for name in ("pcgcd", "xgrammar", "llguidance")
    )
    assert own[1] == 0, "then the README must not say that none lets an invalid text pass"
    yield f"Of {bench['pcgcd']['with_instances']} real JSON schemas, {own[0]} are handled fully"
    yield "XGrammar: {} and {}; llguidance: {} and {}".format(*xgrammar, *llguidance)

    shares = defaultdict(list)
    for row in _results("budget/results")["rows"]:
        if row["setting"] == "JSONSchemaBench, 32 tokens":
            shares[row["method"]].append(row["score"])
    [schemas] = {len(scores) for scores in shares.values()}
    yield f"for {schemas} of them with a budget of 32 tokens"
    names = ("GCD", "XGrammar", "llguidance", "outlines-core")
    found = [100 * sum(shares[name]) / schemas for name in names]
    assert shares["P-GCD"] == shares["GCD"]
    own_share, *others = (f"{share:.0f} %" for share in found)
    said = "XGrammar: {}, llguidance: {}, outlines-core: {}".format(*others)
    yield f"{own_share} are complete and valid ({said})"

    run = next(run for run in _results("engines")["runs"] if run["whitespace"] == "free")
    for key, sentence in (
        ("first_walk_us", "A mask takes {:.1f} µs (XGrammar: {:.1f}, llguidance: {:.0f};"),
        ("compile_cpu_ms", "takes {:.1f} ms of CPU time (XGrammar: {:.1f}, llguidance: {:.2f})"),
    ):
        engines = ("pcgcd", "xgrammar", "llguidance")
        # To two digits, as they are printed.
        medians = [float(f"{run['engines'][name][key]['p50']:.2g}") for name in engines]
        yield sentence.format(*medians)
    decoding = _results("decoding")
    ratios = [
        max(
            round(decoding["model"][task]["ratios"][method]["equal_rows"], 2)
            for task in ("function_call", "keywords")
        )
        for method in ("gcd", "pgcd")
    ]
    gcd, pgcd = ratios
    yield f"with {decoding['particles']} particles takes {gcd} times as long as without"
    yield f"and {pgcd} times with P-GCD"


def test_the_numbers_of_the_readme_are_those_of_the_results() -> None:
    missing = [sentence for sentence in _measured() if sentence not in TEXT]
    assert not missing, f"docs/results say otherwise than the README: {missing}"
