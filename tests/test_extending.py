"""Parts of decoding of a user's own: the laws hold for the right ones; mistakes are named."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

import pcgcd
from pcgcd import HMM, FiniteAutomaton, Vocabulary
from pcgcd.constraints import Constraint, literal, regex
from pcgcd.decoding import (
    GCD,
    LCD,
    PGCD,
    LookAhead,
    NextStep,
    Potential,
    PrefixValidity,
    Proposal,
    Randomness,
    Terminal,
    Twisted,
    Unconstrained,
    multinomial,
    residual,
    stratified,
    systematic,
)
from pcgcd.decoding.resampling import Resampler
from pcgcd.engine import Candidates, PrefixState
from pcgcd.errors import EmptyLanguageError, InvalidParameterError
from pcgcd.lm import HMMLanguageModel, LanguageModel, LMSession, TableLM
from pcgcd.testing import (
    ConstraintLaws,
    LanguageModelLaws,
    PotentialLaws,
    ProposalLaws,
    ResamplerLaws,
    TextWorld,
)
from pcgcd.testing.texts import text_worlds
from tests.decoding import worlds


def laws_of(suite: type) -> list[str]:
    return [name for name in dir(suite) if name.startswith("test_")]


def suite_of(laws: type, create: str, subject: Any, **attributes: Any) -> Any:
    return type("Suite", (laws,), {create: lambda self: subject, **attributes})()


def breaks(laws: type, create: str, subject: Any, law: str, **attributes: Any) -> None:
    with pytest.raises(AssertionError):
        getattr(suite_of(laws, create, subject, **attributes), f"test_{law}")()


# -- proposals --------------------------------------------------------------------------------

PROPOSALS = [Unconstrained(), LCD(), GCD(), PGCD(0.0), PGCD(0.5), Twisted(0.3)]


@pytest.mark.parametrize("law", laws_of(ProposalLaws))
@pytest.mark.parametrize("proposal", PROPOSALS, ids=str)
def test_proposals_of_the_library_keep_the_laws(proposal: Proposal, law: str) -> None:
    getattr(suite_of(ProposalLaws, "create_proposal", proposal), law)()


class Plain:
    """The language model, masked: what the wrong proposals are made of."""

    def weigh(self, step: NextStep) -> Candidates:
        return step.masked()


class Greedy(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        found = step.masked()
        weights = found.log_weights
        return found.with_weights(
            weights.masked_fill(weights < weights.amax(1, keepdim=True), -math.inf)
        )


class CircuitUnmasked(Plain):
    """The guide alone: it may rule out what the language model would say."""

    needs_guide = True

    def weigh(self, step: NextStep) -> Candidates:
        return step.state.next_token_log_probs()


class TokenTwice(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        dense = super().weigh(step).dense(step.state.vocab_size)
        tokens = torch.arange(dense.shape[1]).expand(len(dense), -1)
        return Candidates(torch.cat([tokens, tokens], 1), torch.cat([dense, dense], 1))


class NotANumber(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        return Candidates(None, torch.full_like(step.log_probs, math.nan))


class OneRow(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        return super().weigh(step).rows([0])


class Infinite(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        found = super().weigh(step)
        return found.with_weights(found.log_weights.masked_fill(found.log_weights > -1, math.inf))


class InPlace(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        step.log_probs.mul_(0.5)
        return super().weigh(step)


class MeanOfTheBatch(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        found = super().weigh(step)
        mean = step.log_probs.exp().mean(0, keepdim=True).log().expand_as(step.log_probs)
        return found.with_weights(found.log_weights + found.at(mean))


class Position(Plain):
    """Weights that depend on the number of the row."""

    def weigh(self, step: NextStep) -> Candidates:
        found = super().weigh(step)
        scale = 1 + torch.arange(found.num_rows).unsqueeze(1)
        return found.with_weights(found.log_weights * scale)


class SecretlyGuided(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        return step.state.next_tokens()


BROKEN_PROPOSALS = [
    (Greedy, "support_covers_the_target"),
    (Greedy, "evidence_is_unbiased"),
    (CircuitUnmasked, "support_covers_the_target"),
    (TokenTwice, "candidates_fit_the_step"),
    (TokenTwice, "evidence_is_unbiased"),
    (NotANumber, "candidates_fit_the_step"),
    (Infinite, "candidates_fit_the_step"),
    (OneRow, "candidates_fit_the_step"),
    (InPlace, "weighing_changes_nothing"),
    (MeanOfTheBatch, "rows_do_not_depend_on_each_other"),
    (Position, "rows_do_not_depend_on_each_other"),
    (Position, "selected_rows_keep_their_answers"),
    (SecretlyGuided, "a_guide_is_asked_only_if_that_is_said"),
]


@pytest.mark.parametrize(("kind", "law"), BROKEN_PROPOSALS)
def test_broken_proposals_break_a_law(kind: type[Plain], law: str) -> None:
    breaks(ProposalLaws, "create_proposal", kind(), law)


# -- potentials -------------------------------------------------------------------------------

POTENTIALS = [Terminal(), PrefixValidity(), PrefixValidity(False), LookAhead(), LookAhead(0.5)]


@pytest.mark.parametrize("law", laws_of(PotentialLaws))
@pytest.mark.parametrize("potential", POTENTIALS, ids=str)
def test_potentials_of_the_library_keep_the_laws(potential: Potential, law: str) -> None:
    getattr(suite_of(PotentialLaws, "create_potential", potential), law)()


@dataclass(frozen=True)
class Twist:
    """A potential from a function of the state."""

    log_of: Any
    needs_guide: ClassVar[bool] = False

    def log_twist(self, state: PrefixState) -> Any:
        return self.log_of(state)


def zeros(state: PrefixState) -> Tensor:
    return torch.zeros(state.num_rows, dtype=torch.float64)


def complete_already(state: PrefixState) -> Tensor:
    """Prefixes that are not yet texts are given up."""
    return zeros(state).masked_fill(state.log_final() == -math.inf, -math.inf)


BROKEN_POTENTIALS = [
    (complete_already, "what_can_be_completed_is_possible"),
    (complete_already, "evidence_is_unbiased"),
    (lambda state: 0.0, "one_number_for_each_prefix"),
    (lambda state: zeros(state).unsqueeze(1), "one_number_for_each_prefix"),
    (lambda state: zeros(state) + math.nan, "one_number_for_each_prefix"),
    (lambda state: zeros(state) + math.inf, "one_number_for_each_prefix"),
    (lambda state: torch.arange(state.num_rows) * 0.1, "rows_do_not_depend_on_each_other"),
    (lambda state: torch.arange(state.num_rows) * 0.1, "selected_rows_keep_their_answers"),
    (lambda state: state.log_lookahead(), "a_guide_is_asked_only_if_that_is_said"),
]


@pytest.mark.parametrize(("log_of", "law"), BROKEN_POTENTIALS)
def test_broken_potentials_break_a_law(log_of: Any, law: str) -> None:
    breaks(PotentialLaws, "create_potential", Twist(log_of), law)


# -- what the laws of both are checked on -----------------------------------------------------


def test_the_evidence_of_a_world_is_the_sum_over_its_texts() -> None:
    """With fractions, by hand: p(a) = 1/2, p(EOS) = 1/4, and "a" or "aa" end the text."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
    lm = TableLM(vocabulary, {}, default=[0.5, 0.25, 0.25])
    world = TextWorld(lm, regex("a{1,2}"), 2)
    expected = Fraction(1, 2) * Fraction(1, 4) + Fraction(1, 2) ** 2
    assert world.evidence == pytest.approx(float(expected))
    assert len(list(world.texts())) == 1 + 2 + 4
    assert world.prefixes(1) == [(0,)]


