"""Mask first, then temperature, top-k and top-p: the target, by enumeration; temperature 0."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

import pcgcd
from pcgcd.automata import FiniteAutomaton
from pcgcd.constraints import function_call, regex
from pcgcd.decoding import (
    GCD,
    LCD,
    PGCD,
    SMC,
    LookAhead,
    PrefixValidity,
    Proposal,
    Request,
    Sharpening,
    Twisted,
    Unconstrained,
)
from pcgcd.engine import ChainEngine
from pcgcd.errors import DeadEndError, InvalidParameterError
from pcgcd.lm import TableLM
from tests.decoding import worlds
from tests.decoding.test_exactness import limit, worst_z

BUDGET = 4
SETTINGS = [
    Sharpening(0.7, top_k=2),
    Sharpening(top_p=0.6),
    Sharpening(1.5, top_k=3, top_p=0.8),
    Sharpening(top_k=1),
]
Row = dict[int, float]


def row(lm: TableLM, prefix: tuple[int, ...], temperature: float) -> Row:
    """p_T(v | prefix) of every token, in plain Python."""
    raw = [math.exp(value / temperature) for value in lm.log_probs([prefix])[0].tolist()]
    return {token: value / sum(raw) for token, value in enumerate(raw)}


def kept(allowed: Row, top_k: int | None, top_p: float | None) -> set[int]:
    """The k most likely tokens, then those of them that reach a share of their mass."""
    order = sorted((v for v in allowed if allowed[v] > 0), key=lambda v: -allowed[v])[:top_k]
    total, reached, result = sum(allowed[v] for v in order), 0.0, set()
    for token in order:
        if top_p is None or reached < top_p * total:
            result.add(token)
        reached += allowed[token]
    return result


def target(
    lm: TableLM, fa: FiniteAutomaton, setting: Sharpening, *, lookahead: int = 0
) -> dict[tuple[int, ...], float]:
    """gamma(x) of the definition; the mask is found by trying all texts."""
    words = [x for x in worlds.leaves(BUDGET + lookahead) if fa.accepts(x)]
    begins = {x[:t] for x in words for t in range(len(x) + 1)}
    result = {}
    for text in worlds.leaves(BUDGET):
        if not fa.accepts(text):
            continue
        mass = 1.0
        for t, token in enumerate(text):
            whole = row(lm, text[:t], setting.temperature)
            allowed = {v: p for v, p in whole.items() if (*text[:t], v) in begins}
            keeps = kept(allowed, setting.top_k, setting.top_p)
            mass *= whole[token] if token in keeps else 0.0
        if mass:
            result[text] = mass
    return result


@pytest.mark.parametrize("name", list(worlds.AUTOMATA))
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_evidence_and_texts_are_those_of_the_definition(name: str, setting: Sharpening) -> None:
    """All methods that have GCD's mask aim at one gamma."""
    lm, fa, runs = worlds.table(3), worlds.AUTOMATA[name], 400
    gamma = target(lm, fa, setting)
    methods: list[tuple[Proposal, Any]] = [
        (GCD(), PrefixValidity()),
        (PGCD(0.0), LookAhead()),
        (PGCD(0.6), LookAhead()),
        (Twisted(0.4), LookAhead(0.4)),
    ]
    start = ChainEngine.of(worlds.hmm(7), fa).start([BUDGET] * runs)
    for number, (proposal, potential) in enumerate(methods):
        smc = SMC(3, sharpening=setting)
        steps = smc.steps(lm, [()] * runs, start, proposal, potential, seed=number)
        population = list(steps)[-1].population
        z, bins = worst_z(population, gamma)
        assert z < limit(bins, 100), (proposal, z)
        alive = {
            x for x, w in zip(population.tokens, population.log_weights.tolist()) if w > -math.inf
        }
        assert alive <= set(gamma)


