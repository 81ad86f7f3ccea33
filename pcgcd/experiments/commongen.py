"""Sentences with given words (section 5.3, Figure 3): expected BLEU-4 and coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pcgcd.basics.packages import package
from pcgcd.constraints import keywords
from pcgcd.experiments.data.commongen import Concepts, read_commongen
from pcgcd.experiments.harness.generating import Example, generation_plan
from pcgcd.experiments.harness.options import Options, part_of
from pcgcd.experiments.harness.reports import Report, figure_against_k, summary_table
from pcgcd.experiments.harness.rows import Plan, Row
from pcgcd.experiments.harness.statistics import measure

NAME = "commongen"
SUMMARY = "BLEU-4 and coverage of sentences with given words against the number of particles"
METHODS = ("LM", "LCD+SMC", "GCD+SMC", "P-GCD+SMC", "P-GCD+SMC+potential", "twisted+SMC")
COLUMNS = {
    "BLEU-4": ("score", 1.0),
    "coverage, %": ("coverage", 100.0),
    "satisfied, %": ("satisfied", 100.0),
}


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    settings = options.settings(
        particles=(1, 4, 16), seeds=1, methods=METHODS, budgets=("32",), limit=40
    )
    package("sacrebleu", "BLEU")
    sets = [
        concepts
        for concepts in read_commongen(options.folder / "commongen" / "dev.jsonl")
        if all(word.isascii() and word.isalpha() for word in concepts.words) and concepts.references
    ]
    kept = part_of(sets, [concepts.name for concepts in sets], options.part)[: settings["limit"]]
    return generation_plan([task(concepts) for concepts in kept], options, settings)


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    return Report(
        [summary_table(rows, "Sentences with given words", COLUMNS)],
        {
            "bleu": figure_against_k(rows, measure("score"), "expected BLEU-4"),
            "log_evidence": figure_against_k(rows, measure("log_evidence"), "log-evidence"),
        },
    )


def task(concepts: Concepts) -> Example:
    """One set of words as a task."""
    asked = f"Write a short sentence with the words: {', '.join(concepts.words)}."
    return Example(
        concepts.name,
        "",
        [{"role": "user", "content": asked}],
        partial(keywords, concepts.words, ends_with=".!", alphabet="ascii"),
        partial(rate, concepts=concepts),
    )


def rate(text: str, concepts: Concepts) -> dict[str, float]:
    """BLEU-4 of a sentence against all references (sacrebleu), and how many words it mentions."""
    bleu = package("sacrebleu", "BLEU").sentence_bleu(text.strip(), list(concepts.references))
    mentioned = [keywords([word]).matches(text) for word in concepts.words]
    return {"score": float(bleu.score), "coverage": sum(mentioned) / len(mentioned)}