def test_worlds_have_what_tells_wrong_from_right() -> None:
    """Tokens that the model, and tokens that a guide rules out; weights; several paths."""
    found = text_worlds()
    assert any(world.target.automaton.is_weighted for world in found)
    assert any(not world.target.automaton.is_unambiguous for world in found)
    for world in found:
        assert world.lm.log_probs([(0,)])[0, 2] == -math.inf
        assert world.evidence > 0
    guided = [w.state([()]).next_token_log_probs().dense(5)[0] for w in found]
    allowed = [w.state([()]).allowed().dense(5)[0] for w in found]
    assert any(bool(((g == -math.inf) & (a == 0)).any()) for g, a in zip(guided, allowed))


# -- resamplers -------------------------------------------------------------------------------

RESAMPLERS = [multinomial, stratified, systematic, residual]


@pytest.mark.parametrize("law", laws_of(ResamplerLaws))
@pytest.mark.parametrize("resampler", RESAMPLERS)
def test_resamplers_of_the_library_keep_the_laws(resampler: Resampler, law: str) -> None:
    getattr(suite_of(ResamplerLaws, "create_resampler", resampler), law)()


def one_too_few(weights: Tensor, rng: Randomness) -> Tensor:
    return systematic(weights, rng)[:-1]


def from_one(weights: Tensor, rng: Randomness) -> Tensor:
    return systematic(weights, rng) + 1


