"""Function calls in JSON and in Python-like syntax (section 5.2, Figure 2, Table 1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pcgcd.constraints import Constraint, function_call
from pcgcd.errors import InvalidParameterError, PcgcdError
from pcgcd.experiments.calls import STYLES, Style, gold_call, rate_call
from pcgcd.experiments.data.bfcl import CallExample, read_bfcl
from pcgcd.experiments.data.xlam import read_xlam
from pcgcd.experiments.harness.generating import Example, generation_plan
from pcgcd.experiments.harness.options import Options, part_of
from pcgcd.experiments.harness.reports import Report, figure_against_k, summary_table
from pcgcd.experiments.harness.rows import Plan, Row
from pcgcd.experiments.harness.statistics import measure
from pcgcd.experiments.held_out import held_out, trained_on
from pcgcd.experiments.tasks import tool_prompts
from pcgcd.learning import Source

NAME = "function-calling"
SUMMARY = "accuracy and satisfaction of function calls against the number of particles"
METHODS = ("LM", "LCD+SMC", "GCD+SMC", "P-GCD+SMC", "P-GCD+SMC+potential", "twisted+SMC")
COLUMNS = {
    "accuracy, %": ("score", 100.0),
    "right function, %": ("right_function", 100.0),
    "satisfied, %": ("satisfied", 100.0),
}

_BFCL_FILES = ("simple_python", "multiple", "live_simple")
_FORMS: Mapping[Style, str] = {
    "json": 'one JSON object {"name": <function>, "arguments": {<argument>: <value>, ...}}',
    "python": "one call in Python with named arguments, function(argument=value, ...)",
}
_LONGEST_PROMPT = 3_000  # characters of the functions


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    settings = options.settings(
        particles=(1, 2, 4, 8, 16), seeds=1, methods=METHODS, budgets=("+4", "+12", "128"), limit=20
    )
    examples = examples_of(options, settings["limit"], tuple(STYLES))
    return generation_plan(examples, options, settings)


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    return Report(
        [summary_table(rows, "Function calls", COLUMNS)],
        {
            "accuracy": figure_against_k(rows, measure("score"), "accuracy, %", scale=100),
            "satisfied": figure_against_k(rows, measure("satisfied"), "satisfied, %", scale=100),
            "log_evidence": figure_against_k(rows, measure("log_evidence"), "log-evidence"),
        },
    )


def examples_of(options: Options, limit: int, styles: Sequence[Style]) -> list[Example]:
    """Questions of the part asked for whose right answer satisfies the constraint, each style."""
    found: list[CallExample] = []
    kept = part_of(*_named(call_examples(options.folder)), options.part)
    for example in kept:
        if len(found) == limit:
            break
        if all(_is_possible(example, style) for style in styles):
            found.append(example)
    return [call_task(example, style) for example in found for style in styles]


def training_prompts(folder: Path) -> list[Source]:
    """Questions of BFCL that no table is about, as this experiment asks them, in each style."""
    found = trained_on(folder, tool_prompts, _bfcl(folder), _asked)
    kept = [example for example in found if _is_one_call(example)]
    return [Source(call_prompt(example, style)) for example in kept for style in STYLES]


def _named(examples: Sequence[CallExample]) -> tuple[Sequence[CallExample], list[str]]:
    return examples, [example.name for example in examples]


def call_examples(folder: Path) -> list[CallExample]:
    """Questions of BFCL, or of xLAM, that ask for one call, and that no HMM was distilled on."""
    if (folder / "xlam").is_dir():
        found = [e for path in sorted((folder / "xlam").glob("*.json*")) for e in read_xlam(path)]
    else:
        found = held_out(folder, tool_prompts, _bfcl(folder), _asked)
    return [example for example in found if _is_one_call(example)]


def _bfcl(folder: Path) -> list[CallExample]:
    paths = [folder / "bfcl" / f"{name}.jsonl" for name in _BFCL_FILES]
    found = [example for path in paths if path.is_file() for example in read_bfcl(path)]
    if not found:
        raise InvalidParameterError(
            f"function calls were expected in {folder.name}/bfcl ({', '.join(_BFCL_FILES)}) or "
            f"{folder.name}/xlam, but there are none"
        )
    return found


def _asked(example: CallExample) -> str:
    return str(example.question[-1]["content"])


def _is_one_call(example: CallExample) -> bool:
    """Return whether one message asks for one call, and the functions are described briefly."""
    short = len(json.dumps(example.tools)) <= _LONGEST_PROMPT
    return len(example.answers) == 1 and len(example.question) == 1 and short


def call_task(example: CallExample, style: Style) -> Example:
    """One question as a task."""
    return Example(
        example.name,
        STYLES[style],
        call_prompt(example, style),
        partial(_constraint, example, style),
        partial(rate_call, example=example, style=style),
    )


def call_prompt(example: CallExample, style: Style) -> list[dict[str, str]]:
    """Return the functions, how to call them, and the question."""
    tools = [{"type": "function", "function": dict(tool)} for tool in example.tools]
    system = (
        "You can call these functions:\n"
        + "\n".join(json.dumps(tool) for tool in tools)
        + f"\nAnswer with {_FORMS[style]}, and nothing else: no explanation, no Markdown."
    )
    return [{"role": "system", "content": system}, *map(dict, example.question)]


def _constraint(example: CallExample, style: Style) -> Constraint:
    return function_call([dict(tool) for tool in example.tools], style=style)


def _is_possible(example: CallExample, style: Style) -> bool:
    """Return whether the right answer satisfies the functions' descriptions, as in the paper."""
    try:
        return _constraint(example, style).matches(gold_call(example, style))
    except PcgcdError:
        return False
