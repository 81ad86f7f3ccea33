"""The laws of language models, to be inherited by the tests of each."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from pcgcd.decoding import generate
from pcgcd.decoding.contracts import check_language_model, check_log_probs, check_session
from pcgcd.engine.prefix_engine import everything
from pcgcd.lm import LanguageModel, LMSession
from pcgcd.testing.running import Laws, as_violations, assert_close

_Prefixes = Sequence[tuple[int, ...]]


class LanguageModelLaws(Laws):
    """What every :class:`pcgcd.lm.LanguageModel` must satisfy.

    >>> from pcgcd import Vocabulary
    >>> from pcgcd.lm import TableLM
    >>> class TestTable(LanguageModelLaws):
    ...     def create_language_model(self):
    ...         return TableLM.random(Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2))
    >>> TestTable().test_sessions_answer_for_their_prefixes()

    Attributes:
        prompts: Prefixes that the model gives probability, all different.
        num_steps: How many tokens the prefixes of a session grow by.
        tolerance: How far two log-probabilities of one token may be apart; those of a model that
            keeps what it computed may differ in the last digits.
    """

    prompts: Sequence[Sequence[int]] = ((), (0,), (1, 0))
    num_steps: int = 6
    tolerance: float = 1e-4

    def create_language_model(self) -> LanguageModel:
        """Return the language model."""
        raise NotImplementedError("return the language model to be tested")

    # -- rows ---------------------------------------------------------------------------------

    def test_members_are_there(self) -> None:
        """It has a vocabulary, and token ids are a prompt as they are."""
        lm = self._model()
        for prompt in self.prompts:
            assert tuple(lm.encode(prompt)) == tuple(prompt), f"encode changed the ids {prompt}"

    def test_rows_are_distributions(self) -> None:
        """``log_probs`` has a row for each prefix, a column for each token, and sums to one."""
        lm, prompts = self._model(), self._prompts()
        for prefixes in (prompts, *([prompt] for prompt in prompts)):
            self._rows(lm, prefixes)

    def test_rows_do_not_depend_on_each_other(self) -> None:
        """A prefix has the same row in a batch, in any order, as alone."""
        lm, prompts = self._model(), self._prompts()
        twice = [*reversed(prompts), *prompts]
        for prompt, row in zip(twice, self._rows(lm, twice), strict=True):
            self._compare(row, self._rows(lm, [prompt])[0], f"the prompt {prompt} in a batch")

    def test_no_prefixes_have_no_rows(self) -> None:
        """An empty batch is a batch."""
        lm = self._model()
        self._check(lm, self._start(lm, []), [])

    # -- sessions -----------------------------------------------------------------------------

    def test_sessions_answer_for_their_prefixes(self) -> None:
        """After any moves a session's rows are those of its prefixes."""
        lm, chance = self._model(), random.Random(0)
        prefixes = [prompt for prompt in self._prompts() for _ in range(2)]
        session = self._start(lm, prefixes)
        for _ in range(self.num_steps):
            self._check(lm, session, prefixes)
            prefixes = self._grown(lm, session, prefixes, chance)
            kept = [chance.randrange(len(prefixes)) for _ in range(chance.randint(1, 6))]
            session.reindex(kept)
            prefixes = [prefixes[row] for row in kept]
        self._check(lm, session, prefixes)

    def test_sessions_need_not_be_asked_at_every_step(self) -> None:
        """Tokens may be appended, and rows copied, before anything is asked; asking is harmless."""
        lm, chance, prefixes = self._model(), random.Random(1), self._prompts()
        session = self._start(lm, prefixes)
        for _ in range(2):
            prefixes = self._grown(lm, session, prefixes, chance)
        order = [*reversed(range(len(prefixes))), 0]
        session.reindex(order)
        for _ in range(2):
            self._check(lm, session, [prefixes[row] for row in order])

    def test_sessions_do_not_share_anything(self) -> None:
        """A second session, advanced between, does not disturb the first."""
        lm, chance, prefixes = self._model(), random.Random(2), self._prompts()
        first, second = self._start(lm, prefixes), self._start(lm, prefixes)
        self._check(lm, first, prefixes)
        grown = self._grown(lm, second, prefixes, chance)
        self._check(lm, first, prefixes)
        self._check(lm, second, grown)

    # -- in use -------------------------------------------------------------------------------

    def test_generated_texts_have_the_probabilities_reported(self) -> None:
        """``generate`` reports log p_lm of each text: the sum over its tokens."""
        lm, prompt = self._model(), self._prompts()[-1]
        free = everything(lm.vocabulary.logits_size)
        with as_violations():
            result = generate(lm, free, prompt=prompt, budget=3, particles=4, seed=0)
        for tokens, found in zip(result.token_ids, result.log_probs, strict=True):
            rows = self._rows(lm, [(*prompt, *tokens[:t]) for t in range(len(tokens))])
            expected = rows[range(len(tokens)), list(tokens)].sum()
            self._compare(torch.tensor(found).double(), expected, f"log p of the tokens {tokens}")

    # -- what the laws are checked on ---------------------------------------------------------

    def _model(self) -> LanguageModel:
        lm = self.create_language_model()
        with as_violations():
            check_language_model(lm)
        return lm

    def _prompts(self) -> list[tuple[int, ...]]:
        return [tuple(prompt) for prompt in self.prompts]

    def _start(self, lm: LanguageModel, prompts: _Prefixes) -> LMSession:
        session = lm.start(prompts)
        with as_violations():
            check_session(session)
        return session

    def _rows(
        self, lm: LanguageModel, prefixes: _Prefixes, session: LMSession | None = None
    ) -> Tensor:
        """What the model says comes after the prefixes, or a session of them does."""
        with as_violations():
            found = lm.log_probs(prefixes) if session is None else session.log_probs()
            return check_log_probs(found, len(prefixes), lm, normalised=True).double().cpu()

    def _check(self, lm: LanguageModel, session: LMSession, prefixes: _Prefixes) -> None:
        found, expected = self._rows(lm, prefixes, session), self._rows(lm, prefixes)
        assert session.num_rows == len(prefixes), f"{session.num_rows} rows, not {len(prefixes)}"
        self._compare(found, expected, f"a session's rows for the prefixes {prefixes}")

    def _grown(
        self, lm: LanguageModel, session: LMSession, prefixes: _Prefixes, chance: random.Random
    ) -> list[tuple[int, ...]]:
        """One more token each, none that ends the text if there is another."""
        eos, tokens = set(lm.vocabulary.eos_ids), []
        for row in self._rows(lm, prefixes):
            possible = (row > -torch.inf).nonzero().flatten().tolist()
            tokens.append(chance.choice([t for t in possible if t not in eos] or possible))
        session.advance(tokens)
        return [(*prefix, token) for prefix, token in zip(prefixes, tokens, strict=True)]

    def _compare(self, actual: Tensor, expected: Tensor, what: str) -> None:
        assert_close(actual, expected, what, self.tolerance)
