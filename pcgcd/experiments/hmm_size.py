"""What more hidden states are worth (Table 3): P-GCD with several HMMs beside LCD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pcgcd.experiments.function_calling import COLUMNS, examples_of
from pcgcd.experiments.harness.generating import generation_plan
from pcgcd.experiments.harness.options import Options
from pcgcd.experiments.harness.reports import Report, figure_against_k, summary_table
from pcgcd.experiments.harness.rows import Plan, Row
from pcgcd.experiments.harness.statistics import measure

NAME = "hmm-size"
SUMMARY = "accuracy and log-evidence of function calls against the HMM's hidden states"
METHODS = ("LCD+SMC", "GCD+SMC", "P-GCD+SMC", "twisted+SMC")


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    settings = options.settings(
        particles=(1, 2, 4, 8, 16), seeds=1, methods=METHODS, budgets=("+12", "128"), limit=20
    )
    guides = {f", H = {hmm.num_hidden:,}": hmm for hmm in options.guides.values()}
    examples = examples_of(options, settings["limit"], ("json",))
    return generation_plan(examples, options, settings, guides)


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    return Report(
        [summary_table(rows, "Function calls in JSON with HMMs of several sizes", COLUMNS)],
        {
            "accuracy": figure_against_k(rows, measure("score"), "accuracy, %", scale=100),
            "log_evidence": figure_against_k(rows, measure("log_evidence"), "log-evidence"),
        },
    )
