"""Inside genlm-control: its own contract checks, and its SMC against enumeration."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Coroutine
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.constraints import regex
from pcgcd.errors import (
    EmptyLanguageError,
    InvalidParameterError,
    MissingDependencyError,
    VocabularyMismatchError,
)
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.integrations.genlm import (
    ConstraintPotential,
    PGCDTokenSampler,
    ProductPotential,
    gcd_token_sampler,
)
from pcgcd.lm import LanguageModel
from tests.decoding.worlds import AUTOMATA, EOS, SIZE, VOCABULARY, hmm, hmm_lm, table

INSTALLED = find_spec("genlm") is not None and find_spec("genlm.control") is not None
needs_genlm = pytest.mark.skipif(not INSTALLED, reason="genlm-control is not installed")

BUDGET = 4
TEXT = [token for token in range(SIZE) if token not in EOS]


def wait(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def model_potential(lm: LanguageModel) -> Any:
    """A language model of this library as a potential of genlm."""
    from genlm.backend.tokenization import Token
    from genlm.control import Potential

    class Model(Potential):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__([Token(i, VOCABULARY.token_bytes[i] or b"") for i in TEXT])

        async def logw_next(self, context: Any) -> Any:
            row = lm.log_probs([tuple(token.token_id for token in context)])[0].double()
            end = row[sorted(EOS)].logsumexp(0)
            return self.make_lazy_weights(torch.cat([row[TEXT], end.unsqueeze(0)]).numpy())

        async def prefix(self, context: Any) -> float:
            rows = [await self.logw_next(context[:t]) for t in range(len(context))]
            return float(sum(row[token] for row, token in zip(rows, context, strict=True)))

        async def complete(self, context: Any) -> float:
            end = (await self.logw_next(context))[self.eos]
            return await self.prefix(context) + float(end)

    return Model()


def words(budget: int = BUDGET) -> list[tuple[int, ...]]:
    """Every text that leaves room for its end."""
    return [w for n in range(budget) for w in itertools.product(TEXT, repeat=n)]


def accepted(fa: FiniteAutomaton, word: tuple[int, ...]) -> bool:
    return fa.accepts((*word, min(EOS)))


@cache
def posterior(kind: str, name: str) -> dict[tuple[int, ...], float]:
    """p_lm(x, end) of every text that satisfies the constraint, by enumeration."""
    lm: LanguageModel = table() if kind == "table" else hmm_lm()
    result = {}
    for word in words():
        if accepted(AUTOMATA[name], word):
            rows = lm.log_probs([word[:t] for t in range(len(word) + 1)]).double()
            log_p = sum(float(rows[t, token]) for t, token in enumerate(word))
            result[word] = math.exp(log_p + float(rows[-1, sorted(EOS)].logsumexp(0)))
    return result


def contexts(potential: Any, words: list[tuple[int, ...]]) -> list[list[Any]]:
    by_id = {token.token_id: token for token in potential.vocab}
    return [[by_id[i] for i in word] for word in words]


def viable(name: str, budget: int | None) -> list[tuple[int, ...]]:
    """The beginnings of texts that satisfy the constraint, by enumeration."""
    longest = BUDGET + 3 if budget is None else budget
    good = [w for w in words(longest) if accepted(AUTOMATA[name], w)]
    return sorted({w[:t] for w in good for t in range(len(w) + 1) if t < BUDGET})


@needs_genlm
@pytest.mark.parametrize("name", AUTOMATA)
@pytest.mark.parametrize("budget", [None, BUDGET])
def test_a_constraint_weighs_beginnings_as_enumeration_does(name: str, budget: int | None) -> None:
    potential = ConstraintPotential(AUTOMATA[name], VOCABULARY, budget)
    good = set(viable(name, budget))
    for word, context in zip(words(), contexts(potential, words()), strict=True):
        assert wait(potential.prefix(context)) == (0.0 if word in good else -math.inf), word
        complete = 0.0 if accepted(AUTOMATA[name], word) else -math.inf
        assert wait(potential.complete(context)) == complete, word


@needs_genlm
@pytest.mark.parametrize("name", AUTOMATA)
@pytest.mark.parametrize("budget", [None, BUDGET])
def test_a_constraint_keeps_the_contract_of_genlm(name: str, budget: int | None) -> None:
    potential = ConstraintPotential(AUTOMATA[name], VOCABULARY, budget)
    wait(potential.assert_contract(contexts(potential, viable(name, budget))))


@needs_genlm
@pytest.mark.parametrize("name", AUTOMATA)
def test_a_product_keeps_the_contract_of_genlm(name: str) -> None:
    potential = ProductPotential(hmm(1), AUTOMATA[name], VOCABULARY, BUDGET)
    wait(potential.assert_contract(contexts(potential, viable(name, BUDGET))))


@needs_genlm
def test_a_product_keeps_the_contract_where_the_hmm_has_zeros() -> None:
    model = hmm(1)
    emission = model.emission.clone()
    emission[:, 1] = 0.0
    zeros = HMM(model.initial, model.transition, emission / emission.sum(1, keepdim=True))
    zeros = absorbing(zeros, VOCABULARY.eos_ids)
    potential = ProductPotential(zeros, AUTOMATA["deterministic"], VOCABULARY, BUDGET)
    group = contexts(potential, viable("deterministic", BUDGET))
    for context in group:
        wait(potential.assert_logw_next_consistency(context))
    wait(potential.assert_batch_consistency(group))


@needs_genlm
@pytest.mark.parametrize("name", ["deterministic", "constraint"])
def test_a_product_weighs_beginnings_by_the_hmm(name: str) -> None:
    """p_hmm(C | x_1:t), by enumeration of what may follow."""
    potential = ProductPotential(hmm(), AUTOMATA[name], VOCABULARY, BUDGET)
    mass = posterior("hmm", name)
    lm = hmm_lm()
    for word in viable(name, BUDGET):
        joint = sum(p for text, p in mass.items() if text[: len(word)] == word)
        rows = lm.log_probs([word[:t] for t in range(len(word))]).double()
        alone = math.exp(sum(float(rows[t, token]) for t, token in enumerate(word)))
        found = wait(potential.prefix(contexts(potential, [word])[0]))
        assert math.exp(found) == pytest.approx(joint / alone, rel=1e-4), word


def sampler(kind: str, llm: Any, name: str) -> Any:
    if kind == "gcd":
        return gcd_token_sampler(llm, ConstraintPotential(AUTOMATA[name], VOCABULARY, BUDGET))
    if kind == "lcd":
        return gcd_token_sampler(llm, ConstraintPotential(AUTOMATA[name], VOCABULARY))
    product = ProductPotential(hmm(), AUTOMATA[name], VOCABULARY, BUDGET)
    return PGCDTokenSampler(llm, product, w=float(kind.removeprefix("pgcd ")))


@needs_genlm
@pytest.mark.parametrize("kind", ["pgcd 0", "pgcd 0.5", "pgcd 1"])
@pytest.mark.parametrize("name", AUTOMATA)
def test_samples_are_properly_weighted(kind: str, name: str) -> None:
    """All choices of the sampler, enumerated: q(x) w(x) is the target's next weight of x."""
    llm = model_potential(table())
    made = sampler(kind, llm, name)
    for context in contexts(llm, viable(name, BUDGET)[::3]):
        expected = wait(made.target.logw_next(context))
        total = 0.0
        for token in made.target.vocab_eos:
            if expected[token] == -math.inf:
                continue
            found, log_weight, log_q = wait(made.sample(context, draw=lambda chart, t=token: t))
            assert found == token
            assert log_weight + log_q == pytest.approx(expected[token], abs=2e-4)
            total += math.exp(log_q)
        assert total == pytest.approx(1.0, abs=1e-5)


