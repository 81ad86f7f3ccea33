"""``generate``: the guarantee, bad requests, and what comes at the edges."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pcgcd
from pcgcd.automata import Vocabulary
from pcgcd.constraints import Constraint, choice, json_schema, literal, regex
from pcgcd.decoding import METHODS, Generator, Request, Sharpening, Step
from pcgcd.errors import (
    DeadEndError,
    EmptyLanguageError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from tests.decoding import worlds

BYTES = Vocabulary.from_bytes(
    [*(bytes([b]) for b in range(32, 127)), b'":', b'{"', b"true", None, None], eos_ids=[98]
)
HMM_OF_BYTES = pcgcd.HMM.random(3, 100, generator=torch.Generator().manual_seed(0))
PATTERNS = [
    "a*b",
    "(ab|ba){1,3}",
    "[a-z]{0,5}",
    "(true|false)( or (true|false)){0,2}",
    r"\{\"x\":[1-9][0-9]*\}",
    "",
    "x|yy|zzz",
]


def adversary(kind: str, seed: int) -> TableLM:
    """Language models that would rather not."""

    def row(prefix: tuple[int, ...]) -> Any:
        if kind == "uniform":
            return torch.full((100,), 0.01, dtype=torch.float64)
        generator = torch.Generator().manual_seed(seed * 7919 + hash(prefix) % 10**6)
        logits = torch.randn(100, generator=generator, dtype=torch.float64)
        if kind == "peaked":
            logits *= 100
        if kind == "never ends":
            logits[98] = -300.0
        if kind == "ends at once":
            logits[98] = 300.0
        if kind == "padding":  # all mass on an id that is no text
            logits[99] = 300.0
        return logits.softmax(0)

    return TableLM(BYTES, row)


@given(
    pattern=st.sampled_from(PATTERNS),
    kind=st.sampled_from(["uniform", "random", "peaked", "never ends", "ends at once", "padding"]),
    method=st.sampled_from(["gcd", "pgcd", "twisted"]),
    extra=st.integers(0, 6),
    seed=st.integers(0, 10**6),
    w=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=120, deadline=None)
def test_every_text_that_ends_satisfies_the_constraint_within_the_budget(
    pattern: str, kind: str, method: str, extra: int, seed: int, w: float
) -> None:
    check_guarantee(pattern, kind, method, extra, seed, w)


def check_guarantee(
    pattern: str, kind: str, method: str, extra: int, seed: int, w: float, particles: int = 16
) -> int:
    """How many texts ended, all of them as they should."""
    constraint = regex(pattern)
    shortest = constraint.compile(BYTES).shortest_length()
    assert shortest is not None
    result = pcgcd.generate(
        adversary(kind, seed),
        constraint,
        budget=shortest + extra,
        particles=particles,
        method=method,
        hmm=HMM_OF_BYTES,
        w=w,
        seed=seed,
    )
    for ids, text, ended, satisfied in zip(
        result.token_ids, result.texts, result.ended, result.satisfied, strict=True
    ):
        if ended:
            assert len(ids) <= shortest + extra
            assert satisfied
            assert constraint.matches(text)
    assert any(result.ended)
    return sum(result.ended)


@pytest.mark.slow
def test_ten_thousand_texts_satisfy_their_constraints() -> None:
    chance = torch.Generator().manual_seed(0)
    kinds = ["uniform", "random", "peaked", "never ends", "ends at once", "padding"]
    ended, run = 0, 0
    while ended < 10_000:
        pick = torch.randint(0, 10**6, (4,), generator=chance).tolist()
        ended += check_guarantee(
            PATTERNS[pick[0] % len(PATTERNS)],
            kinds[pick[1] % len(kinds)],
            ["gcd", "pgcd"][run % 2],
            pick[2] % 12,
            pick[3],
            [0.0, 0.3, 0.7, 1.0][run % 4],
        )
        run += 1


def test_a_model_that_forbids_everything_allowed_is_a_clear_error() -> None:
    def row(prefix: tuple[int, ...]) -> Any:
        probabilities = torch.zeros(100, dtype=torch.float64)
        probabilities[ord("q") - 32] = 1.0
        return probabilities

    for method in ("gcd", "pgcd", "twisted"):
        with pytest.raises(DeadEndError, match="probability zero"):
            pcgcd.generate(
                TableLM(BYTES, row), literal("abc"), budget=9, method=method, hmm=HMM_OF_BYTES
            )


def test_the_best_text_is_the_one_whose_particles_weigh_most_together() -> None:
    result = pcgcd.generate(
        worlds.table(), regex("[ab]+"), budget=4, method="gcd", particles=40, smc=False, seed=3
    )
    total: dict[str, float] = {}
    for text, weight in zip(result.texts, result.weights, strict=True):
        total[text] = total.get(text, 0.0) + weight
    heaviest = max(range(40), key=lambda i: result.weights[i])
    assert total[result.best] == pytest.approx(max(total.values()))
    assert result.texts.count(result.best) > 1
    assert total[result.best] > result.weights[heaviest]


def test_one_dead_particle_does_not_end_the_run() -> None:
    """After "b" the model allows nothing that the constraint does."""

    def row(prefix: tuple[int, ...]) -> Any:
        probabilities = torch.zeros(worlds.SIZE, dtype=torch.float64)
        if not prefix:
            probabilities[[0, 1]] = 0.5
        elif prefix[0] == 0:
            probabilities[3] = 1.0
        else:
            probabilities[2] = 1.0
        return probabilities

    lm = TableLM(worlds.VOCABULARY, row)
    result = pcgcd.generate(
        lm, regex("a|ba"), budget=3, particles=16, method="gcd", smc=False, seed=0
    )
    alive = [weight > -math.inf for weight in result.log_weights]
    assert any(alive)
    assert not all(alive)
    assert list(result.satisfied) == alive
    assert result.log_evidence == pytest.approx(math.log(sum(alive) / 16))
    assert all(text == "b" for text, lives in zip(result.texts, alive, strict=True) if not lives)


def test_an_impossible_budget_names_the_smallest_that_works() -> None:
    lm = adversary("uniform", 0)
    for method in METHODS:
        with pytest.raises(EmptyLanguageError, match="smallest budget that works is 5") as info:
            pcgcd.generate(lm, literal("abcde"), budget=4, method=method, hmm=HMM_OF_BYTES)
        assert info.value.shortest_length == 5
    assert pcgcd.generate(lm, literal("abcde"), budget=5, method="gcd").satisfied[0]


def test_the_empty_text_and_a_budget_that_is_exactly_met() -> None:
    lm = worlds.table()
    empty = pcgcd.generate(lm, literal(""), budget=1, method="gcd", seed=0)
    assert set(empty.texts) == {""}
    assert all(len(ids) == 1 and ids[0] in worlds.EOS for ids in empty.token_ids)
    # Four tokens without an end of text: the budget ends it.
    full = pcgcd.generate(lm, regex("b{4}"), budget=4, particles=4, method="gcd", seed=0)
    assert full.token_ids == ((1, 1, 1, 1),) * 4
    assert full.log_evidence == pytest.approx(worlds.log_prob(lm, (1, 1, 1, 1)))
    assert all(full.ended)


def test_the_evidence_of_a_certain_text_is_its_probability() -> None:
    lm, prompt = worlds.table(5), (1, 0)
    result = pcgcd.generate(lm, choice(["b"]), prompt=prompt, budget=2, method="gcd", seed=1)
    expected = sum(math.exp(worlds.log_prob(lm, (1, eos), prompt)) for eos in worlds.EOS)
    assert result.log_evidence == pytest.approx(math.log(expected))


@pytest.mark.parametrize("method", METHODS)
def test_seeds_make_runs_reproducible(method: str) -> None:
    def run(seed: int) -> pcgcd.Generation:
        return pcgcd.generate(
            worlds.table(), regex("[ab]*"), budget=6, method=method, hmm=worlds.hmm(), seed=seed
        )

    assert run(1).token_ids == run(1).token_ids
    assert run(1).log_weights == run(1).log_weights
    assert any(run(1).token_ids != run(seed).token_ids for seed in (2, 3))


def test_rejection_tells_its_acceptance_rate() -> None:
    lm, constraint, budget = worlds.table(3), regex("a(a|b)*"), 3
    gamma = worlds.target(lm, constraint.compile(worlds.VOCABULARY), budget)
    result = pcgcd.generate(
        lm,
        constraint,
        budget=budget,
        particles=2000,
        method="rejection",
        max_attempts=20_000,
        seed=0,
    )
    exact = sum(gamma.values())
    rate = result.acceptance_rate
    assert rate is not None
    assert rate == pytest.approx(exact, abs=0.05)
    assert len(result) == 2000
    assert all(result.satisfied)
    assert result.log_evidence == pytest.approx(math.log(rate))


def test_rejection_stops_at_its_cap() -> None:
    result = pcgcd.generate(
        adversary("uniform", 0), literal("abcdef"), budget=8, method="rejection", max_attempts=50
    )
    assert len(result) == 0
    assert result.acceptance_rate == 0
    assert result.log_evidence == -math.inf
    assert result.effective_sample_size == 0


def test_unconstrained_and_lcd_may_miss_and_say_so() -> None:
    lm = adversary("never ends", 0)
    for method in ("unconstrained", "lcd"):
        result = pcgcd.generate(
            lm, regex("[a-z]{3}x*y"), budget=5, method=method, smc=False, seed=0
        )
        assert not all(result.satisfied)
        assert result.satisfied == tuple(
            regex("[a-z]{3}x*y").matches(text) for text in result.texts
        )
        assert all(
            satisfied == (weight > -math.inf)
            for satisfied, weight in zip(result.satisfied, result.log_weights, strict=True)
        )


def test_a_stop_ends_texts_that_satisfy_the_constraint() -> None:
    result = pcgcd.generate(
        adversary("never ends", 0), regex("[a-z]*[.]"), budget=12, method="gcd", stop=".", seed=0
    )
    assert all(result.satisfied)
    assert all(ids[-1] == ord(".") - 32 for ids in result.token_ids)
    waits = pcgcd.generate(
        adversary("random", 0), regex("a.b.c"), budget=12, method="gcd", stop=".", seed=0
    )
    assert all(waits.satisfied), "a stop inside the text does not cut it"


def test_a_stop_is_part_of_the_target() -> None:
    """The evidence of texts over b that end at "bb", by enumeration."""
    lm = worlds.table(2)
    result = pcgcd.generate(
        lm, regex("b*"), budget=5, particles=3000, method="gcd", smc=False, stop="bb", seed=0
    )
    exact = math.exp(worlds.log_prob(lm, (1, 1)))
    exact += sum(math.exp(worlds.log_prob(lm, (*t, eos))) for t in [(), (1,)] for eos in worlds.EOS)
    assert math.exp(result.log_evidence) == pytest.approx(exact, rel=0.1)
    assert max(map(len, result.token_ids)) == 2


def test_temperature_and_top_k_change_the_target() -> None:
    lm = worlds.table(2)
    rows = lm.log_probs([(), (1,)])
    changed = Sharpening(temperature=0.5, top_k=3, top_p=0.9)(rows).exp()
    assert torch.allclose(changed.sum(-1), torch.ones(2, dtype=torch.float64))
    squares = rows.exp() ** 2
    for row in range(2):
        kept = squares[row].topk(3).indices
        expected = torch.zeros_like(squares[row]).index_copy(0, kept, squares[row][kept])
        expected /= expected.sum()
        order = expected.sort(descending=True).indices
        reached = 0.0
        for token in order.tolist():
            if reached >= 0.9:
                expected[token] = 0
            reached += float(expected[token])
        assert torch.allclose(changed[row], expected / expected.sum())
    greedy = pcgcd.generate(lm, regex("[ab]*"), budget=4, method="gcd", top_k=3, seed=0)
    assert all(greedy.satisfied)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"particles": 0}, "particle"),
        ({"budget": 0}, "budget"),
        ({"budget": 2.5}, "budget"),
        ({"method": "best"}, "method must be one of"),
        ({"potential": "best"}, "potential must be one of"),
        ({"resampling": "best"}, "resampling must be one of"),
        ({"ess_threshold": 2.0}, "ess_threshold"),
        ({"w": 1.5, "method": "pgcd", "hmm": worlds.hmm()}, "w must lie"),
        ({"method": "pgcd"}, "needs a guide"),
        ({"method": "twisted"}, "needs a guide"),
        ({"potential": "pgcd"}, "needs a guide"),
        ({"temperature": -1.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"stop": ""}, "stop"),
        ({"max_attempts": 0}, "max_attempts"),
    ],
)
def test_bad_requests_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        pcgcd.generate(worlds.table(), regex("a*"), **{"method": "gcd", **arguments})


def test_things_of_other_vocabularies_are_refused() -> None:
    with pytest.raises(VocabularyMismatchError, match="6 tokens, but the HMM has 100"):
        pcgcd.generate(worlds.table(), regex("a*"), method="pgcd", hmm=HMM_OF_BYTES)
    with pytest.raises(VocabularyMismatchError, match="automaton has 100"):
        pcgcd.generate(worlds.table(), regex("a*").compile(BYTES), method="gcd")
    with pytest.raises(InvalidParameterError, match="a circuit such as hmm"):
        pcgcd.generate(worlds.table(), "a*", method="gcd")  # type: ignore[arg-type]


def test_a_model_that_answers_nan_is_refused() -> None:
    class Broken(TableLM):
        def log_probs(self, prefixes: Any) -> torch.Tensor:
            return torch.full((len(prefixes), worlds.SIZE), math.nan)

    lm = Broken(worlds.VOCABULARY, {}, default=None)
    with pytest.raises(InvalidParameterError, match="NaN"):
        pcgcd.generate(lm, regex("a*"), method="gcd")


def test_the_result_is_plain_data() -> None:
    result = pcgcd.generate(
        worlds.table(), regex("[ab]{2}"), budget=4, particles=5, method="lcd", seed=0
    )
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["texts"] == list(result.texts)
    assert data["satisfied"] == list(result.satisfied)
    assert sum(data["weights"]) == pytest.approx(1)
    assert len(data["effective_sample_sizes"]) == max(map(len, data["token_ids"]))
    assert result.best in result.texts
    assert sum(result.posterior().values()) == pytest.approx(1)
    assert result.sample(0) in result.texts
    assert "5 texts" in repr(result)


def test_steps_are_reported_as_they_happen(capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[Step] = []
    result = pcgcd.generate(
        worlds.table(),
        regex("[ab]{2,5}"),
        budget=6,
        method="gcd",
        seed=0,
        on_step=steps.append,
        progress=True,
    )
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1].population.tokens == result.token_ids
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("particles", [1, 6])
def test_a_stream_gives_the_beginning_of_every_text(particles: int) -> None:
    generator = Generator(
        adversary("random", 1), method="gcd", smc=pcgcd.SMC(particles, ess_threshold=1.0)
    )
    request = Request(regex("[a-z]{2,9}"), budget=10)
    stream = generator.stream(request, seed=3)
    text = "".join(stream)
    assert stream.result is not None
    assert stream.result.token_ids == generator.run([request], seed=3)[0].token_ids
    living = [
        t
        for t, weight in zip(stream.result.texts, stream.result.log_weights, strict=True)
        if weight > -math.inf
    ]
    assert all(other.startswith(text) for other in living)
    if particles == 1:
        assert text == stream.result.best


def test_requests_of_one_batch_do_not_disturb_each_other() -> None:
    """Their evidences are those of separate runs, here exact because the texts are certain."""
    lm = worlds.table(4)
    requests = [
        Request(literal("bb"), (0,), 2),
        Request(literal("b"), (1, 1, 2), 1),
        Request(regex("b{3}"), (), 3),
    ]
    results = Generator(lm, method="gcd", smc=pcgcd.SMC(3)).run(requests, seed=0)
    for request, result in zip(requests, results, strict=True):
        tokens = (1,) * request.budget
        prompt = tuple(lm.encode(request.prompt))
        assert result.token_ids == (tokens,) * 3
        assert result.log_evidence == pytest.approx(worlds.log_prob(lm, tokens, prompt))


def test_a_json_schema_within_a_tight_budget() -> None:
    schema = {
        "type": "object",
        "properties": {"on": {"type": "boolean"}, "n": {"type": "integer"}},
        "required": ["on", "n"],
        "additionalProperties": False,
    }
    constraint = json_schema(schema)
    shortest = constraint.compile(BYTES).shortest_length()
    assert shortest is not None
    result = pcgcd.generate(
        adversary("random", 0), constraint, budget=shortest, particles=4, method="gcd", seed=0
    )
    for text in result.texts:
        assert set(json.loads(text)) == {"on", "n"}


def test_a_request_that_fails_does_not_end_the_others() -> None:
    """Too small a budget, an impossible text, and a model that gives the only text no mass."""

    def row(prefix: tuple[int, ...]) -> Any:
        probabilities = torch.zeros(worlds.SIZE, dtype=torch.float64)
        probabilities[[0, 3]] = 0.5
        return probabilities

    requests = [
        Request(literal("a"), budget=2),
        Request(literal("aaaa"), budget=2),
        Request(literal("b"), budget=2),
        Request(literal("a"), budget=True),
        Request(literal("aa"), budget=3),
    ]
    lm = TableLM(worlds.VOCABULARY, row)
    results = Generator(lm, smc=pcgcd.SMC(3)).run(requests, seed=0)
    assert [result.texts for result in results] == [("a",) * 3, (), ("",) * 3, (), ("aa",) * 3]
    kinds = [type(result.error) for result in results]
    assert kinds == [
        type(None),
        EmptyLanguageError,
        DeadEndError,
        InvalidParameterError,
        type(None),
    ]
    for failed in (results[1], results[2], results[3]):
        assert failed.log_evidence == -math.inf
        with pytest.raises(type(failed.error)):  # type: ignore[arg-type]
            _ = failed.best
        with pytest.raises(type(failed.error)):  # type: ignore[arg-type]
            failed.sample(0)


def test_equal_constraints_of_a_batch_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Constraint] = []
    plain = Constraint.masks

    def counting(self: Constraint, vocabulary: Vocabulary) -> Any:
        compiled.append(self)
        return plain(self, vocabulary)

    monkeypatch.setattr(Constraint, "masks", counting)
    requests = [Request(regex("[ab]{2}"), budget=4) for _ in range(5)]
    results = Generator(worlds.table(), smc=pcgcd.SMC(2)).run(requests, seed=0)
    assert all(all(result.satisfied) for result in results)
    assert len(compiled) == 1


def test_nothing_can_be_chosen_where_nothing_was_accepted() -> None:
    result = pcgcd.generate(
        adversary("never ends", 0), literal("abc"), budget=4, method="unconstrained", seed=0
    )
    assert result.error is None
    assert not any(result.satisfied)
    with pytest.raises(DeadEndError, match="none of the 8 texts satisfies"):
        _ = result.best
    with pytest.raises(DeadEndError, match="none of the 8 texts satisfies"):
        result.sample(0)


def test_an_hmm_that_knows_nothing_of_the_text_still_covers_it() -> None:
    """The HMM gives the only allowed tokens probability zero; P-GCD falls back to the mask."""
    emission = torch.zeros(1, worlds.SIZE)
    emission[0, 2] = 1.0
    hmm = HMM(torch.ones(1), torch.ones(1, 1), emission)
    result = pcgcd.generate(
        worlds.table(), regex("b{2,3}"), budget=4, method="pgcd", hmm=hmm, w=0.5, seed=0
    )
    assert all(result.satisfied)
    assert result.log_evidence > -math.inf
