"""The record of a run plays it again, and the picture follows the record."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import pcgcd
from pcgcd.decoding import SMC, Genealogy, Generator, Move, Request
from pcgcd.errors import InvalidParameterError
from pcgcd.viz import draw_genealogy, figure_genealogy
from tests.decoding import worlds

RUNS: dict[str, dict[str, Any]] = {
    "often resampled": {
        "method": "gcd",
        "particles": 8,
        "ess_threshold": 1.0,
        "resampling": "multinomial",
    },
    "sometimes resampled": {"method": "gcd", "particles": 8, "ess_threshold": 0.7},
    "never resampled": {"method": "gcd", "particles": 5, "smc": False},
    "with dead ends": {"method": "unconstrained", "particles": 12, "ess_threshold": 0.3},
    "one particle": {"method": "gcd", "particles": 1},
}


def run(kind: str, seed: int = 0, budget: int = 7) -> pcgcd.Generation:
    options = RUNS[kind]
    return pcgcd.generate(worlds.table(1), worlds.constraint(), budget=budget, seed=seed, **options)


@given(kind=st.sampled_from(sorted(RUNS)), seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_record_plays_to_the_final_particles_and_weights(kind: str, seed: int) -> None:
    result = run(kind, seed)
    assert result.genealogy.token_ids() == result.token_ids
    assert result.genealogy.log_weights() == result.log_weights
    assert result.genealogy.num_particles == len(result)
    assert result.genealogy.num_steps == len(result.effective_sample_sizes)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_every_task_has_its_own_record(seed: int) -> None:
    generator = Generator(worlds.table(1), "gcd", smc=SMC(6, ess_threshold=0.8))
    requests = [
        Request(worlds.AUTOMATA[name], budget=budget)
        for name, budget in (("constraint", 3), ("deterministic", 6), ("constraint", 8))
    ]
    for result in generator.run(requests, seed=seed):
        assert result.genealogy.token_ids() == result.token_ids
        assert result.genealogy.log_weights() == result.log_weights


def test_the_record_has_the_effective_sample_sizes_before_resampling() -> None:
    result = run("sometimes resampled")
    for move, size in zip(result.genealogy.moves, result.effective_sample_sizes, strict=True):
        weights = np.exp(np.array(move.log_weights) - max(move.log_weights))
        assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(size)


def test_lineages_spell_the_final_texts() -> None:
    genealogy = run("often resampled", seed=3).genealogy
    for particle, text in enumerate(genealogy.token_ids()):
        places = genealogy.lineage(particle)
        drawn = [move.tokens[i] for move, i in zip(genealogy.moves, places, strict=True)]
        assert tuple(token for token in drawn if token is not None) == text
        assert all(i in alive for i, alive in zip(places, genealogy.survivors, strict=True))


def test_survivors_are_the_ancestors_of_final_particles_and_nothing_else() -> None:
    genealogy = run("often resampled", seed=5).genealogy
    lineages = [genealogy.lineage(particle) for particle in range(genealogy.num_particles)]
    for step, alive in enumerate(genealogy.survivors):
        assert alive == {lineage[step] for lineage in lineages}


# -- the picture ------------------------------------------------------------------------------


def lines(figure: Figure) -> dict[str, list[np.ndarray]]:
    found = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    return {str(c.get_gid()): [np.asarray(p.vertices) for p in c.get_paths()] for c in found}


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("labels", [True, False])
def test_lines_lead_from_each_ancestor_to_each_heir(kind: str, labels: bool) -> None:
    genealogy = run(kind, seed=3).genealogy
    drawn = [
        line
        for group in lines(figure_genealogy(genealogy, labels=labels)).values()
        for line in group
    ]
    assert len(drawn) == genealogy.num_steps * genealogy.num_particles
    starts = sorted({round(float(line[0, 0]), 6) for line in drawn})
    assert len(starts) == genealogy.num_steps
    for start, move in zip(starts, genealogy.moves, strict=True):
        here = [line for line in drawn if round(float(line[0, 0]), 6) == start]
        heights = Counter(round(float(line[0, 1]), 6) for line in here)
        assert sorted(heights.values()) == sorted(Counter(move.parents).values())


@pytest.mark.parametrize("kind", RUNS)
def test_lines_of_one_gap_never_cross(kind: str) -> None:
    drawn = [
        line for group in lines(figure_genealogy(run(kind, seed=3))).values() for line in group
    ]
    for start in {float(line[0, 0]) for line in drawn}:
        here = sorted(
            (float(line[0, 1]), float(line[-1, 1])) for line in drawn if line[0, 0] == start
        )
        assert [end for _, end in here] == sorted(end for _, end in here)


@pytest.mark.parametrize("kind", RUNS)
def test_every_draw_is_shown_once_and_every_resampling_is_marked(kind: str) -> None:
    genealogy = run(kind, seed=3).genealogy
    (axes, _) = figure_genealogy(genealogy, vocabulary=worlds.VOCABULARY).axes
    drawn = sum(token is not None for move in genealogy.moves for token in move.tokens)
    gids = Counter(
        str(a.get_gid()).split("-")[0] for a in [*axes.patches, *axes.texts, *axes.lines]
    )
    assert gids["particle"] == gids["token"] == drawn
    assert gids["weight"] == genealogy.num_particles
    assert gids["resampled"] == sum(move.ancestors is not None for move in genealogy.moves)


def test_tokens_are_spelled() -> None:
    genealogy = Genealogy((Move((2, 3), (0.0, -math.inf), None),))
    (axes, _) = figure_genealogy(genealogy, vocabulary=worlds.VOCABULARY).axes
    shown = {t.get_gid(): t.get_text() for t in axes.texts}
    assert (shown["token-0-0"], shown["token-0-1"]) == ("ab", "EOS")
    (axes, _) = figure_genealogy(genealogy).axes
    assert {t.get_gid(): t.get_text() for t in axes.texts}["token-0-0"] == "2"


def test_labels_stay_within_their_boxes() -> None:
    names = ["a", "a very long token indeed", "$", "\n"]
    genealogy = Genealogy((Move((0, 1), (0.0, -1.0), (0, 1)), Move((2, 3), (0.0, -1.0), None)))
    figure = figure_genealogy(genealogy, token_names=names)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    axes = figure.axes[0]
    boxes = {str(p.get_gid()): p.get_window_extent(renderer) for p in axes.patches}
    texts = [t for t in axes.texts if str(t.get_gid()).startswith("token")]
    assert len(texts) == 4
    for text in texts:
        inner = text.get_window_extent(renderer)
        outer = boxes[str(text.get_gid()).replace("token", "particle")]
        assert outer.x0 <= inner.x0
        assert inner.x1 <= outer.x1


def test_large_runs_are_drawn_without_labels() -> None:
    moves = tuple(Move(tuple(range(30)), (0.0,) * 30, None) for _ in range(30))
    figure = figure_genealogy(Genealogy(moves))
    assert not [t for t in figure.axes[0].texts if str(t.get_gid()).startswith("token")]
    width, height = figure.get_size_inches()
    assert width < 12
    assert height < 7


def test_it_can_be_drawn_into_small_axes() -> None:
    figure = Figure(figsize=(3, 2))
    draw_genealogy(figure.add_axes((0, 0, 1, 1)), run("one particle"))
    FigureCanvasAgg(figure).draw()


def test_what_cannot_be_drawn_is_refused_with_the_reason() -> None:
    rejected = pcgcd.generate(
        worlds.table(1), worlds.constraint(), budget=5, method="rejection", particles=2, seed=0
    )
    with pytest.raises(InvalidParameterError, match="rejection"):
        figure_genealogy(rejected)
    many = Genealogy((Move((0,) * 500, (0.0,) * 500, None),))
    with pytest.raises(InvalidParameterError, match=r"500 particles.*limit is 200"):
        figure_genealogy(many)
    few = Genealogy((Move((0, 5), (0.0, 0.0), None),))
    with pytest.raises(InvalidParameterError, match="6 tokens, but got 1"):
        figure_genealogy(few, token_names=["a"])
    with pytest.raises(InvalidParameterError, match="not both"):
        figure_genealogy(few, token_names=["a"], vocabulary=worlds.VOCABULARY)
