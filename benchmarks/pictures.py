"""The pictures of the documentation: ``python -m benchmarks.pictures``.

Runs the code of docs/pictures.md, whose lines save their figures, in the folder of the images; then
draws the architecture and the picture of the README from the page's own small world.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

import pcgcd
from benchmarks.architecture_picture import figure_architecture
from pcgcd.viz import draw_automaton, draw_genealogy, save
from pcgcd.viz.style import GREY, INK, clear_frame, colours_of

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "pictures.md"
IMAGES = ROOT / "docs" / "images"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MASKS = {"LCD: masks": "lcd", "GCD: masks that keep the budget": "gcd"}
_WEIGHTED = "P-GCD with SMC (64 particles, 30 runs)"
_SAMPLES = 4000
_RUNS = 30
_SHOWN = 6
_BUDGET = 8
_OTHER, _INVALID = "other texts with a cat", "no cat, or cut off"


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_page(folder: Path) -> dict[str, Any]:
    """Run the code of the page in a folder, and return the names that it leaves behind."""
    names: dict[str, Any] = {}
    with _inside(folder):
        for number, code in enumerate(_BLOCK.findall(PAGE.read_text(encoding="utf-8"))):
            exec(compile(code, f"{PAGE.name}, block {number}", "exec"), names)
    return names


def exact_posterior(world: dict[str, Any], texts: Sequence[str]) -> list[float]:
    """p(x | C) of texts, by the product of the model with the automaton."""
    torch, vocabulary = world["torch"], world["vocabulary"]
    rows = []
    for text in texts:
        ids = (*vocabulary.greedy(text), *vocabulary.eos_ids * _BUDGET)[:_BUDGET]
        rows.append(ids)
    probabilities: list[float] = world["posterior"].log_prob(torch.tensor(rows)).exp().tolist()
    return probabilities


def shares(world: dict[str, Any], texts: Sequence[str], method: str) -> list[float]:
    """How often masks alone give each text, another valid one, or none."""
    result = pcgcd.generate(
        world["lm"],
        world["constraint"],
        budget=_BUDGET,
        particles=_SAMPLES,
        method=method,
        smc=False,
        seed=0,
    )
    return _by_text(texts, [(result, [1 / len(result)] * len(result))])


def weighted_shares(world: dict[str, Any], texts: Sequence[str]) -> list[float]:
    """The weights that P-GCD gives each text, the mean of several runs."""
    runs = [
        pcgcd.generate(
            world["lm"],
            world["constraint"],
            budget=_BUDGET,
            particles=64,
            hmm=world["hmm"],
            seed=seed,
        )
        for seed in range(_RUNS)
    ]
    return _by_text(texts, [(run, [weight / _RUNS for weight in run.weights]) for run in runs])


def _by_text(
    texts: Sequence[str], runs: Sequence[tuple[pcgcd.Generation, Sequence[float]]]
) -> list[float]:
    mass = dict.fromkeys([*texts, _OTHER, _INVALID], 0.0)
    for run, weights in runs:
        for text, satisfied, weight in zip(run.texts, run.satisfied, weights, strict=True):
            mass[_INVALID if not satisfied else text if text in texts else _OTHER] += weight
    return list(mass.values())


def frequent_texts(world: dict[str, Any]) -> list[str]:
    """The most probable texts of the exact posterior, among draws of it."""
    generator = world["torch"].Generator().manual_seed(0)
    drawn = world["posterior"].sample(_SAMPLES, _BUDGET, generator=generator)
    texts = {world["vocabulary"].decode(row).decode() for row in drawn.tolist()}
    order = sorted(texts)
    probability = dict(zip(order, exact_posterior(world, order), strict=True))
    return sorted(order, key=lambda text: -probability[text])[:_SHOWN]


def draw_shares(axes: Axes, world: dict[str, Any]) -> None:
    """Bars: the exact posterior behind, what each method draws in front."""
    texts = frequent_texts(world)
    exact = exact_posterior(world, texts)
    exact += [1 - sum(exact), 0.0]
    found = {name: shares(world, texts, method) for name, method in _MASKS.items()}
    found[_WEIGHTED] = weighted_shares(world, texts)
    height = 0.8 / len(found)
    axes.barh(
        range(len(exact)), exact, height=0.92, color=GREY, label="exact posterior $p(x \\mid C)$"
    )
    for number, ((name, values), colour) in enumerate(
        zip(found.items(), colours_of(["LCD", "GCD", "P-GCD"]), strict=True)
    ):
        places = [place + (number - 1) * height for place in range(len(exact))]
        axes.barh(places, values, height=0.82 * height, color=colour, label=name)
    axes.set_yticks(range(len(exact)), [*texts, _OTHER, _INVALID])
    axes.invert_yaxis()
    clear_frame(axes)
    axes.tick_params(left=False)
    axes.set_xlabel("probability", color=INK, fontsize=9)
    axes.legend(frameon=False, fontsize=8.5, labelcolor=INK, loc=(0.36, 0.38))


def figure_hero(world: dict[str, Any]) -> Figure:
    """The constraint as an automaton, what each method gives, and the particles of a run."""
    figure = Figure(figsize=(13.2, 5.7))
    automaton = world["constraint"].compile(world["vocabulary"])
    panels = (
        ("a", 'the constraint "it mentions the cat" as an automaton over tokens', 0.01, 0.945),
        ("b", "masks distort the language model, weighted particles do not", 0.01, 0.625),
        ("c", "particles of P-GCD: light ones are replaced by copies of heavy ones", 0.5, 0.945),
    )
    for letter, words, x, y in panels:
        figure.text(x, y, letter, weight="bold", fontsize=12, color=INK)
        figure.text(x + 0.016, y, words, fontsize=11, color=INK)
    draw_automaton(
        figure.add_axes((0.02, 0.69, 0.46, 0.23)), automaton, vocabulary=world["vocabulary"]
    )
    draw_shares(figure.add_axes((0.17, 0.09, 0.3, 0.51)), world)
    run = pcgcd.generate(
        world["lm"],
        world["constraint"],
        budget=_BUDGET,
        particles=16,
        hmm=world["hmm"],
        seed=3,
    )
    draw_genealogy(figure.add_axes((0.5, 0.08, 0.495, 0.84)), run, vocabulary=world["vocabulary"])
    key = "darker: more weight     dotted: resampled     pale: died out     bars: final weights"
    figure.text(0.516, 0.035, key, fontsize=8.5, color=INK)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Make every picture."""
    parser = argparse.ArgumentParser(description="Make the pictures of the documentation.")
    parser.add_argument("--output", type=Path, default=IMAGES, help="the folder for the images")
    folder: Path = parser.parse_args(arguments).output
    folder.mkdir(parents=True, exist_ok=True)
    world = run_page(folder)
    architecture = figure_architecture()
    save(architecture, folder / "architecture.svg")
    save(architecture, folder / "architecture.png")
    save(figure_hero(world), folder / "hero.png", dpi=160)
    print(f"{len(list(folder.iterdir()))} pictures in {folder}")


if __name__ == "__main__":
    main()
