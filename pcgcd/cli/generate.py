"""``pcgcd generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcgcd.cli.constraints import add_constraint_options, read_constraint, read_tools
from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits import CircuitLike
    from pcgcd.decoding import Generation

_METHODS = ("pgcd", "twisted", "gcd", "lcd", "unconstrained", "rejection")
# The options that have the names of parameters of pcgcd.decoding.generate.
_PASSED_ON = (
    *("budget", "particles", "method", "w", "potential", "resampling", "ess_threshold"),
    *("temperature", "top_k", "top_p", "truncate", "stop", "seed", "cache", "spelling"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add_constraint_options(parser)
    add = parser.add_argument_group("what to generate").add_argument
    add("--prompt", required=True, metavar="TEXT", help="what the text follows")
    add("--chat", action="store_true", help="send the prompt as a chat message")
    add("--hide-tools", action="store_true", help="do not show the model its --tools")
    add("--budget", type=int, default=128, help="the largest number of tokens (%(default)s)")
    add("--stop", action="append", metavar="TEXT", help="end the text here; repeat")
    add = parser.add_argument_group("how").add_argument
    add("--method", choices=_METHODS, help="by default twisted where there is an HMM, else gcd")
    add("--particles", type=int, default=8, help="the number of texts (%(default)s)")
    add("--model", help="a model's folder, hub id or GGUF file; without it, the default model")
    add(
        "--hmm",
        action="append",
        help="an HMM's folder or hub id; the default model has one; repeat it for a mixture",
    )
    add(
        "--spelling",
        action=argparse.BooleanOptionalAction,
        help="look ahead to how the model spells (by default unless --method is gcd or pgcd)",
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
    add("--temperature", type=float, default=1.0, help="0 is greedy, a beam (%(default)s)")
    add("--top-k", type=int, help="keep the k most likely of the allowed tokens")
    add("--top-p", type=float, help="keep the allowed tokens of this share of the probability")
    add(
        "--truncate",
        choices=["allowed", "model"],
        default="allowed",
        help="whether top-k and top-p choose from allowed tokens or from all (%(default)s)",
    )
    add("--seed", type=int, help="the same seed gives the same texts")
    add(
        "--cache",
        type=Path,
        help="folder for the token automata of runs with a guide; others write none",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _guide(arguments: argparse.Namespace) -> CircuitLike | None:
    from pcgcd.circuits import mixture
    from pcgcd.hmm import default_hmm, load_hmm

    if arguments.hmm is not None:
        hmms = [load_hmm(folder) for folder in arguments.hmm]
        return hmms[0] if len(hmms) == 1 else mixture(hmms, [1 / len(hmms)] * len(hmms))
    if arguments.method not in (None, "pgcd", "twisted") and arguments.potential != "pgcd":
        return None
    if arguments.model is not None:
        if arguments.method is None and arguments.potential != "pgcd":
            return None
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
    shown = arguments.tools is not None and not arguments.hide_tools
    result = generate(
        lm,
        constraint,
        tools=read_tools(arguments.tools) if shown else None,
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

    posterior = result.posterior()
    noun = "text" if len(posterior) == 1 else "different texts"
    table = Table(title=Text(f"{result.method}: {len(posterior)} {noun} of {len(result)}"))
    table.add_column("weight", justify="right")
    table.add_column("copies", justify="right")
    table.add_column("valid")
    table.add_column("tokens", justify="right")
    table.add_column("text", overflow="fold")
    for text, weight in posterior.items():
        places = [i for i, other in enumerate(result.texts) if other == text]
        table.add_row(
            f"{weight:.3f}",
            str(len(places)),
            "yes" if result.satisfied[places[0]] else "no",
            str(min(len(result.token_ids[i]) for i in places)),
            Text(text),
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
