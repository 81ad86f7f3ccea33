"""The benchmarks' page of the documentation, made from the committed results.

    python benchmarks/tables.py           writes docs/benchmarks.md
    python benchmarks/tables.py --check   ends with status 1 if that would change it

Each table is the one that its benchmark prints, read from docs/results and written as Markdown.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from common import RESULTS
from rich.table import Table

from pcgcd.experiments.harness.reports import markdown_table

PAGE = RESULTS.parent / "benchmarks.md"

HEAD = """\
# Benchmarks

This page is made by `python benchmarks/tables.py` from the files in `docs/results`. `make bench`
runs the benchmarks and then makes this page. `benchmarks/README.md` says how each thing is measured
and how to install the other libraries. The experiments of the paper are at the end; what they found
stands beside the paper's numbers on [a page of its own](results/README.md).

All numbers are from CPUs. Nothing here was run on a GPU. The machine had 2 cores and other work on
it: each section names its load. Each measurement is a process of its own with one thread, and what
stands in one table was measured in one run, so ratios say more than milliseconds.
"""


class Section(NamedTuple):
    """One result file of the page."""

    title: str
    question: str
    show: Callable[[Any], list[Table | str]]


def _printed(module: str) -> Callable[[Any], list[Table | str]]:
    """The tables that a benchmark prints."""
    return lambda results: list(importlib.import_module(module).tables(results))


def _guidance(results: Any) -> list[Table | str]:
    from pcgcd.experiments.guidance import report

    # What the first runs, of one seed, did not measure.
    missing = {"seeds": 1, "variance": float("nan"), "cpu_seconds": float("nan")}
    rows = [{**missing, **row} for row in results["summary"]]
    for row in rows:
        row.setdefault("texts", row["prompts"] * row["seeds"] * row["particles"])
    return [report(rows)]


SECTIONS = {
    "first_answers": Section(
        "First answers",
        "What does a person get who asks an ordinary question and sets nothing? And which white "
        "space of JSON suits language models: none, what `json.dumps` writes (*bounded*, the "
        "default), or any? *beam* is `temperature=0`; *default* is sampling without any option, "
        "*gcd* the same without the look-ahead to the spelling. SmolLM2-135M (the default model), "
        "Qwen2.5-Coder-0.5B, both asked in a chat, and Gemma-3-270M, a base model that continues "
        "the question. Of the 20 answers, the default model itself gives four wrong ones a higher "
        "probability than the right ones.",
        _printed("first_answers"),
    ),
    "build": Section(
        "Building JSON schemas",
        "How long does a JSON schema take to build, how much memory, and how long does a first "
        "use wait for compiled loops? Schemas of JSONSchemaBench. Goals: full automaton p50 30, "
        "p95 400, max 3,000 ms; first mask p50 5, p95 50 ms; memory 150 MB. All of them are met, "
        "with the library's defaults: objects are closed, and white space is bounded. Seven of the "
        "schemas are refused for a misspelled keyword; with `open_objects=True` that is a warning.",
        _printed("build"),
    ),
    "engines": Section(
        "Masks of JSON schemas",
        "How long until the first mask of a JSON schema, how long a mask, how much memory? "
        "The schemas are those of function calls (BFCL). *pcgcd* is the LCD mask, *pcgcd, budget* "
        "the GCD mask, *pcgcd lazy* builds masks when they are first needed.",
        _printed("engines"),
    ),
    "json_schema": Section(
        "JSON schemas, every second one",
        "On how many real schemas is an engine fully correct, and on how many does it accept an "
        "invalid text (unsound)? *bench* is JSONSchemaBench, *suite* the official test suite. How "
        "free JSON values are nested was settled while looking at failures in JSONSchemaBench, so "
        "that row is not a held-out one for pcgcd.",
        _printed("json_schema_suite"),
    ),
    "json_schema_full": Section(
        "JSON schemas, all",
        "The same on every schema, without the two slowest configurations. pcgcd is that of commit "
        "3e9120a; the machine was busy, so the two schemas on which the others passed the limit "
        "of CPU seconds were measured once more. Where pcgcd passed it, it was not.",
        _printed("json_schema_suite"),
    ),
    "decoding": Section(
        "Decoding",
        "What does constrained generation cost beside the language model?",
        _printed("decoding"),
    ),
    "lm_engines": Section(
        "Engines for the language model",
        "How many tokens a CPU-second do the engines compute for particles that all differ, and do "
        "they say the same? The default model, one thread. *As it comes* is the model of "
        "transformers with layers of torch and a copy of the prompt for each particle.",
        _printed("lm_engines"),
    ),
    "product": Section(
        "The product, step by step",
        "How long does a step of `hmm * fa` take while decoding, and the backward pass, beside the "
        "paper's Algorithm 1 as printed? *one pass* is the time to read the allowed rows of the "
        "emission once, which no exact method can avoid.",
        _printed("product"),
    ),
    "product_build": Section(
        "Building the product",
        "How long does `hmm * fa` take to build, and how much memory?",
        _printed("product_build"),
    ),
    "em": Section("EM", "How long does one epoch of EM take?", _printed("em")),
    "guidance": Section(
        "What an HMM is worth",
        "With equally many particles, how much higher is the estimate of log p(constraint) with "
        "the default HMM than with GCD alone? All estimates of p(constraint) are unbiased, "
        "so a higher mean logarithm means that fewer particles are wasted. *gain* is the mean "
        "difference to GCD and its standard error over prompts. `pcgcd experiment guidance` makes "
        "this table.",
        _guidance,
    ),
    "guidance_portfolio": Section(
        "A guide alone, and beside GCD",
        "The same with version 0.2: portfolios, in which a quarter of the particles are GCD's at "
        "first, and then as many as the weights suggest; and the two examples of the "
        "documentation. *variance* is that of the log-evidence of one prompt over seeds. "
        "Nothing looks ahead to the spelling here.",
        _guidance,
    ),
    "guidance_spelled": Section(
        "Looking ahead to the spelling",
        "The same with methods that avoid tokens after which the language model could not spell "
        'what must follow as it always does. "GCD, spelled" is the default without an HMM, '
        '"twisted, spelled" with one: a tenth, and one of 8 particles, are GCD\'s at first, and '
        "resampling by the HMM is hedged. All choices were made on other prompts. The rows of GCD, "
        "of P-GCD alone and of GCD, spelled are those of an earlier run, which nothing changes; "
        "times were measured beside other work.",
        _guidance,
    ),
    "guidance_samples": Section(
        "An HMM from 30,000 samples, and GCD at equal time",
        "The same with an HMM of the same size that was distilled from 30,000 samples of four "
        "kinds of prompts, and with GCD at twice the particles, which takes about as long as the "
        "default method on words, and longer on function calls. The rows of GCD and of GCD, "
        "spelled on function calls, which need no HMM, are those of the table above.",
        _guidance,
    ),
    "prompt_knowledge": Section(
        "What a guide may know of the prompt",
        "How much better than the bare HMM is the text ahead predicted? *Given the prompt*: with "
        "copying, as by default. *Head*: the hidden state is what a linear head makes of the "
        "language model's own state (after LTLA), at the prompt only or at each token; its epoch "
        "was chosen on the same samples, which flatters it. *Adapted*: EM on 32 other answers to "
        "the same prompt (`adapt=32`), then given the prompt. The bare HMM needs 80 nats for the "
        "tokens ahead on average, so a better hidden state brings little; adapted emissions bring "
        "more. The head was left out of the library.",
        _printed("prompt_knowledge"),
    ),
    "hidden_states": Section(
        "Hidden states",
        "What are more hidden states worth? All models learnt from the same samples of the default "
        "model, and are measured on answers to prompts that were held out.",
        _printed("hidden_states"),
    ),
    "sql": Section(
        "SQL",
        "How many of Spider's gold queries does `sql` accept (with white space as people write "
        "it), and how many of its samples does SQLite prepare against the real database? Samples "
        "are drawn along the edges of the automaton, or byte by byte with every allowed byte "
        "alike; short ones end as soon as they can after up to 20 bytes, long ones after up to "
        "300.",
        _printed("sql_coverage"),
    ),
}


def _parts(shown: list[Table | str]) -> Iterator[str]:
    for part in shown:
        if isinstance(part, Table):
            yield markdown_table(part)
        else:
            yield "  \n".join(line.strip() for line in str(part).splitlines())


def _facts(results: Any) -> str:
    """The command and the machine, as far as the file names them."""
    facts = []
    if command := results.get("command"):
        facts.append(f"Command: `{command}`.")
    if machine := results.get("machine"):
        facts.append(
            f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['threads']} "
            f"thread used, Python {machine['python']}, load average {machine['load_average']:g} at "
            "the start."
        )
    if versions := results.get("versions"):
        named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        facts.append(f"Versions: {named}.")
    return " ".join(facts)


def section(path: Path) -> str:
    """One result file as a section of the page."""
    read = json.loads(path.read_text(encoding="utf-8"))
    results = read if isinstance(read, dict) else {}
    known = SECTIONS.get(path.stem)
    parts = [f"## {known.title if known else path.stem}"]
    if known:
        parts.append(known.question)
        parts += _parts(known.show(results))
    picture = path.with_suffix(".png")
    if picture.is_file():
        parts.append(f"![{path.stem}](results/{picture.name})")
    parts.append(f"{_facts(results)} Numbers: [`{path.name}`](results/{path.name}).".strip())
    if method := results.get("method"):
        parts.append(f'??? note "How it was measured"\n\n    {method}')
    return "\n\n".join(parts) + "\n"


EXPERIMENTS = {
    "function-calling": "Function calls (Figure 2, Table 1)",
    "commongen": "Sentences with given words (Figure 3)",
    "spider": "Questions to databases (Table 4)",
    "runtime": "What a token costs (Table 2)",
    "hmm-size": "Hidden states and function calls (Table 3)",
    "nfa-dfa": "NFA against DFA (Figure 4, Table 5)",
    "bias": "Distance to the posterior",
    "budget": "Complete and valid within a budget",
}


def experiment_section(name: str, path: Path) -> str:
    """The results of ``pcgcd experiment`` as a section of the page."""
    from pcgcd.experiments.catalogue import experiment
    from pcgcd.experiments.harness.reports import markdown
    from pcgcd.experiments.harness.runner import show

    results = json.loads(path.read_text(encoding="utf-8"))
    shown = markdown(show(experiment(name), results), results, f"results/{name}/")
    numbers = f"Numbers: [`{name}/{path.name}`](results/{name}/{path.name})."
    return f"## {EXPERIMENTS[name]}\n\n{shown}\n{numbers}\n"


def page(folder: Path = RESULTS) -> str:
    """The whole page: first the sections above, then what else lies in the folder."""
    paths = {path.stem: path for path in sorted(folder.glob("*.json"))}
    order = [name for name in SECTIONS if name in paths]
    order += [name for name in paths if name not in SECTIONS]
    made = [
        experiment_section(name, path)
        for name in EXPERIMENTS
        if (path := folder / name / "results.json").is_file()
    ]
    return "\n".join([HEAD, *(section(paths[name]) for name in order), *made])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    arguments = parser.parse_args(argv)
    text = page()
    if arguments.check:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
            return 0
        print("docs/benchmarks.md is not made from docs/results: run python benchmarks/tables.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print("written: docs/benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
