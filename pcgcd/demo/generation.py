"""The demo: a language model calls a function and writes a sentence, constrained in four ways.

``pcgcd demo`` prints it; :func:`run` returns the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pcgcd import viz
from pcgcd.constraints import Constraint, function_call, keywords
from pcgcd.decoding import Generation, generate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pcgcd.hmm import HiddenMarkovModel
    from pcgcd.lm import LanguageModel

TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
            },
            "required": ["city", "unit"],
        },
    },
    {
        "name": "send_mail",
        "description": "Send a mail.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
            "required": ["to", "text"],
        },
    },
]
CONCEPTS = ("dog", "catch", "frisbee")

METHODS: Mapping[str, Mapping[str, Any]] = {
    "unconstrained": {"method": "unconstrained", "smc": False},
    "LCD": {"method": "lcd", "smc": False},
    "GCD": {"method": "gcd", "smc": False},
    "P-GCD + SMC": {"method": "pgcd"},
    "default": {},  # "twisted" with the HMM, and the spelling
}


@dataclass(frozen=True)
class Scene:
    """Something to generate.

    Attributes:
        title: What it is.
        messages: The chat so far.
        constraint: What the answer has to be.
        budget: The largest number of tokens.
    """

    title: str
    messages: tuple[dict[str, str], ...]
    constraint: Constraint
    budget: int


@dataclass(frozen=True)
class Outcome:
    """What the methods made of a scene.

    Attributes:
        scene: The scene.
        results: The texts, by the name of the method.
    """

    scene: Scene
    results: Mapping[str, Generation]


def scenes() -> tuple[Scene, ...]:
    """A function call and a sentence with given words."""
    described = json.dumps([{k: tool[k] for k in ("name", "parameters")} for tool in TOOLS])
    return (
        Scene(
            "A function call within 28 tokens",
            (
                {
                    "role": "system",
                    "content": f"Answer with a JSON function call. {described}",
                },
                {"role": "user", "content": "How warm will it be in Paris in the next three days?"},
            ),
            function_call(TOOLS, whitespace="compact"),
            28,
        ),
        Scene(
            f"A sentence with {', '.join(CONCEPTS)} within 24 tokens",
            (
                {
                    "role": "user",
                    "content": f"Write a short sentence with the words: {', '.join(CONCEPTS)}.",
                },
            ),
            keywords(CONCEPTS, ends_with=".!", alphabet="ascii"),
            24,
        ),
    )


def run(
    lm: LanguageModel,
    hmm: HiddenMarkovModel,
    stage: Sequence[Scene] | None = None,
    *,
    particles: int = 8,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
) -> tuple[Outcome, ...]:
    """Generate every scene (by default :func:`scenes`) with every method."""
    outcomes = []
    for scene in scenes() if stage is None else stage:
        results = {}
        for name, settings in METHODS.items():
            if tell is not None:
                tell(f"{scene.title}: {name}")
            results[name] = generate(
                lm,
                scene.constraint,
                prompt=scene.messages,
                budget=scene.budget,
                particles=particles,
                hmm=hmm,
                seed=seed,
                **settings,
            )
        outcomes.append(Outcome(scene, results))
    return tuple(outcomes)


# -- showing it -------------------------------------------------------------------------------


def report(outcomes: Sequence[Outcome], console: Console, shown: int = 2) -> None:
    """Print texts and figures side by side."""
    for outcome in outcomes:
        console.print(f"\n[bold]{outcome.scene.title}[/bold]")
        table = Table("method", box=None, pad_edge=False, header_style="bold")
        for column in ("valid", "log evidence", "ESS", "ms/token", "own ms"):
            table.add_column(column, justify="right")
        for name, result in outcome.results.items():
            steps = max(len(ids) for ids in result.token_ids)
            table.add_row(
                name,
                f"{sum(result.satisfied)} of {len(result)}",
                f"{result.log_evidence:.2f}",
                f"{result.effective_sample_size:.1f}",
                f"{1000 * (result.seconds + result.model_seconds) / steps:.0f}",
                f"{1000 * result.seconds / steps:.1f}",
            )
        console.print(table)
        for name, result in outcome.results.items():
            for text in _heaviest(result, shown):
                line = Text.assemble((f"{name}: ", "bold"), text)
                console.print(line, soft_wrap=True, highlight=False)
    console.print(
        "\nvalid: texts that satisfy the constraint within the budget, checked again byte by byte. "
        "log evidence: an estimate of log p(C), where p(C) is the probability that the model alone "
        "satisfies the constraint; all methods estimate the same number. One run of a few texts "
        "does not rank them: pcgcd experiment guidance compares them on many prompts. ESS: how "
        "many of the texts count, by their weights. own ms: the time for each token that is not "
        "the language model's.",
        markup=False,
        highlight=False,
    )


def _heaviest(result: Generation, shown: int) -> list[str]:
    """Different texts by weight, white space made short."""
    order = sorted(range(len(result)), key=lambda i: -result.weights[i])
    return list(dict.fromkeys(" ".join(result.texts[i].split()) for i in order))[:shown]


def figure(outcomes: Sequence[Outcome]) -> Figure:
    """Valid texts and effective sample sizes of all methods."""
    return viz.figure_methods([(outcome.scene.title, outcome.results) for outcome in outcomes])


def main(
    out: Path,
    seed: int = 0,
    *,
    particles: int = 8,
    model: str | None = None,
    hmm: str | None = None,
    console: Console | None = None,
) -> tuple[Outcome, ...]:
    """Run the demo, print it, and save its picture into the folder ``out``."""
    from pcgcd.hmm import default_hmm, load_hmm
    from pcgcd.lm import load_model

    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    with console.status("loading the language model (the first time it is converted)") as status:
        lm = load_model(model)
        guide = default_hmm() if hmm is None else load_hmm(hmm)
        outcomes = run(lm, guide, particles=particles, seed=seed, tell=status.update)
    report(outcomes, console)
    path = viz.save(figure(outcomes), out / "generation.png")
    console.print(f"\nThe picture is in {path}.", markup=False, highlight=False, soft_wrap=True)
    return outcomes