def uniform(weights: Tensor, rng: Randomness) -> Tensor:
    return torch.arange(len(weights))


def best(weights: Tensor, rng: Randomness) -> Tensor:
    return weights.argmax().expand(len(weights))


def flattened(weights: Tensor, rng: Randomness) -> Tensor:
    return multinomial(weights.sqrt() / weights.sqrt().sum(), rng)


def unseeded(weights: Tensor, rng: Randomness) -> Tensor:
    return multinomial(weights, Randomness())


BROKEN_RESAMPLERS = [
    (one_too_few, "every_place_has_an_ancestor"),
    (from_one, "every_place_has_an_ancestor"),
    (uniform, "every_place_has_an_ancestor"),
    (lambda weights, rng: systematic(weights, rng).double(), "every_place_has_an_ancestor"),
    (lambda weights, rng: iter(range(len(weights))), "every_place_has_an_ancestor"),
    (best, "descendants_are_in_proportion_to_the_weights"),
    (flattened, "descendants_are_in_proportion_to_the_weights"),
    (unseeded, "equal_seeds_give_equal_ancestors"),
]


@pytest.mark.parametrize(("method", "law"), BROKEN_RESAMPLERS)
def test_broken_resamplers_break_a_law(method: Resampler, law: str) -> None:
    breaks(ResamplerLaws, "create_resampler", method, law)


# -- language models --------------------------------------------------------------------------


@pytest.mark.parametrize("law", laws_of(LanguageModelLaws))
@pytest.mark.parametrize("lm", [worlds.table(), worlds.hmm_lm()], ids=["table", "hmm"])
def test_language_models_of_the_library_keep_the_laws(lm: LanguageModel, law: str) -> None:
    getattr(suite_of(LanguageModelLaws, "create_language_model", lm), law)()


class Model(LanguageModel):
    """Rows that a function makes of those of a table."""

    def __init__(self, change: Any = None, vocabulary: Any = worlds.VOCABULARY) -> None:
        self.inner, self.change = worlds.table(), change
        if vocabulary is not None:
            self.vocabulary = vocabulary

    def log_probs(self, prefixes: Any) -> Any:
        rows = self.inner.log_probs(prefixes)
        return rows if self.change is None else self.change(rows)


class Forgetful(LMSession):
    """A session that does not follow its prefixes."""

    def __init__(self, lm: Model, prompts: Any, *, reindexes: bool, advances: bool) -> None:
        self.lm, self.prefixes = lm, [tuple(prompt) for prompt in prompts]
        self.reindexes, self.advances = reindexes, advances

    @property
    def num_rows(self) -> int:
        return len(self.prefixes)

    def log_probs(self) -> Tensor:
        return self.lm.log_probs(self.prefixes)

    def advance(self, tokens: Any) -> None:
        if self.advances:
            self.prefixes = [(*p, int(t)) for p, t in zip(self.prefixes, tokens, strict=True)]

    def reindex(self, rows: Any) -> None:
        kept = list(rows) if self.reindexes else range(len(rows))
        self.prefixes = [self.prefixes[row % len(self.prefixes)] for row in kept]


class WithSession(Model):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.options = options

    def start(self, prompts: Any) -> LMSession:
        return Forgetful(self, prompts, **self.options)


class WithoutSession(Model):
    def start(self, prompts: Any) -> Any:
        return None


class SharedState(Model):
    """One session for all."""

    def start(self, prompts: Any) -> LMSession:
        if not hasattr(self, "session"):
            self.session = super().start(prompts)
        return self.session