@needs_genlm
@pytest.mark.parametrize("kind", ["lcd", "gcd", "pgcd 0.5", "pgcd 1"])
@pytest.mark.parametrize("name", AUTOMATA)
@pytest.mark.parametrize("ess_threshold", [0.0, 0.9])
def test_smc_of_genlm_estimates_the_exact_evidence(
    kind: str, name: str, ess_threshold: float
) -> None:
    truth = posterior("table", name)
    evidence = sum(truth.values())
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - genlm resamples with the global generator
    made = sampler(kind, model_potential(table()), name)

    async def runs() -> list[Any]:
        return [await made.smc(40, ess_threshold, BUDGET) for _ in range(25)]

    results = wait(runs())
    values = np.exp([r.log_ml for r in results])
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - evidence) < 5 * error + 1e-4 * evidence
    for result in results:
        for context, weight in result:
            word = tuple(token.token_id for token in context[:-1])
            if weight > -math.inf:
                assert context[-1] == made.target.eos
                assert word in truth
            assert kind == "lcd" or weight > -math.inf


@needs_genlm
@pytest.mark.parametrize("name", ["deterministic", "constraint"])
def test_where_the_model_is_the_hmm_every_particle_has_the_exact_evidence(name: str) -> None:
    evidence = sum(posterior("hmm", name).values())
    torch.manual_seed(1)
    made = sampler("pgcd 0", model_potential(hmm_lm()), name)
    result = wait(made.smc(20, 0.5, BUDGET))
    assert np.exp(result.log_weights) == pytest.approx(np.full(20, evidence), rel=1e-4)


