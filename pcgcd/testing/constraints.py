"""The laws of constraints, to be inherited by the tests of each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import torch

from pcgcd.automata import Vocabulary
from pcgcd.constraints import Constraint, literal
from pcgcd.decoding import Target
from pcgcd.engine import PrefixState
from pcgcd.errors import EmptyLanguageError
from pcgcd.testing.running import Laws, as_violations, assert_refused


class ConstraintLaws(Laws):
    """What every :class:`pcgcd.constraints.Constraint` must satisfy.

    >>> from pcgcd.constraints import regex
    >>> class TestYears(ConstraintLaws):
    ...     members = ("1999", "2024")
    ...     non_members = ("", "199", "20245", "year")
    ...
    ...     def create_constraint(self):
    ...         return regex("(19|20)[0-9]{2}")
    >>> TestYears().test_tokens_agree_with_texts()

    Attributes:
        members: Texts that satisfy the constraint, at least one.
        non_members: Texts that do not.
        num_tries: How many random spellings of a text, texts nearby, and walks are tried.
    """

    members: Sequence[str | bytes] = ()
    non_members: Sequence[str | bytes] = ()
    num_tries: int = 10

    def create_constraint(self) -> Constraint:
        """Return the constraint."""
        raise NotImplementedError("return the constraint to be tested")

    def reference(self, text: bytes) -> bool | None:
        """Return whether a text satisfies the constraint, found in another way; None if unknown."""
        return None

    def create_vocabulary(self) -> Vocabulary:
        """All bytes, some pieces of the texts, and an end of text."""
        chance = random.Random(0)
        pieces = set()
        for text in self._texts():
            for _ in range(self.num_tries):
                start = chance.randrange(len(text) + 1)
                pieces.add(text[start : start + chance.randint(2, 4)])
        longer = sorted(piece for piece in pieces if len(piece) > 1)
        tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
        return Vocabulary.from_bytes([*tokens, *longer, None], eos_ids=256 + len(longer))

    # -- texts --------------------------------------------------------------------------------

    def test_members_are_told_from_others(self) -> None:
        """``matches`` is True for the members and False for the others, and so is the reference."""
        constraint = self.create_constraint()
        assert self.members, "name some texts that satisfy the constraint, in members"
        for text, expected in self._labelled():
            assert constraint.matches(text) == expected, f"matches({text!r}) is {not expected}"
            said = self.reference(text)
            assert said is None or said == expected, f"the reference says {said} of {text!r}"

    def test_texts_nearby_are_told_apart(self) -> None:
        """With a byte more, less or changed, ``matches`` is what the reference says."""
        constraint = self.create_constraint()
        for text in self._nearby():
            expected = self.reference(text)
            found = constraint.matches(text)
            assert expected is None or found == expected, f"matches({text!r}) is {found}"

    # -- tokens -------------------------------------------------------------------------------

    def test_tokens_agree_with_texts(self) -> None:
        """However it is spelled, and ended by EOS or not, a text is accepted iff it matches."""
        constraint, vocabulary = self.create_constraint(), self.create_vocabulary()
        with as_violations():
            automaton = constraint.compile(vocabulary)
        for text in [*self._texts(), *self._nearby()]:
            expected = constraint.matches(text)
            for tokens in self._spellings(text, vocabulary):
                for end in ((), vocabulary.eos_ids[:1], vocabulary.eos_ids[:1] * 2):
                    found = automaton.accepts([*tokens, *end])
                    assert found == expected, (
                        f"matches({text!r}) is {expected}, but the tokens {[*tokens, *end]} are "
                        f"{'' if found else 'not '}accepted"
                    )

    def test_masks_let_every_member_through(self) -> None:
        """A spelling of a member that fits in the budget is never masked."""
        vocabulary = self.create_vocabulary()
        target = self._target(vocabulary)
        for text in (text for text, is_member in self._labelled() if is_member):
            for tokens in self._spellings(text, vocabulary):
                state = target.engine().start([len(tokens) or 1])
                for token in tokens:
                    assert token in _allowed(state), f"{tokens} of {text!r} are masked"
                    state = state.advance([token])

    def test_masks_within_the_budget_always_end_well(self) -> None:
        """Whatever is chosen among the allowed tokens, the text is a member in time."""
        constraint, vocabulary = self.create_constraint(), self.create_vocabulary()
        target, chance = self._target(vocabulary), random.Random(0)
        shortest = target.automaton.shortest_length()
        assert shortest is not None, "no text satisfies the constraint"
        for budget in range(max(shortest, 1), shortest + self.num_tries):
            state = target.engine().start([budget])
            tokens: list[int] = []
            for _ in range(budget):
                possible = _allowed(state)
                assert possible, f"nothing may follow {tokens} within a budget of {budget}"
                tokens.append(chance.choice(possible))
                if tokens[-1] in vocabulary.eos_ids:
                    break
                state = state.advance(tokens[-1:])
            text = vocabulary.decode(t for t in tokens if t not in vocabulary.eos_ids)
            assert constraint.matches(text), f"{text!r} came of a budget of {budget}"

    def test_too_small_a_budget_is_refused(self) -> None:
        """An error names the smallest budget that works."""
        target = self._target(self.create_vocabulary())
        shortest = target.automaton.shortest_length() or 0
        if shortest < 2:
            return
        error = assert_refused(
            lambda: target.engine().check(shortest - 1),
            EmptyLanguageError,
            f"a budget of {shortest - 1} is too small, but was taken",
        )
        found = error.shortest_length
        assert found == shortest, f"a budget of {shortest} works, but the error names {found}"

    # -- composition --------------------------------------------------------------------------

    def test_composition_is_that_of_sets(self) -> None:
        """``|``, ``&`` and ``+`` mean what they mean for sets of texts."""
        constraint = self.create_constraint()
        other = literal("~pcgcd~")
        for text in self._texts():
            expected = constraint.matches(text)
            assert (constraint | other).matches(text) == (expected or other.matches(text))
            assert (constraint & constraint).matches(text) == expected
            assert (constraint + other).matches(text + b"~pcgcd~") == expected
            assert not (constraint & other & "").matches(text)

    # -- what the laws are checked on ---------------------------------------------------------

    def _labelled(self) -> Iterator[tuple[bytes, bool]]:
        for texts, expected in ((self.members, True), (self.non_members, False)):
            for text in texts:
                yield text.encode() if isinstance(text, str) else text, expected

    def _texts(self) -> list[bytes]:
        return [text for text, _ in self._labelled()]

    def _nearby(self) -> Iterator[bytes]:
        chance = random.Random(1)
        letters = b"".join(self._texts()) or b"a"
        for text in self._texts():
            for _ in range(self.num_tries):
                place = chance.randrange(len(text) + 1)
                new = bytes([chance.choice(letters)]) * chance.randrange(2)
                yield text[:place] + new + text[place + chance.randrange(2) :]

    def _spellings(self, text: bytes, vocabulary: Vocabulary) -> Iterator[tuple[int, ...]]:
        """Random ways to spell a text, and the one with the longest tokens first."""
        chance = random.Random(2)
        longest = max(len(piece) for piece in vocabulary.ids_of)
        yield vocabulary.greedy(text)
        for _ in range(self.num_tries):
            tokens, place = [], 0
            while place < len(text):
                pieces = (text[place : place + size] for size in range(1, longest + 1))
                known = [piece for piece in dict.fromkeys(pieces) if piece in vocabulary.ids_of]
                assert known, f"the vocabulary cannot spell {text!r}: give it all bytes"
                piece = chance.choice(known)
                tokens.append(chance.choice(vocabulary.ids_of[piece]))
                place += len(piece)
            yield tuple(tokens)

    def _target(self, vocabulary: Vocabulary) -> Target:
        with as_violations():
            return Target.of(self.create_constraint(), vocabulary)


def _allowed(state: PrefixState) -> list[int]:
    """The tokens that may follow a single prefix."""
    weights = state.allowed().dense(state.vocab_size)[0]
    allowed: list[int] = (weights > -torch.inf).nonzero().flatten().tolist()
    return allowed