def mixed_up(rows: Tensor) -> Tensor:
    return rows.mean(0, keepdim=True).log_softmax(-1).expand_as(rows)


BROKEN_MODELS = [
    (Model(lambda rows: rows + 1), "rows_are_distributions"),
    (Model(lambda rows: rows.exp()), "rows_are_distributions"),
    (Model(lambda rows: rows * math.nan), "rows_are_distributions"),
    (Model(lambda rows: rows[:, :-1].log_softmax(-1)), "rows_are_distributions"),
    (Model(lambda rows: rows[:1]), "rows_are_distributions"),
    (Model(lambda rows: rows.tolist()), "rows_are_distributions"),
    (Model(lambda rows: rows.argmax(-1, keepdim=True)), "rows_are_distributions"),
    (Model(mixed_up), "rows_do_not_depend_on_each_other"),
    (Model(lambda rows: rows if len(rows) else rows[:, :0]), "no_prefixes_have_no_rows"),
    (Model(vocabulary=None), "members_are_there"),
    (WithSession(reindexes=False, advances=True), "sessions_answer_for_their_prefixes"),
    (WithSession(reindexes=True, advances=False), "sessions_answer_for_their_prefixes"),
    (WithSession(reindexes=True, advances=False), "sessions_need_not_be_asked_at_every_step"),
    (
        WithSession(reindexes=True, advances=False),
        "generated_texts_have_the_probabilities_reported",
    ),
    (WithoutSession(), "sessions_answer_for_their_prefixes"),
    (SharedState(), "sessions_do_not_share_anything"),
]


@pytest.mark.parametrize(("lm", "law"), BROKEN_MODELS)
def test_broken_language_models_break_a_law(lm: LanguageModel, law: str) -> None:
    breaks(LanguageModelLaws, "create_language_model", lm, law)


# -- constraints ------------------------------------------------------------------------------


def even_automaton() -> FiniteAutomaton:
    return FiniteAutomaton.from_edges(
        num_states=2,
        vocab_size=256,
        initial=0,
        accepting={0},
        edges=[(0, 0, b"02468"), (0, 1, b"13579"), (1, 1, b"02468"), (1, 0, b"13579")],
    )


def even() -> Constraint:
    return Constraint.from_automaton(even_automaton(), "an even sum")


class EvenLaws(ConstraintLaws):
    members = ("", "11", "1234")
    non_members = ("1", "12a", "a")

    def reference(self, text: bytes) -> bool:
        return all(c in b"0123456789" for c in text) and sum(c - 48 for c in text) % 2 == 0

    def create_constraint(self) -> Constraint:
        return even()


class TestFromAutomaton(EvenLaws):
    """A constraint from an automaton of one's own."""


class TestNotASCII(ConstraintLaws):
    members = ("größe", "größer", "größer größer")
    non_members = ("grosse", "", "größ", b"gr\xc3")

    def create_constraint(self) -> Constraint:
        return literal("größe") | regex("größer( größer)*")