@needs_genlm
def test_a_prompted_llm_of_genlm_satisfies_the_constraint() -> None:
    """Their adapter of language models, with a tokenizer: the tokens agree."""
    pytest.importorskip("transformers")
    from genlm.backend.llm import MockAsyncLM
    from genlm.control import PromptedLLM

    from tests.lm.examples import tiny_tokenizer

    tokenizer = tiny_tokenizer()
    llm = PromptedLLM(MockAsyncLM(tokenizer), prompt_ids=[5, 6])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    constraint = regex("(hello|hell no){1,2}!")
    generator = torch.Generator().manual_seed(0)
    model = absorbing(
        HMM.random(4, vocabulary.logits_size, generator=generator), vocabulary.eos_ids
    )
    product = ProductPotential(model, constraint, vocabulary, 16)
    assert llm.vocab == product.vocab
    torch.manual_seed(0)
    for made in (
        PGCDTokenSampler(llm, product, 0.5),
        gcd_token_sampler(llm, ConstraintPotential(constraint, vocabulary, 16)),
    ):
        result = wait(made.smc(8, 0.5, 16))
        assert math.isfinite(result.log_ml)
        for context, weight in result:
            assert weight > -math.inf
            assert constraint.matches(b"".join(context[:-1]))


@needs_genlm
def test_a_model_with_fewer_tokens_is_aligned() -> None:
    from genlm.backend.tokenization import Token
    from genlm.control import Potential

    class Small(Potential):  # type: ignore[misc]
        """Uniform over two tokens and the end, in another order."""

        async def prefix(self, context: Any) -> float:
            return -math.log(3) * len(context)

        async def complete(self, context: Any) -> float:
            return -math.log(3) * (len(context) + 1)

    llm = Small([Token(1, b"b"), Token(0, b"a")])
    product = ProductPotential(hmm(), AUTOMATA["constraint"], VOCABULARY, BUDGET)
    texts = [w for w in words() if accepted(AUTOMATA["constraint"], w) and set(w) <= {0, 1}]
    evidence = sum(3.0 ** -(len(w) + 1) for w in texts)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - genlm resamples with the global generator
    made = PGCDTokenSampler(llm, product)

    async def runs() -> list[float]:
        return [(await made.smc(40, 0.5, BUDGET)).log_ml for _ in range(25)]

    values = np.exp(wait(runs()))
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - evidence) < 5 * error + 1e-4 * evidence


@needs_genlm
def test_wrong_input_is_told() -> None:
    potential = ConstraintPotential(AUTOMATA["constraint"], VOCABULARY, BUDGET)
    with pytest.raises(VocabularyMismatchError, match="is none"):
        wait(potential.prefix([b"a"]))
    dead = contexts(potential, [(0, 0, 0)])[0]
    with pytest.raises(InvalidParameterError, match="weight zero"):
        wait(potential.logw_next(dead))
    assert wait(potential.prefix(dead * 3)) == -math.inf
    with pytest.raises(EmptyLanguageError, match="smallest budget that works is 4"):
        ConstraintPotential(regex("bbb"), VOCABULARY, 3)
    with pytest.raises(InvalidParameterError, match="whole number of at least 1"):
        ConstraintPotential(regex("b"), VOCABULARY, 0)
    product = ProductPotential(hmm(), AUTOMATA["constraint"], VOCABULARY, BUDGET)
    with pytest.raises(InvalidParameterError, match=r"\[0, 1\]"):
        PGCDTokenSampler(model_potential(table()), product, w=2)
    assert wait(product.prefix(contexts(product, [(0,) * 7])[0])) == -math.inf


@pytest.mark.skipif(INSTALLED, reason="genlm-control is installed")
def test_without_genlm_the_error_names_the_package() -> None:
    with pytest.raises(MissingDependencyError, match="pip install 'genlm-control"):
        ConstraintPotential(AUTOMATA["constraint"], VOCABULARY, BUDGET)
