"""Looking ahead to how a language model spells: what is trapped, and that no target changes."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pcgcd
from pcgcd.automata import Vocabulary
from pcgcd.constraints import Constraint, regex
from pcgcd.decoding import (
    GCD,
    PGCD,
    RESAMPLERS,
    SMC,
    LookAhead,
    NextStep,
    Portfolio,
    Potential,
    PrefixValidity,
    Proposal,
    Request,
    Spelled,
    SpelledPotential,
    Spelling,
    Target,
    Twisted,
)
from pcgcd.decoding.generator import _Run
from pcgcd.decoding.portfolio import components_of
from pcgcd.engine import ChainEngine, start_batch
from pcgcd.engine.tracks import Track
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM
from pcgcd.lm import TableLM
from tests.decoding import worlds
from tests.decoding.test_exactness import limit, worst_z

# Byte-pair encoding by hand: each merge makes a token of two that stand side by side.
BYTES = [b"a", b"b", b"c", b'"', b",", b"\n"]
MERGES = [(b'"', b","), (b'",', b'"'), (b"a", b"b"), (b"ab", b"c"), (b"c", b'"')]
TOKENS = [*BYTES, *(left + right for left, right in MERGES)]
EOS = len(TOKENS)
VOCABULARY = Vocabulary.from_bytes([*TOKENS, None], eos_ids=EOS)


def bpe(text: str) -> tuple[int, ...]:
    pieces = [bytes([byte]) for byte in text.encode()]
    for left, right in MERGES:
        merged: list[bytes] = []
        for piece in pieces:
            if merged and merged[-1] == left and piece == right:
                merged[-1] += piece
            else:
                merged.append(piece)
        pieces = merged
    return tuple(TOKENS.index(piece) for piece in pieces)


class SpellingLM(TableLM):
    """A table with a tokenizer."""

    def spell(self, text: str) -> tuple[int, ...] | None:
        return bpe(text)


def bpe_of(*tokens: int) -> tuple[int, ...]:
    return bpe(b"".join(TOKENS[token] for token in tokens).decode())


def rows(seed: int = 0) -> Callable[[tuple[int, ...]], torch.Tensor]:
    """Random probabilities, with twenty times less for what the tokenizer would not write."""
    table = TableLM.random(VOCABULARY, seed=seed, order=1)

    def row(prefix: tuple[int, ...]) -> torch.Tensor:
        chances = table.log_probs([prefix])[0].exp()
        last = prefix[-1] if prefix else EOS
        for token in range(EOS) if last < EOS else ():
            if bpe_of(last, token) != (last, token):
                chances[token] /= 20
        return chances / chances.sum()

    return row


def language_model(seed: int = 0) -> SpellingLM:
    return SpellingLM(VOCABULARY, rows(seed))


LITERAL = 'abc","abc'
# Patterns of whole texts, and of what they begin with.
PATTERNS = {
    "literal": (LITERAL, 'a?|ab|abc(",?|","a?|","abc?)?'),
    "choice": ('abc","abc|ab"|b",a*', 'a?|ab"?|abc(",?|","a?|","abc?)?|b("(,a*)?)?'),
    "free": ('[abc]*","[ab]*', '[abc]*("(,("[ab]*)?)?)?'),
}
CONSTRAINTS: dict[str, Constraint] = {name: regex(whole) for name, (whole, _) in PATTERNS.items()}


def tracks_of(constraint: Constraint, tokens: tuple[int, ...]) -> list[Track]:
    """The prefix as masks see it, and as the engine of a token automaton does."""
    lazily = start_batch([(Target.of(constraint, VOCABULARY).engine(guided=False), 12)])
    whole = start_batch([(Target.of(constraint.compile(VOCABULARY), VOCABULARY).engine(), 12)])
    states = [lazily, whole]
    for token in tokens:
        states = [state.advance([token]) for state in states]
    return [state.tracks[0] for state in states]


def prefixes_of(text: str) -> list[tuple[int, ...]]:
    """Every way to spell every beginning of a text."""
    data, found, todo = text.encode(), [()], [((), 0)]
    while todo:
        tokens, place = todo.pop()
        for token, piece in enumerate(TOKENS):
            if data.startswith(piece, place):
                todo.append(((*tokens, token), place + len(piece)))
                found.append(todo[-1][0])
    return found


def test_pairs_are_usual_iff_the_tokenizer_writes_them() -> None:
    spelling = Spelling(VOCABULARY, bpe)
    for pair in itertools.product(range(EOS), repeat=2):
        assert spelling.is_usual(*pair) == (bpe_of(*pair) == pair)


def test_what_has_no_text_is_usual() -> None:
    odd = Vocabulary.from_bytes([b"a", b"\xe2", b"\x82\xac", None, None], eos_ids=3, logits_size=7)
    asked = []
    spelling = Spelling(odd, lambda text: asked.append(text) or ())
    for pair in [(0, 1), (1, 0), (0, 3), (3, 3), (4, 0), (0, 6)]:
        assert spelling.is_usual(*pair)
    assert asked == ["\n"]
    assert not spelling.is_usual(1, 2)  # together they are one character, of another token


def test_a_tokenizer_that_marks_the_beginning_of_a_text_spells_its_middle() -> None:
    """As SentencePiece does: a text begins with a mark of its own."""
    mark = EOS + 1
    spelling = Spelling(VOCABULARY, lambda text: (mark, *bpe(text)))
    a, b, quote = (TOKENS.index(piece) for piece in (b"a", b"b", b'"'))
    assert not spelling.is_usual(a, b)
    assert spelling.is_usual(a, quote)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_prefix_is_trapped_iff_no_usual_token_can_follow(name: str) -> None:
    spelling, constraint = Spelling(VOCABULARY, bpe), CONSTRAINTS[name]
    whole, begun = PATTERNS[name]
    seen = set()
    for prefix in prefixes_of(LITERAL):
        text = "".join(TOKENS[token].decode() for token in prefix)
        follows = [
            token for token in range(EOS) if re.fullmatch(begun, text + TOKENS[token].decode())
        ]
        follows += [EOS] if re.fullmatch(whole, text) else []
        if not follows:
            continue
        expected = bool(prefix) and not any(
            token == EOS or bpe_of(prefix[-1], token) == (prefix[-1], token) for token in follows
        )
        for track in tracks_of(constraint, prefix):
            assert track.followers(EOS + 1) == tuple(follows)
            assert (track.followers(len(follows) - 1) is None) == (len(follows) > 0)
            assert spelling.is_trapped(track) == expected, (prefix, follows)
        if prefix:
            for track in tracks_of(constraint, prefix[:-1]):
                assert spelling.traps(track, prefix[-1:]) == [expected]
                assert spelling.traps(track, prefix[-1:]) == [expected]  # and when it is known
        seen.add(expected)
    assert seen == {False, True}


def test_trapped_tokens_are_lowered_and_nothing_else() -> None:
    lm, spelling = language_model(), Spelling(VOCABULARY, bpe)
    state = start_batch([(Target.of(CONSTRAINTS["choice"], VOCABULARY).engine(guided=False), 9)])
    state = state.advance([TOKENS.index(b"ab")])
    step = NextStep(state, lm.log_probs([(TOKENS.index(b"ab"),)]))
    plain = GCD().weigh(step).dense(EOS + 1)
    found = Spelled(GCD(), spelling, 3.0).weigh(step).dense(EOS + 1)
    lowered = (plain - found).nan_to_num(0.0)
    # After ab" the text may end, and c leaves the token ",; but c" has taken its quote away.
    expected = torch.zeros(1, EOS + 1, dtype=torch.float64)
    expected[0, TOKENS.index(b'c"')] = 3.0
    torch.testing.assert_close(lowered, expected)
    assert (found > -torch.inf).equal(plain > -torch.inf)


PLANS: dict[str, tuple[Proposal, Potential]] = {
    "gcd": (GCD(), PrefixValidity()),
    "pgcd": (PGCD(0.6), LookAhead()),
    "twisted": (Twisted(0.4), LookAhead(0.4)),
}
CASES = [
    (plan, name, [*RESAMPLERS, None][i % 5], [0.5, 1.0][i % 2], [1, 2, 5][i % 3], [0.0, 0.4][i % 2])
    for i, (plan, name) in enumerate(itertools.product(PLANS, worlds.AUTOMATA))
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_weight_of_every_text_is_unbiased(
    case: tuple[str, str, str | None, float, int, float],
) -> None:
    plan, name, resampling, threshold, particles, share = case
    fa, lm = worlds.AUTOMATA[name], worlds.table()
    # A tokenizer that writes "ab" as one token, and no other pair as it stands but b, b.
    spelling = Spelling(worlds.VOCABULARY, lambda text: {"bb": (1, 1)}.get(text, (2,)))
    proposal: Proposal = Spelled(PLANS[plan][0], spelling, 1.5)
    if share:
        proposal = Portfolio((GCD(), proposal), (share, 1 - share))
    potential = SpelledPotential(PLANS[plan][1], spelling, 1.5)
    runs = 1200 // particles
    start = ChainEngine.of(worlds.hmm(7), fa).start([4] * runs)
    smc = SMC(particles, resampling, threshold)
    *_, last = smc.steps(lm, [()] * runs, start, proposal, potential, seed=1)
    z, count = worst_z(last.population, worlds.target(lm, fa, 4))
    assert z < limit(count, len(CASES)), f"{case}: off by {z:.1f} standard errors"


def test_few_particles_find_more_of_the_evidence() -> None:
    lm, constraint = language_model(), CONSTRAINTS["literal"]
    fa, budget = constraint.compile(VOCABULARY), 12
    exact = math.log(
        sum(
            math.exp(worlds.log_prob(lm, (*tokens, EOS)))
            for tokens in prefixes_of(LITERAL)
            if b"".join(TOKENS[token] for token in tokens) == LITERAL.encode()
        )
    )
    lost: dict[bool, list[float]] = {}
    for spelling, seed in itertools.product((False, True), range(40)):
        result = pcgcd.generate(
            lm, fa, budget=budget, particles=2, method="gcd", spelling=spelling, seed=seed
        )
        assert all(result.satisfied)
        lost.setdefault(spelling, []).append(exact - result.log_evidence)
    means = {spelling: statistics.fmean(values) for spelling, values in lost.items()}
    assert means[True] < 0.7 * means[False], means
    assert statistics.variance(lost[True]) < statistics.variance(lost[False])


def parts_of(lm: TableLM, **options: Any) -> set[type]:
    """What a generator draws from."""
    run = _Run.start(pcgcd.Generator(lm, **options), [Request(CONSTRAINTS["choice"], budget=9)])
    return {type(part) for part, _ in components_of(run.plan.proposal)}


def test_the_default_looks_ahead_where_the_model_says_how_it_spells() -> None:
    lm, plain, guide = language_model(), TableLM(VOCABULARY, rows()), HMM.random(2, EOS + 1)
    assert parts_of(lm) == {GCD, Spelled}
    assert parts_of(lm, hmm=guide) == {GCD, Spelled}
    assert parts_of(lm, hmm=guide, method="twisted", gcd_share=0.0) == {Spelled}
    assert parts_of(lm, hmm=guide, method="pgcd", spelling=True) == {GCD, Spelled}
    assert parts_of(lm, hmm=guide, spelling=False) == {GCD, Twisted}
    assert parts_of(lm, method="gcd") == parts_of(lm, spelling=False) == {GCD}
    assert parts_of(plain) == {GCD}
    assert parts_of(plain, hmm=guide) == {GCD, Twisted}


def test_what_cannot_be_fulfilled_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="does not say how it spells"):
        pcgcd.Generator(TableLM(VOCABULARY, rows()), spelling=True)
    for method in ("lcd", "unconstrained", "rejection", GCD()):
        with pytest.raises(InvalidParameterError, match="spelling=True goes with"):
            pcgcd.Generator(language_model(), method, spelling=True)


def test_greedy_decoding_takes_the_most_likely_token() -> None:
    lm, constraint = language_model(3), CONSTRAINTS["choice"]
    found = {
        pcgcd.generate(
            lm, constraint, budget=9, particles=1, temperature=0, method="gcd", spelling=spelling
        ).token_ids
        for spelling in (None, True, False)
    }
    assert len(found) == 1


def test_several_constraints_share_a_batch() -> None:
    lm = language_model()
    generator = pcgcd.Generator(lm, smc=SMC(4))
    requests = [Request(constraint, budget=12) for constraint in CONSTRAINTS.values()]
    for result in generator.run(requests, seed=0):
        assert all(result.satisfied)
