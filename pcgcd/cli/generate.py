"""``pcgcd generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcgcd.cli.constraints import add_constraint_options, read_constraint
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits import CircuitLike
    from pcgcd.decoding import Generation

_METHODS = ("pgcd", "twisted", "gcd", "lcd", "unconstrained", "rejection")
# The options that have the names of parameters of pcgcd.decoding.generate.
_PASSED_ON = (
    *("budget", "particles", "method", "w", "potential", "resampling", "ess_threshold"),
    *("temperature", "top_k", "top_p", "stop", "seed", "cache"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add_constraint_options(parser)
    add = parser.add_argument_group("what to generate").add_argument
    add("--prompt", required=True, metavar="TEXT", help="what the text follows")
    add("--chat", action="store_true", help="send the prompt as a chat message")
    add("--budget", type=int, default=128, help="the largest number of tokens (%(default)s)")
    add("--stop", action="append", metavar="TEXT", help="end the text here; repeat")
    add = parser.add_argument_group("how").add_argument
    add("--method", choices=_METHODS, default="pgcd", help="(%(default)s)")
    add("--particles", type=int, default=8, help="the number of texts (%(default)s)")
    add("--model", help="a model's folder, hub id or GGUF file; without it, the default model")
    add(
        "--hmm",
        action="append",
        help="an HMM's folder or hub id; the default model has one; repeat it for a mixture",
    )
    add("--w", type=float, help="weight of the model (0.7 for pgcd, 0.5 for twisted)")
    add(
        "--potential",
        choices=["pgcd", "prefix", "local", "terminal"],
        help="what rates unfinished texts; by default what goes with the method",
    )
    add("--plain", action="store_true", help="independent samples: do not resample particles")
    add(
        "--resampling",
        choices=["systematic", "stratified", "residual", "multinomial"],
        default="systematic",
        help="(%(default)s)",
    )
    add("--ess-threshold", type=float, default=0.5, help="(%(default)s)")
    add("--temperature", type=float, default=1.0, help="(%(default)s)")
    add("--top-k", type=int, help="keep the k most likely tokens")
    add("--top-p", type=float, help="keep tokens of this total probability")
    add("--seed", type=int, help="the same seed gives the same texts")
    add("--cache", type=Path, help="folder in which compiled automata are kept")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _guide(arguments: argparse.Namespace) -> CircuitLike | None:
    from pcgcd.circuits import mixture
    from pcgcd.hmm import default_hmm, load_hmm

    if arguments.hmm is not None:
        hmms = [load_hmm(folder) for folder in arguments.hmm]
        return hmms[0] if len(hmms) == 1 else mixture(hmms, [1 / len(hmms)] * len(hmms))
    if arguments.method not in ("pgcd", "twisted") and arguments.potential != "pgcd":
        return None
    if arguments.model is not None:
        raise InvalidParameterError(
            "looking ahead needs an HMM distilled from the model: give --hmm, or use --method gcd, "
            "which needs none"
        )
    return default_hmm()


def run(arguments: argparse.Namespace) -> None:
    """Generate and print."""
    constraint = read_constraint(arguments)
    hmm = _guide(arguments)
    from pcgcd.decoding import generate
    from pcgcd.lm import load_model

    lm = load_model(arguments.model)
    prompt = arguments.prompt
    result = generate(
        lm,
        constraint,
        prompt=[{"role": "user", "content": prompt}] if arguments.chat else prompt,
        hmm=hmm,
        smc=not arguments.plain,
        progress=not arguments.json,
        **{name: getattr(arguments, name) for name in _PASSED_ON},
    )
    if arguments.json:
        print(json.dumps(result.to_dict(), allow_nan=False))
    else:
        _print_table(result)


def _print_table(result: Generation) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"{result.method}: {len(result)} texts")
    table.add_column("weight", justify="right")
    table.add_column("valid")
    table.add_column("tokens", justify="right")
    table.add_column("text", overflow="fold")
    for i in sorted(range(len(result)), key=lambda i: -result.weights[i]):
        table.add_row(
            f"{result.weights[i]:.3f}",
            "yes" if result.satisfied[i] else "no",
            str(len(result.token_ids[i])),
            Text(result.texts[i]),
        )
    console = Console()
    console.print(table)
    facts = [
        f"log evidence {result.log_evidence:.3f}",
        f"effective sample size {result.effective_sample_size:.2f}",
    ]
    if result.acceptance_rate is not None:
        facts.append(f"acceptance rate {result.acceptance_rate:.4f}")
    steps = max((len(ids) for ids in result.token_ids), default=0)
    if steps:
        facts.append(f"{1000 * (result.seconds + result.model_seconds) / steps:.0f} ms per token")
        facts.append(f"of which the model {1000 * result.model_seconds / steps:.0f}")
    console.print(", ".join(facts), soft_wrap=True)