def test_constraints_from_automata_compose_as_sets_do() -> None:
    quoted = literal("<") + even() + ">"
    texts = ["<>", "<11>", "<1>", "11", "<12", "<0246>"]
    assert [quoted.matches(text) for text in texts] == [True, True, False, False, False, True]
    short = even() & regex(".{2}")
    both = [f"{i:02}" for i in range(100) if short.matches(f"{i:02}")]
    assert both == [f"{i:02}" for i in range(100) if (i // 10 + i) % 2 == 0]
    assert repr(even()) == "Constraint(an even sum)"
    assert even().automaton.is_equivalent(even_automaton())


def test_constraints_from_automata_that_are_none_are_refused() -> None:
    over_tokens = even().compile(worlds.VOCABULARY)
    with pytest.raises(
        InvalidParameterError, match=r"256 bytes.*over 6 tokens; .* pcgcd\.generate"
    ):
        Constraint.from_automaton(over_tokens)
    weighted = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=256, initial=0, accepting={0}, edges=[(0, 0, b"a")], weights=[2.0]
    )
    with pytest.raises(InvalidParameterError, match=r"lose the weights.*fa\.support\(\)"):
        Constraint.from_automaton(weighted)
    assert Constraint.from_automaton(weighted.support()).matches("aa")
    with pytest.raises(InvalidParameterError, match="FiniteAutomaton, but got Constraint"):
        Constraint.from_automaton(even())  # type: ignore[arg-type]
    nothing = FiniteAutomaton.from_edges(
        num_states=1, vocab_size=256, initial=0, accepting=set(), edges=[]
    )
    with pytest.raises(EmptyLanguageError):
        Constraint.from_automaton(nothing).compile(worlds.VOCABULARY)


class AnotherCompilation(Constraint):
    """Compiles to another set of texts."""

    def compile(self, vocabulary: Vocabulary, *, cache: Any = None) -> FiniteAutomaton:
        return regex("[0-9]*").compile(vocabulary)


class Stricter(Constraint):
    """Compiles to fewer texts."""

    def compile(self, vocabulary: Vocabulary, *, cache: Any = None) -> FiniteAutomaton:
        return (even() & regex("[0-8]{0,2}")).compile(vocabulary)


class Agreeable(Constraint):
    def matches(self, text: str | bytes) -> bool:
        return True


def odd() -> Constraint:
    """Right on the named texts, wrong beside them."""
    return Constraint(even().expression | literal("124").expression)


BROKEN_CONSTRAINTS = [
    (regex("[0-9]*"), "members_are_told_from_others"),
    (regex("11|1234"), "members_are_told_from_others"),
    (odd(), "texts_nearby_are_told_apart"),
    (AnotherCompilation(even().expression), "tokens_agree_with_texts"),
    (AnotherCompilation(even().expression), "masks_within_the_budget_always_end_well"),
    (Stricter(even().expression), "masks_let_every_member_through"),
    (Agreeable(even().expression), "tokens_agree_with_texts"),
    (Agreeable(even().expression), "composition_is_that_of_sets"),
]


@pytest.mark.parametrize(("constraint", "law"), BROKEN_CONSTRAINTS)
def test_broken_constraints_break_a_law(constraint: Constraint, law: str) -> None:
    breaks(EvenLaws, "create_constraint", constraint, law)


@pytest.mark.parametrize(
    "laws", [ConstraintLaws, LanguageModelLaws, PotentialLaws, ProposalLaws, ResamplerLaws]
)
def test_what_must_be_created_says_so(laws: type) -> None:
    [create] = [
        name
        for name in vars(laws)
        if name.startswith("create_") and name not in ("create_worlds", "create_vocabulary")
    ]
    with pytest.raises(NotImplementedError, match="to be tested"):
        getattr(laws(), create)()


# -- mistakes while generating are errors that say what to do -----------------------------------


def generated(lm: Any = None, **arguments: Any) -> pcgcd.Generation:
    return pcgcd.generate(
        worlds.table() if lm is None else lm,
        regex("[ab]{2,4}"),
        **{"budget": 6, "particles": 4, "seed": 0, **arguments},
    )


class NamesOthers(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        tokens = torch.full((len(step.log_probs), 1), step.state.vocab_size)
        return Candidates(tokens, torch.zeros(len(tokens), 1))


class NamesByInt32(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        tokens = torch.zeros(len(step.log_probs), 1, dtype=torch.int32)
        return Candidates(tokens, torch.zeros(len(tokens), 1))


class NoSupport(Plain):
    def weigh(self, step: NextStep) -> Candidates:
        return Candidates(None, torch.full_like(step.log_probs, -math.inf))


class Rows(Plain):
    def weigh(self, step: NextStep) -> Any:
        return step.log_probs


MISTAKES = [
    ({"method": object()}, "object with a method weigh"),
    ({"method": Rows()}, "must return Candidates.*returned a Tensor"),
    ({"method": OneRow()}, "a row for each of the 4 prefixes.*1 rows"),
    ({"method": NamesOthers()}, "from 0 to 5, but named torch.int64 from 6 to 6"),
    ({"method": NamesByInt32()}, "torch.long.*torch.int32"),
    ({"method": NoSupport()}, "gives no token any weight.*step.allowed"),
    ({"method": NotANumber()}, "NaN or .inf.*weigh"),
    ({"potential": object()}, "object with a method log_twist"),
    ({"potential": Twist(lambda state: 0.0)}, "a tensor of 4 numbers.*float"),
    ({"potential": Twist(lambda state: zeros(state) + math.nan)}, "NaN or .inf"),
    ({"resampling": one_too_few}, "one_too_few.*each of the 4 particles, but returned 3"),
    ({"resampling": from_one}, "from_one.*from 0 to 3, but returned"),
    ({"resampling": lambda weights, rng: None}, "each of the 4 particles, but returned a NoneType"),
    ({"lm": Model(lambda rows: rows + 1)}, "sum to 1.*row 0 sums to exp.1.; return torch.log_soft"),
    ({"lm": Model(lambda rows: rows * math.nan)}, "sum to 1.*NaN"),
    ({"lm": Model(lambda rows: rows - math.inf)}, "row 0 sums to exp.-inf."),
    ({"lm": Model(lambda rows: rows + 200)}, "row 0 sums to exp.200."),
    ({"lm": Model(lambda rows: rows[:, :-1])}, r"shape \(1, 6\), but returned shape \(1, 5\)"),
    ({"lm": Model(lambda rows: rows[:0])}, r"shape \(1, 6\), but returned shape \(0, 6\)"),
    ({"lm": Model(lambda rows: rows.tolist())}, "a tensor of floats.*returned a list"),
    ({"lm": Model(lambda rows: rows.long())}, "returned a torch.int64 tensor"),
    ({"lm": Model(vocabulary=None)}, "Model must have an attribute vocabulary.*has None; set self"),
    ({"lm": Model(vocabulary=["a", "b"])}, "attribute vocabulary, a pcgcd.Vocabulary, but has"),
    ({"lm": object()}, "object lacks log_probs, start, encode; inherit from pcgcd.lm.LanguageM"),
    ({"lm": WithoutSession()}, "start returns.*NoneType lacks.*pcgcd.lm.LMSession"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes_are_errors_that_say_what_to_do(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        generated(**{"ess_threshold": 1.0, **arguments})


def test_rows_that_shrink_later_are_refused_too() -> None:
    """Shapes are checked at every step."""

    class Shrinking(WithSession):
        def start(self, prompts: Any) -> LMSession:
            session = Forgetful(self, prompts, reindexes=True, advances=True)
            rows = [session.log_probs, lambda: Forgetful.log_probs(session)[:-1]]
            session.log_probs = lambda: rows.pop(0)() if len(rows) > 1 else rows[0]()
            return session

    with pytest.raises(InvalidParameterError, match=r"shape \(4, 6\), but returned shape \(3, 6\)"):
        generated(Shrinking())


def test_particles_without_weight_are_never_resampled() -> None:
    """They are dead: with a weight again they would count as texts."""

    def first(weights: Tensor, rng: Randomness) -> Tensor:
        return (weights == 0).nonzero().flatten()[:1].expand(len(weights))

    class Half(Plain):
        """Wrong on purpose: half of the rows may leave the constraint."""

        def weigh(self, step: NextStep) -> Candidates:
            return Candidates(None, step.log_probs)

    with pytest.raises(InvalidParameterError, match=r"first chose particle .*, whose weight is 0"):
        generated(method=Half(), resampling=first, ess_threshold=1.0, particles=16)


def test_what_is_right_goes_through() -> None:
    """Arrays and lists of ancestors; a model in half precision; a proposal without a flag."""
    found = generated(
        Model(lambda rows: rows.to(torch.float32)),
        method=Plain(),
        resampling=lambda weights, rng: systematic(weights, rng).numpy(),
        ess_threshold=1.0,
    )
    assert all(found.satisfied)
    as_list = generated(
        method=Plain(),
        resampling=lambda weights, rng: systematic(weights, rng).tolist(),
        ess_threshold=1.0,
    )
    assert as_list.token_ids == generated(method="gcd", ess_threshold=1.0).token_ids
    half = generated(Model(lambda rows: rows.log_softmax(-1).to(torch.bfloat16).float()))
    assert np.isfinite(half.log_evidence)


def test_an_hmm_is_a_language_model() -> None:
    """Its own conditionals are distributions at the tolerance of the check."""
    hmm = HMM.random(4, worlds.SIZE, generator=torch.Generator().manual_seed(0))
    assert generated(HMMLanguageModel(hmm, worlds.VOCABULARY)).satisfied
