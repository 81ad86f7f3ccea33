"""Constraints without a guide: masks that are lifted where they are read, against enumeration."""

from __future__ import annotations

import itertools
import pickle
import random
import re
from functools import cached_property

import pytest
import torch

from pcgcd import generate
from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.constraints import Constraint, choice, json_schema, keywords, regex, sql
from pcgcd.decoding.targets import Target
from pcgcd.engine import start_batch
from pcgcd.engine.compiling import engine_of
from pcgcd.engine.lazy import LazyEngine
from pcgcd.errors import EmptyLanguageError, InvalidParameterError
from pcgcd.lm import TableLM

BYTES = [*(bytes([b]) for b in range(256))]
ALL_BYTES = Vocabulary.from_bytes(
    [*BYTES, b'{"', b'": ', b'":', b'"}', b"SELECT ", b" FROM", b"dog", b" dogs", b"aa", None],
    eos_ids=265,
)

VOCABULARIES = {
    "all letters": Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3),
    "no b alone": Vocabulary.from_bytes([b"a", b"ab", b"ba", None], eos_ids=3),
    "no letter alone": Vocabulary.from_bytes([b"aa", b"ab", b"bab", None], eos_ids=3),
    "two ends, twins": Vocabulary.from_bytes(
        [None, b"a", b"b", b"a", None], eos_ids=[0, 4], logits_size=7
    ),
    "bytes of é": Vocabulary.from_bytes(
        [b"a", b"\xc3", b"\xa9", b"a\xc3", b"\xa9b", b"b", None], eos_ids=6
    ),
}
PATTERNS = ["(ab)*", "a*b", "(a|b)*abb?", "a{2,3}", "b|ab|aab", "(a|é)+b?", "(a|b){3}|ba"]
BUDGET = 4


def texts_within(pattern, vocabulary):
    """All sequences of at most BUDGET tokens that the pattern's texts come as, EOS included."""
    known = vocabulary.token_bytes
    letters = [i for i, text in enumerate(known) if text and i not in vocabulary.eos_ids]
    for length in range(BUDGET + 1):
        for ids in itertools.product(letters, repeat=length):
            data = b"".join(known[i] for i in ids)
            try:
                is_member = re.fullmatch(pattern, data.decode()) is not None
            except UnicodeDecodeError:
                continue
            if is_member:
                yield ids
                for ends in range(1, BUDGET + 1 - length):
                    for tail in itertools.product(vocabulary.eos_ids, repeat=ends):
                        yield (*ids, *tail)


def allowed(state, row=0):
    weights = state.allowed().dense(state.vocab_size)[row]
    assert set(weights.tolist()) <= {0.0, -torch.inf}
    return set((weights == 0).nonzero().flatten().tolist())


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
def test_masks_are_those_of_all_texts_within_the_budget(pattern, vocabulary):
    texts = set(texts_within(pattern, vocabulary))
    for budget in range(1, BUDGET + 1):
        within = {text for text in texts if len(text) == budget}
        try:
            start = Target.of(regex(pattern), vocabulary).engine().start([budget])
        except EmptyLanguageError:
            assert not within
            continue
        assert within
        prefixes = {text[:t] for text in within for t in range(budget + 1)}
        states = {(): start}
        for prefix in sorted(prefixes, key=len):
            state = states[prefix]
            expected = {p[-1] for p in prefixes if p and p[:-1] == prefix}
            assert allowed(state) == expected, (budget, prefix)
            assert state.viable().tolist() == [True]
            assert (state.log_final().tolist() == [0.0]) == (prefix in texts)
            for token in range(vocabulary.logits_size):
                after = state.advance([token])
                alive = (*prefix, token) in prefixes
                assert after.viable().tolist() == [alive], (budget, prefix, token)
                if alive:
                    states[(*prefix, token)] = after


@pytest.mark.parametrize("pattern", PATTERNS[:4])
def test_without_a_budget_masks_are_those_of_all_texts(pattern):
    vocabulary = VOCABULARIES["all letters"]
    texts = set(texts_within(pattern, vocabulary))
    state = Target.of(regex(pattern), vocabulary).engine().start([None])
    weights = state.allowed(within_budget=False).dense(state.vocab_size)[0]
    found = set((weights == 0).nonzero().flatten().tolist())
    assert found == {text[0] for text in texts if text}


EVEN = FiniteAutomaton.from_edges(
    num_states=3,
    vocab_size=256,
    initial=[0, 2],
    accepting={0},
    edges=[(0, 1, b"ad"), (1, 0, b"dog "), (2, 1, b"a")],  # with choices: not deterministic
)
DATABASE = {"city": ["name", "people"]}
CONSTRAINTS = {
    "automaton": Constraint.from_automaton(EVEN),
    "choice": choice(["a dog", "dogs", "das"]),
    "keywords": keywords({"dog": ["dog", "dogs"], "a": ["a"]}, inflect=False),
    "sql": sql(DATABASE, max_depth=1),
    "schema": json_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
                "dog": {"type": "string", "maxLength": 3},
                "é": {},
            },
            "required": ["dog"],
            "additionalProperties": True,
        }
    ),
}


