"""``pcgcd generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pcgcd.cli.constraints import add_constraint_options, read_constraint, sources
from pcgcd.cli.sentences import on_one_line
from pcgcd.cli.sources import read_prompt
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
    add(
        "--prompt",
        required=True,
        metavar="TEXT",
        help="what the text follows, or - for standard input",
    )
    add(
        "--chat",
        action=argparse.BooleanOptionalAction,
        help="send the prompt as a chat message, or continue it as it stands (by default a "
        "message where the model has a chat template)",
    )
    add("--hide-tools", action="store_true", help="do not show the model its --tools")
    add("--budget", type=int, default=128, help="the largest number of tokens (%(default)s)")
    add("--stop", action="append", metavar="TEXT", help="end the text here; repeat")
    add = parser.add_argument_group("how").add_argument
    add("--method", choices=_METHODS, help="by default twisted with --hmm, else gcd")
    add("--particles", type=int, default=8, help="the number of texts (%(default)s)")
    add("--model", help="a model's folder, hub id or GGUF file; without it, the default model")
    add(
        "--hmm",
        action="append",
        help="an HMM that looks ahead: a folder, a hub id, or default, which is the packaged one "
        "of the default model (pgcd and twisted take that by themselves); repeat it for a mixture",
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
    add(
        "--temperature",
        type=float,
        default=1.0,
        help="0 gives one answer: the most probable text found by a beam of --particles "
        "(%(default)s)",
    )
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
    """Return what looks ahead: the HMMs that are named, or the default where one is needed."""
    from pcgcd.circuits import mixture
    from pcgcd.hmm import default_hmm, load_hmm

    if arguments.hmm is not None:
        hmms = [default_hmm() if name == "default" else load_hmm(name) for name in arguments.hmm]
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
    prompt = read_prompt(arguments.prompt, sources(arguments))
    constraint = read_constraint(arguments)
    hmm = _guide(arguments)
    from pcgcd.decoding import generate
    from pcgcd.lm import load_model

    lm = load_model(arguments.model)
    shown = arguments.tools is not None and not arguments.hide_tools
    chat = {} if arguments.chat is None else {"chat": arguments.chat}
    result = generate(
        lm,
        constraint,
        tools=arguments.tools.json if shown else None,
        prompt=prompt,
        hmm=hmm,
        smc=not arguments.plain,
        progress=not arguments.json,
        **chat,
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
    count = f"{len(posterior)} {noun} of {len(result)}"
    table = Table(title=Text(f"{result.method}: {count}"))
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
            Text(on_one_line(text)),
        )
    console = Console()
    console.print(table)
    facts = [
        f"log evidence {result.log_evidence:.3f}",
        count,
        f"effective sample size {result.effective_sample_size:.2f}",
    ]
    if result.acceptance_rate is not None:
        facts.append(f"acceptance rate {result.acceptance_rate:.4f}")
    steps = max((len(ids) for ids in result.token_ids), default=0)
    if steps:
        facts.append(f"{1000 * (result.seconds + result.model_seconds) / steps:.0f} ms per token")
        facts.append(f"of which the model {1000 * result.model_seconds / steps:.0f}")
    console.print(", ".join(facts), soft_wrap=True)
