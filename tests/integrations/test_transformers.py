"""Processors inside ``model.generate``: every text that ends satisfies its constraint."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from pcgcd import generate
from pcgcd.automata import FiniteAutomaton
from pcgcd.constraints import Constraint, regex
from pcgcd.decoding import GCD, LCD, PGCD, NextStep, Proposal
from pcgcd.errors import (
    DeadEndError,
    EmptyLanguageError,
    InvalidParameterError,
    VocabularyMismatchError,
)
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.integrations.transformers import (
    ConstrainedLogitsProcessor,
    GCDLogitsProcessor,
    LCDLogitsProcessor,
    PGCDLogitsProcessor,
)
from tests.lm.examples import VOCABULARY, tiny_model, tiny_tokenizer

transformers = pytest.importorskip("transformers")

EOS, PAD, WIDTH = (5, 6), 7, VOCABULARY.logits_size
PATTERNS = ["(a|b|c)*cc", "(ab)*c?", "b{3}|a", "(a|b)*|c"]
BUDGET = 6
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "nucleus": {"do_sample": True, "top_p": 0.4, "top_k": 3, "temperature": 1.7},
    "penalised": {"do_sample": False, "repetition_penalty": 1.5},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "many beams": {"num_beams": 6, "num_return_sequences": 4, "early_stopping": True},
    "sampled beams": {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
}


class Biased(torch.nn.Module):
    """A head that adds a constant to the logits."""

    def __init__(self, head: Any, bias: Tensor) -> None:
        super().__init__()
        self.head, self.bias = head, bias
        self.weight = head.weight

    def forward(self, hidden: Tensor) -> Tensor:
        return self.head(hidden) + self.bias


def model(bias: dict[int, float] | None = None) -> Any:
    made = tiny_model("llama", WIDTH).eval()
    if bias:
        values = torch.zeros(WIDTH)
        for token, value in bias.items():
            values[token] = value
        made.lm_head = Biased(made.lm_head, values)
    return made


@cache
def plain_model() -> Any:
    return model()


@cache
def hmm() -> HMM:
    generator = torch.Generator().manual_seed(3)
    return absorbing(HMM.random(5, WIDTH, generator=generator, concentration=0.6), EOS)


def processor(kind: str, constraint: Any, budget: int = BUDGET) -> ConstrainedLogitsProcessor:
    if kind == "lcd":
        return LCDLogitsProcessor(constraint, VOCABULARY)
    if kind == "gcd":
        return GCDLogitsProcessor(constraint, VOCABULARY, budget)
    return PGCDLogitsProcessor(constraint, VOCABULARY, budget, hmm(), w=0.4)


PROMPTS = torch.tensor([[7, 7, 0, 3], [7, 1, 2, 4], [0, 0, 0, 8]])
MASK = (torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]])).long()


def run(lm: Any, logits_processor: Any, budget: int = BUDGET, **options: Any) -> Any:
    settings = {
        "attention_mask": MASK,
        "max_new_tokens": budget,
        "eos_token_id": list(EOS),
        "pad_token_id": PAD,
        "logits_processor": [logits_processor],
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    return lm.generate(**{"inputs": PROMPTS, **settings, **options})


def texts(output: Any, prompt_length: int = 4) -> list[tuple[int, ...]]:
    """The generated tokens up to the end."""
    result = []
    for row in output.sequences[:, prompt_length:].tolist():
        ends = [place for place, token in enumerate(row) if token in EOS]
        result.append(tuple(row[: ends[0] + 1] if ends else row))
    return result


def assert_satisfied(
    constraints: list[Constraint], found: list[tuple[int, ...]], budget: int = BUDGET
) -> None:
    """Each text satisfies the constraint of its prompt, byte by byte, and has ended."""
    each = len(found) // len(constraints)
    assert len(found) == each * len(constraints) > 0
    for place, tokens in enumerate(found):
        constraint = constraints[place // each]
        assert constraint.matches(VOCABULARY.decode(tokens)), (constraint, tokens)
        assert len(tokens) == budget or tokens[-1] in EOS, tokens
        assert not {PAD, 8} & set(tokens)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["gcd", "pgcd"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_text_satisfies_the_constraint_within_the_budget(
    kind: str, way: str, pattern: str
) -> None:
    torch.manual_seed(1)
    constraint = regex(pattern)
    for budget in (3, BUDGET):
        output = run(plain_model(), processor(kind, constraint, budget), budget, **WAYS[way])
        assert_satisfied([constraint] * 3, texts(output), budget)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["gcd", "pgcd"])
def test_models_that_push_towards_invalid_tokens_cannot_break_the_guarantee(
    kind: str, way: str
) -> None:
    torch.manual_seed(2)
    constraint = regex("(a|b|c)*cc")
    never_ends = {0: 40.0, 1: 30.0, 5: -40.0, 6: -40.0}
    ends_at_once = {5: 50.0, 7: 80.0, 8: 90.0}
    for bias in (never_ends, ends_at_once):
        output = run(model(bias), processor(kind, constraint), **WAYS[way])
        assert_satisfied([constraint] * 3, texts(output))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["gcd", "pgcd"])
def test_each_prompt_can_have_a_constraint_of_its_own(kind: str, way: str) -> None:
    torch.manual_seed(3)
    constraints = [regex(pattern) for pattern in PATTERNS[:3]]
    output = run(plain_model(), processor(kind, constraints), **WAYS[way])
    assert_satisfied(constraints, texts(output))


@pytest.mark.parametrize("kind", ["lcd", "gcd", "pgcd"])
def test_padding_on_the_left_changes_nothing(kind: str) -> None:
    constraint = regex("(a|b|c)*cc")
    together = texts(run(plain_model(), processor(kind, constraint), do_sample=False))
    for row in range(3):
        prompt = PROMPTS[row][MASK[row] == 1].unsqueeze(0)
        alone = run(
            plain_model(),
            processor(kind, constraint),
            inputs=prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
        )
        assert texts(alone, prompt.shape[1]) == [together[row]]


def test_lcd_can_be_cut_off_and_gcd_cannot() -> None:
    constraint = regex("(a|b|c)*cc")
    lm = model({3: -50.0, 4: -50.0, 5: -50.0, 6: -50.0})
    cut = texts(run(lm, processor("lcd", constraint), do_sample=False))
    assert not any(constraint.matches(VOCABULARY.decode(tokens)) for tokens in cut)
    assert_satisfied([constraint] * 3, texts(run(lm, processor("gcd", constraint))))


# -- the scores are those of the proposals ---------------------------------------------------


def proposal_scores(
    proposal: Proposal, fa: FiniteAutomaton, tokens: tuple[int, ...], logits: Tensor, budget: int
) -> Tensor:
    """Normalised weights of ``pcgcd.decoding`` after these tokens, from scratch."""
    state = (hmm() * fa).start([budget])
    for token in tokens:
        state = state.advance([token])
    step = NextStep(state, logits.log_softmax(-1).unsqueeze(0))
    return proposal.weigh(step).dense(WIDTH)[0].log_softmax(-1)


@pytest.mark.parametrize(
    ("kind", "proposal"), [("lcd", LCD()), ("gcd", GCD()), ("pgcd", PGCD(0.4))]
)
@pytest.mark.parametrize("way", ["greedy", "several samples"])
def test_scores_are_the_weights_of_the_proposal_at_every_step(
    kind: str, proposal: Proposal, way: str
) -> None:
    torch.manual_seed(4)
    constraint = regex("(a|b|c)*cc")
    fa = constraint.compile(VOCABULARY)
    output = run(plain_model(), processor(kind, constraint), output_logits=True, **WAYS[way])
    compared = 0
    for row, tokens in enumerate(texts(output)):
        for t in range(len(tokens)):
            expected = proposal_scores(proposal, fa, tokens[:t], output.logits[t][row], BUDGET)
            found = output.scores[t][row]
            if kind != "pgcd":
                found = found.log_softmax(-1)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            compared += 1
    assert compared >= 9


def sampled(made: ConstrainedLogitsProcessor, count: int) -> list[tuple[int, ...]]:
    torch.manual_seed(5)
    ids = torch.tensor([[0, 3]])
    output = run(
        plain_model(),
        made,
        4,
        inputs=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        num_return_sequences=count,
    )
    return texts(output, 2)


def chi_square(first: dict[Any, int], second: dict[Any, int]) -> tuple[float, int]:
    """The statistic of two samples of one size, rare texts together, and its degrees."""
    both = {key: (first.get(key, 0), second.get(key, 0)) for key in first | second}
    pairs = [pair for pair in both.values() if sum(pair) >= 20]
    rare = [pair for pair in both.values() if sum(pair) < 20]
    if rare:
        pairs.append((sum(a for a, _ in rare), sum(b for _, b in rare)))
    return sum((a - b) ** 2 / (a + b) for a, b in pairs), len(pairs) - 1


def test_sampling_agrees_with_plain_gcd_of_generate() -> None:
    """Both follow one distribution over texts; another proposal, the control, does not."""
    from pcgcd.lm import TransformersLM

    constraint, count = regex("(a|b|c)*c"), 1500
    lm = TransformersLM(plain_model(), None, vocabulary=VOCABULARY)
    theirs = generate(
        lm,
        constraint,
        prompt=[0, 3],
        budget=4,
        particles=count,
        method="gcd",
        smc=False,
        seed=0,
    )
    expected = _counts(theirs.token_ids)
    ours = _counts(sampled(GCDLogitsProcessor(constraint, VOCABULARY, 4), count))
    control = _counts(sampled(PGCDLogitsProcessor(constraint, VOCABULARY, 4, hmm()), count))
    statistic, degrees = chi_square(expected, ours)
    assert degrees >= 5
    # A chi-square variable has this mean and this standard deviation.
    limit = degrees + 5 * (2 * degrees) ** 0.5
    assert statistic < limit
    wrong, degrees = chi_square(expected, control)
    assert wrong > degrees + 5 * (2 * degrees) ** 0.5


def _counts(sequences: Any) -> dict[tuple[int, ...], int]:
    result: dict[tuple[int, ...], int] = {}
    for tokens in sequences:
        result[tuple(tokens)] = result.get(tuple(tokens), 0) + 1
    return result


def test_beam_search_finds_the_most_probable_text() -> None:
    """With beams enough for everything, the best text of all that satisfy the constraint."""
    from itertools import product

    constraint, budget = regex("(a|b)*c"), 3
    fa = constraint.compile(VOCABULARY)
    lm, prompt = plain_model(), [0, 3]
    best, best_score = None, -float("inf")
    for length in (1, 2, 3):
        for tokens in product(range(7), repeat=length):
            ends = [t for t in tokens if t in EOS]
            complete = (ends and tokens[-1] in EOS and len(ends) == 1) or (
                not ends and length == budget
            )
            if not complete or not fa.accepts(tokens):
                continue
            with torch.no_grad():
                logits = lm(torch.tensor([[*prompt, *tokens]])).logits[0].log_softmax(-1)
            score = sum(float(logits[1 + t, token]) for t, token in enumerate(tokens))
            if score > best_score:
                best, best_score = tokens, score
    ids = torch.tensor([prompt])
    output = run(
        lm,
        GCDLogitsProcessor(constraint, VOCABULARY, budget),
        budget,
        inputs=ids,
        attention_mask=torch.ones_like(ids),
        num_beams=60,
        length_penalty=0.0,
        do_sample=False,
    )
    assert texts(output, 2) == [best]


# -- calls ----------------------------------------------------------------------------------


def test_a_second_call_with_other_prompts_starts_afresh() -> None:
    constraint = regex("b{3}|a")
    shared = processor("pgcd", constraint)
    for prompts in (PROMPTS, PROMPTS.flip(0), PROMPTS[:, 2:], PROMPTS, PROMPTS[:1].repeat(1, 9)):
        mask = torch.ones_like(prompts)
        new = run(plain_model(), processor("pgcd", constraint), inputs=prompts, attention_mask=mask)
        again = run(plain_model(), shared, inputs=prompts, attention_mask=mask)
        assert torch.equal(new.sequences, again.sequences)


def test_a_prompt_that_is_the_beginning_of_the_last_text_is_refused_until_reset() -> None:
    constraint = regex("(a|b|c)*cc")
    shared = processor("gcd", constraint)
    output = run(plain_model(), shared, do_sample=False)
    longer = output.sequences[:, :6]
    with pytest.raises(InvalidParameterError, match=r"reset\(\)"):
        run(plain_model(), shared, inputs=longer, attention_mask=torch.ones_like(longer))
    shared.reset()
    found = run(plain_model(), shared, inputs=longer, attention_mask=torch.ones_like(longer))
    assert_satisfied([constraint] * 3, texts(found, 6))


def test_the_whole_output_of_a_call_can_be_the_prompt_of_the_next() -> None:
    constraint = regex("b{3}|a")
    shared = processor("gcd", constraint)
    first = run(plain_model(), shared, do_sample=False).sequences
    assert all(not set(EOS).isdisjoint(row) for row in first[:, PROMPTS.shape[1] :].tolist())
    mask = torch.ones_like(first)
    again = run(plain_model(), shared, do_sample=False, inputs=first, attention_mask=mask)
    fresh = processor("gcd", constraint)
    expected = run(plain_model(), fresh, do_sample=False, inputs=first, attention_mask=mask)
    assert torch.equal(again.sequences, expected.sequences)
    assert_satisfied([constraint] * len(first), texts(again, first.shape[1]))


def test_a_cut_off_output_as_the_next_prompt_is_refused_where_the_budget_ends() -> None:
    constraint = regex("(a|b)*")
    shared = processor("gcd", constraint)
    lm = model({5: -50.0, 6: -50.0})
    first = run(lm, shared, do_sample=False).sequences
    with pytest.raises(InvalidParameterError, match=r"reset\(\)"):
        run(lm, shared, do_sample=False, inputs=first, attention_mask=torch.ones_like(first))


def test_prompt_length_makes_the_end_of_the_prompt_part_of_the_text() -> None:
    constraint = regex("ab(c|a)")
    prompts = torch.tensor([[7, 0, 0, 1], [0, 3, 0, 1]])
    given = GCDLogitsProcessor(constraint, VOCABULARY, 4, prompt_length=2)
    output = run(plain_model(), given, 2, inputs=prompts, attention_mask=torch.ones_like(prompts))
    for tokens in texts(output, 2):
        assert constraint.matches(VOCABULARY.decode(tokens))


def test_assisted_generation_works_with_a_prompt_length() -> None:
    constraint = regex("(a|b|c)*cc")
    prompts = torch.tensor([[0, 3, 1]])
    options = {"inputs": prompts, "attention_mask": torch.ones_like(prompts), "do_sample": False}
    plain = run(plain_model(), processor("gcd", constraint), **options)
    given = GCDLogitsProcessor(constraint, VOCABULARY, BUDGET, prompt_length=3)
    output = run(plain_model(), given, prompt_lookup_num_tokens=2, **options)
    assert texts(output, 3) == texts(plain, 3)


def test_more_new_tokens_than_the_budget_is_an_error() -> None:
    lm = model({5: -50.0, 6: -50.0})
    with pytest.raises(InvalidParameterError, match="max_new_tokens=6"):
        run(lm, processor("gcd", regex("(a|b)*")), max_new_tokens=9, do_sample=False)


def test_a_budget_that_is_too_small_is_an_error_before_generation() -> None:
    with pytest.raises(EmptyLanguageError, match="smallest budget that works is 3"):
        processor("gcd", regex("b{3}"), budget=2)
    with pytest.raises(InvalidParameterError, match="whole number of at least 1"):
        processor("gcd", regex("b"), budget=0)


@pytest.mark.parametrize("kind", ["lcd", "gcd", "pgcd"])
def test_a_model_that_excludes_all_that_is_allowed_is_a_dead_end(kind: str) -> None:
    lm = model(dict.fromkeys((1, 4), -torch.inf))
    with pytest.raises(DeadEndError, match="-inf"):
        run(lm, processor(kind, regex("b+")), do_sample=False)


@pytest.mark.parametrize("kind", ["lcd", "gcd", "pgcd"])
def test_scores_that_are_no_numbers_matter_only_where_allowed(kind: str) -> None:
    made = processor(kind, regex("b+"))
    ids = torch.zeros((1, 2), dtype=torch.long)
    scores = torch.zeros((1, WIDTH))
    scores[0, 0], scores[0, 8] = torch.nan, torch.inf
    assert torch.isfinite(made(ids, scores)[0]).nonzero().flatten().tolist() == [1]
    scores[0, 1] = torch.inf
    with pytest.raises(InvalidParameterError, match="NaN"):
        made(ids, scores)


def test_rows_that_have_ended_go_on_with_padding() -> None:
    made = processor("gcd", regex("b+"))
    scores = torch.zeros((2, WIDTH))
    made(torch.tensor([[0], [0]]), scores)
    made(torch.tensor([[0, 1], [0, 1]]), scores)
    made(torch.tensor([[0, 1, 6], [0, 1, 1]]), scores)
    result = made(torch.tensor([[0, 1, 6, PAD], [0, 1, 1, 1]]), scores)
    assert torch.isfinite(result[0]).nonzero().flatten().tolist() == [5]
    assert torch.isfinite(result[1]).nonzero().flatten().tolist() == [1, 5, 6]


def test_a_text_that_another_processor_spoiled_is_an_error() -> None:
    made = processor("gcd", regex("b+"))
    made(torch.tensor([[0]]), torch.zeros((1, WIDTH)))
    with pytest.raises(InvalidParameterError, match="cannot be completed"):
        made(torch.tensor([[0, 0]]), torch.zeros((1, WIDTH)))


def test_wrong_shapes_are_errors() -> None:
    made = processor("gcd", [regex("b+"), regex("a")])
    with pytest.raises(InvalidParameterError, match="2 constraints"):
        made(torch.zeros((3, 1), dtype=torch.long), torch.zeros((3, WIDTH)))
    with pytest.raises(VocabularyMismatchError, match="logits_size=10"):
        made(torch.zeros((2, 1), dtype=torch.long), torch.zeros((2, 10)))
    with pytest.raises(InvalidParameterError, match="for each prompt"):
        processor("gcd", [])
    with pytest.raises(VocabularyMismatchError, match="HMM"):
        PGCDLogitsProcessor(regex("a"), VOCABULARY, 3, HMM.random(2, 5))


@pytest.mark.parametrize("extra", [0, 5])
def test_a_tokenizer_serves_as_vocabulary_with_wider_logits(extra: int) -> None:
    tokenizer = tiny_tokenizer()
    size = len(tokenizer)
    lm = tiny_model("llama", size + extra).eval()
    constraint = regex("(hello|hell no){1,2}!")
    made = GCDLogitsProcessor(constraint, tokenizer, 20)
    inputs = tokenizer(["<s>say hello"], return_tensors="pt")
    torch.manual_seed(0)
    output = lm.generate(
        inputs["input_ids"], max_new_tokens=20, do_sample=True, logits_processor=[made]
    )
    start = inputs["input_ids"].shape[1]
    found = tokenizer.batch_decode(output[:, start:], skip_special_tokens=True)
    assert all(map(constraint.matches, found)), found