@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_lazy_masks_are_those_of_the_token_automaton(constraint):
    """Random texts, also such as have no token to spare, in both engines side by side."""
    automaton, chance = constraint.compile(ALL_BYTES), random.Random(0)
    shortest = automaton.shortest_length()
    whole = engine_of(None, automaton)
    engine = Target.of(constraint, ALL_BYTES).engine()
    assert isinstance(engine, LazyEngine)
    for budget in (shortest, shortest + 1, shortest + 5, 200):
        lazy, full = engine.start([budget] * 2), whole.start([budget] * 2)
        for _ in range(min(budget, 25)):
            assert allowed(lazy) == allowed(full)
            assert allowed(lazy, 1) == allowed(full, 1)
            tokens = [chance.choice(sorted(allowed(full, row))) for row in (0, 1)]
            rows = chance.choice([[0, 1], [1, 0], [0, 0], [1, 1]])
            tokens = [tokens[row] for row in rows]
            lazy = lazy.select(rows).advance(tokens)
            full = full.select(rows).advance(tokens)
            assert (lazy.viable() == full.viable()).all()
            assert (lazy.log_final() == full.log_final()).all()
            assert (lazy.log_so_far() == 0).all()
            assert (lazy.remaining == full.remaining).all()


def test_what_masks_do_not_say_comes_from_the_token_automaton():
    vocabulary = VOCABULARIES["two ends, twins"]
    target = Target.of(regex("(a|b)*ab?"), vocabulary)
    lazy, full = (e.start([4, 3]) for e in (target.engine(), engine_of(None, target.automaton)))
    for tokens in ([1, 2], [2, 3]):
        lazy, full = lazy.advance(tokens), full.advance(tokens)
        for name in ("next_tokens", "next_token_log_probs", "next_lookaheads"):
            found, expected = getattr(lazy, name)(), getattr(full, name)()
            assert (found.dense(7) == expected.dense(7)).all()
        assert (lazy.log_lookahead() == full.log_lookahead()).all()
        assert (lazy.log_prefix == full.log_prefix).all()
        assert (lazy.log_mass == full.log_mass).all()
        assert (lazy.guide_log_probs(None) == full.guide_log_probs(None)).all()


def test_constraints_of_a_batch_are_lifted_apart():
    vocabulary = VOCABULARIES["all letters"]
    engines = [Target.of(regex(p), vocabulary).engine() for p in ("a+", "b+")]
    whole = engine_of(None, regex("ab").compile(vocabulary))
    state = start_batch([(engines[1], 2), (whole, 2), (engines[0], 3)])
    assert [allowed(state, row) for row in range(3)] == [{1}, {0, 2}, {0}]
    state = state.advance([1, 0, 0]).select([2, 0, 1, 2])
    assert [allowed(state, row) for row in range(4)] == [{0, 3}, {1, 3}, {1}, {0, 3}]
    assert state.live_states[0] == state.live_states[3] != ()
    assert state.advance([1, 1, 1, 0]).viable().tolist() == [False, True, True, True]


def test_generating_within_an_ample_budget_never_lifts_the_whole(monkeypatch):
    def no_lifting(*arguments, **options):
        raise AssertionError("the whole automaton was lifted")

    monkeypatch.setattr("pcgcd.constraints.base.lift", no_lifting)
    vocabulary = VOCABULARIES["all letters"]
    lm = TableLM(vocabulary, {}, default=[0.4, 0.2, 0.2, 0.2])
    constraint = regex("(a|b)*bb")
    for method in ("gcd", "lcd"):
        result = generate(lm, constraint, budget=12, particles=4, method=method, seed=0)
        assert any(result.satisfied)
    assert constraint.masks(vocabulary) is constraint.masks(vocabulary)
    other = regex("(a|b)*bab")
    assert allowed(Target.of(other, vocabulary).engine().start([12])) == {0, 1, 2}
    assert "distance" not in vars(other.masks(vocabulary))


def test_too_small_a_budget_names_one_that_works():
    engine = Target.of(regex("(ab){5}"), VOCABULARIES["all letters"]).engine()
    with pytest.raises(EmptyLanguageError, match="smallest budget that works is 5") as caught:
        engine.check(4)
    assert caught.value.shortest_length == 5
    engine.check(5)
    for wrong in (-1, 2.5, "3"):
        with pytest.raises(InvalidParameterError, match="budget"):
            engine.check(wrong)


def test_constraints_without_texts_are_refused():
    vocabulary = VOCABULARIES["no letter alone"]
    with pytest.raises(EmptyLanguageError, match="no text at all"):
        Target.of(regex("a") & "b", vocabulary)
    with pytest.raises(EmptyLanguageError, match="can be spelled"):
        Target.of(regex("a"), vocabulary)
    with pytest.raises(EmptyLanguageError, match="can be spelled"):
        regex("x").masks(vocabulary)


def test_copies_of_masks_are_made_anew():
    masks = regex("(ab)+").masks(VOCABULARIES["all letters"])
    copy = pickle.loads(pickle.dumps(masks))
    assert (copy.mask(copy.start(), 2) == masks.mask(masks.start(), 2)).all()
    assert [copy.accepts(ids) for ids in ([2, 0, 1, 3], [2, 3, 2], [0])] == [True, False, False]


class OwnAutomaton(Constraint):
    """Its expression is not what it means."""

    @cached_property
    def automaton(self):
        return regex("b").automaton


class OwnCompilation(Constraint):
    """The same, one step later."""

    def compile(self, vocabulary, *, cache=None):
        return regex("b").compile(vocabulary)


@pytest.mark.parametrize("kind", [OwnAutomaton, OwnCompilation])
def test_constraints_that_compile_in_their_own_way_are_compiled(kind):
    constraint = kind(regex("a").expression)
    state = Target.of(constraint, VOCABULARIES["all letters"]).engine().start([2])
    assert allowed(state) == {1}