def test_the_mask_of_lcd_knows_no_budget() -> None:
    lm, fa, setting = worlds.table(3), worlds.constraint(), Sharpening(top_k=2)
    runs = 2000
    start = ChainEngine.of(worlds.hmm(7), fa).start([BUDGET] * runs)
    smc = SMC(1, None, sharpening=setting)
    steps = smc.steps(lm, [()] * runs, start, LCD(), PrefixValidity(within_budget=False), seed=0)
    gamma = target(lm, fa, setting, lookahead=3)
    assert gamma != target(lm, fa, setting)
    z, bins = worst_z(list(steps)[-1].population, gamma)
    assert z < limit(bins, 10)


def test_without_smc_gcd_draws_as_other_engines_do() -> None:
    """Mask, temperature, top-k, top-p, draw: the shares of the first token."""
    lm, setting = worlds.table(3), Sharpening(0.8, top_k=3, top_p=0.9)
    fa = worlds.constraint()
    result = pcgcd.generate(
        lm, fa, budget=BUDGET, particles=4000, smc=False, seed=0, temperature=0.8, top_k=3,
        top_p=0.9,
    )  # fmt: skip
    words = [x for x in worlds.leaves(BUDGET) if fa.accepts(x)]
    allowed = {v: p for v, p in row(lm, (), 0.8).items() if any(x[0] == v for x in words)}
    keeps = kept(allowed, setting.top_k, setting.top_p)
    total = sum(allowed[v] for v in keeps)
    for token in range(worlds.SIZE):
        share = sum(ids[0] == token for ids in result.token_ids) / 4000
        expected = allowed[token] / total if token in keeps else 0.0
        assert share == pytest.approx(expected, abs=0.04)
        assert (share > 0) == (expected > 0)


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_k": 50}, {"top_p": 0.95}, {"top_p": 0.01}, {"temperature": 0}]
)
@pytest.mark.parametrize("method", ["gcd", "pgcd", "twisted", "lcd"])
def test_a_tool_call_survives_truncation(options: dict[str, Any], method: str) -> None:
    """Whatever the model would rather say."""
    words = [bytes([b]) for b in range(128)]
    vocabulary = pcgcd.Vocabulary.from_bytes([*words, None], eos_ids=128)
    chat = [0.0] * 129
    chat[ord("S")] = chat[ord("u")] = 0.49
    lm = TableLM(vocabulary, {}, default=[p or 0.02 / 127 for p in chat])
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"enum": [1, 2]}}}}]
    guide = None
    if method in ("pgcd", "twisted"):
        guide = pcgcd.HMM.random(2, 129, generator=torch.Generator().manual_seed(0))
    call = function_call(tools, whitespace="compact")
    result = pcgcd.generate(lm, call, budget=60, method=method, hmm=guide, seed=0, **options)
    assert any(result.weights)
    assert method == "lcd" or all(result.satisfied)


def test_the_old_meaning_has_a_name() -> None:
    lm = TableLM(worlds.VOCABULARY, {}, default=[0.1, 0.2, 0.3, 0.2, 0.1, 0.1])
    result = pcgcd.generate(lm, regex("a*"), budget=3, top_k=1, seed=0)
    assert all(result.satisfied)
    with pytest.raises(DeadEndError, match='truncate="allowed"'):
        pcgcd.generate(lm, regex("a*"), budget=3, top_k=1, truncate="model", seed=0)
    with pytest.raises(InvalidParameterError, match="truncate must be"):
        pcgcd.generate(lm, regex("a*"), budget=3, top_k=1, truncate="first")


# -- temperature 0 ------------------------------------------------------------------------------


def greedy(lm: TableLM, gamma: dict[tuple[int, ...], float]) -> tuple[int, ...]:
    """The argmax of each step among the tokens after which some text is left."""
    prefix: tuple[int, ...] = ()
    while prefix not in gamma:
        ways = {x[len(prefix)] for x in gamma if x[: len(prefix)] == prefix}
        prefix = (*prefix, max(ways, key=row(lm, prefix, 1.0).__getitem__))
    return prefix


def states_after(fa: FiniteAutomaton, prefix: tuple[int, ...]) -> frozenset[int]:
    """The states that a prefix comes to, edge by edge."""
    states = set(fa.initial_mask.nonzero()[0].tolist())
    for token in prefix:
        states = {
            int(target)
            for source, target, label in zip(fa.source, fa.target, fa.label, strict=True)
            if int(source) in states and token in fa.labels.tokens(int(label)).tolist()
        }
    return frozenset(states)


def beam(
    lm: TableLM, fa: FiniteAutomaton, gamma: dict[tuple[int, ...], float], width: int
) -> list[tuple[int, ...]]:
    """A plain beam search over the texts of the target, ended ones in places of their own.

    Half of the places of prefixes belong to the best ones of different states.
    """
    ended: dict[tuple[int, ...], float] = {}
    going: dict[tuple[int, ...], float] = {(): 1.0}
    while going:
        grown = {}
        for x, p in going.items():
            rates = row(lm, x, 1.0)
            ways = {y[len(x)] for y in gamma if y[: len(x)] == x}
            for v in sorted(ways, key=lambda v: -rates[v])[:width]:
                (ended if (*x, v) in gamma else grown)[(*x, v)] = p * rates[v]
        ended = dict(sorted(ended.items(), key=lambda item: -item[1])[:width])
        least = min(ended.values()) if len(ended) == width else 0.0
        alive = sorted((x for x in grown if grown[x] > least), key=lambda x: -grown[x])
        leaders: dict[frozenset[int], tuple[int, ...]] = {}
        for x in alive:
            leaders.setdefault(states_after(fa, x), x)
        first = list(leaders.values())[: width // 2]
        others = [x for x in alive if x not in first]
        going = {x: grown[x] for x in (first + others)[:width]}
    return sorted(ended, key=lambda x: -ended[x])


@pytest.mark.parametrize("name", list(worlds.AUTOMATA))
@pytest.mark.parametrize("seed", range(3))
def test_temperature_zero_is_greedy_and_a_beam(name: str, seed: int) -> None:
    lm, fa = worlds.table(seed), worlds.AUTOMATA[name]
    gamma = worlds.target(lm, fa, BUDGET)
    for width in (1, 2, 5, 40):
        result = pcgcd.generate(lm, fa, budget=BUDGET, particles=width, temperature=0)
        expected = [greedy(lm, gamma)] if width == 1 else beam(lm, fa, gamma, width)
        assert list(result.token_ids) == expected
        masses = [gamma[x] for x in expected]
        assert result.weights == pytest.approx([mass / sum(masses) for mass in masses])
        assert math.exp(result.log_evidence) == pytest.approx(sum(masses))
        sums: dict[str, float] = {}
        for text, mass in zip(result.texts, masses, strict=True):
            sums[text] = sums.get(text, 0.0) + mass
        assert sums[result.best] == pytest.approx(max(sums.values()))
        assert all(result.satisfied)
        assert all(result.ended)


def test_a_beam_as_wide_as_the_language_finds_the_evidence() -> None:
    lm, fa = worlds.table(5), worlds.constraint()
    gamma = worlds.target(lm, fa, BUDGET)
    result = pcgcd.generate(lm, fa, budget=BUDGET, particles=len(gamma) + 3, temperature=0)
    assert set(result.token_ids) == set(gamma)
    assert math.exp(result.log_evidence) == pytest.approx(sum(gamma.values()))


def test_a_text_that_has_ended_is_not_driven_out_by_beginnings() -> None:
    """Two prefixes look better than the short text, until they lose nearly all at their end."""
    vocabulary = pcgcd.Vocabulary.from_bytes([b"a", b"b", b"c", b"d", None], eos_ids=4)
    rows = {
        (): [0.4, 0.3, 0.3, 0.0, 0.0],
        (0,): [0.0, 0.0, 0.0, 0.8, 0.2],
        (1,): [0.0, 0.49, 0.51, 0.0, 0.0],
    }
    lm = TableLM(vocabulary, rows, default=[0.01, 0.495, 0.495, 0.0, 0.0])
    result = pcgcd.generate(lm, regex("a|[bc]{4}a"), budget=5, particles=2, temperature=0)
    assert result.best == "a"
    assert result.log_probs[0] == pytest.approx(math.log(0.4 * 0.2))


def test_a_perfect_guide_makes_the_greedy_beam_exact() -> None:
    """With p_lm itself as the guide, a prefix counts all that follows it."""
    lm, fa = worlds.hmm_lm(4), worlds.AUTOMATA["deterministic"]
    gamma = worlds.target(lm, fa, BUDGET)
    result = pcgcd.generate(
        lm, fa, hmm=worlds.hmm(4), w=0.0, budget=BUDGET, particles=1, temperature=0
    )
    prefix: tuple[int, ...] = ()
    while prefix not in gamma:
        after = dict.fromkeys(range(worlds.SIZE), 0.0)
        for x, mass in gamma.items():
            if x[: len(prefix)] == prefix:
                after[x[len(prefix)]] += mass
        prefix = (*prefix, max(after, key=after.__getitem__))
    assert result.token_ids[0] == prefix


def test_several_requests_share_a_greedy_batch() -> None:
    lm = worlds.table(2)
    requests = [Request(regex("a+b"), budget=4), Request(regex("b+"), budget=3)]
    smc = SMC(3, sharpening=Sharpening(0))
    together = pcgcd.Generator(lm, smc=smc).run(requests)
    for request, result in zip(requests, together, strict=True):
        alone = pcgcd.Generator(lm, smc=smc).run([request])[0]
        assert alone.token_ids == result.token_ids
        assert len(set(result.token_ids)) == len(result)


def test_streams_and_rejection_at_temperature_zero() -> None:
    lm = worlds.table(2)
    generator = pcgcd.Generator(lm, smc=SMC(1, sharpening=Sharpening(0)))
    stream = generator.stream(Request(regex("a+b"), budget=4))
    assert "".join(stream) == generator.run([Request(regex("a+b"), budget=4)])[0].best
    with pytest.raises(InvalidParameterError, match="draws nothing"):
        pcgcd.generate(lm, regex("a+b"), budget=4, method="rejection", temperature=0)


def test_unconstrained_methods_truncate_the_model_itself() -> None:
    lm, fa = worlds.table(3), worlds.constraint()
    start = ChainEngine.of(worlds.hmm(7), fa).start([BUDGET])
    rows = lm.log_probs([()])
    found = Sharpening(top_k=2).given(rows, start, Unconstrained())
    assert torch.isfinite(found).sum() == 2
    assert found.exp().sum() == pytest.approx(1.0)


def test_weights_of_a_weighted_automaton_count_in_what_is_kept() -> None:
    """The constrained distribution is p_lm times the weights, as GCD draws it."""
    fa = FiniteAutomaton.from_edges(
        num_states=2, vocab_size=worlds.SIZE, initial=0, accepting={1},
        edges=[(0, 1, {0}), (0, 1, {1})], weights=[1.0, 100.0],
    )  # fmt: skip
    lm = TableLM(worlds.VOCABULARY, {}, default=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    result = pcgcd.generate(lm, fa, budget=1, top_k=1, particles=4, seed=0)
    assert set(result.token_ids) == {(1,)}
    assert math.exp(result.log_evidence) == pytest.approx(0.1 * 100)


def test_every_order_of_settings_is_checked() -> None:
    for temperature, top_k in itertools.product((-1.0, math.inf, math.nan), (None, 3)):
        with pytest.raises(InvalidParameterError, match="temperature must be"):
            Sharpening(temperature, top_k)
