"""A hidden Markov model as the language model: what it should generate is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pcgcd.engine import ChainEngine, ChainState
from pcgcd.engine.prefix_engine import everything
from pcgcd.errors import ImpossibleEvidenceError, VocabularyMismatchError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.lm.base import LanguageModel, LMSession, SharedSession

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary


class HMMLanguageModel(LanguageModel):
    """``p(x_{t+1} | x_{1:t})`` of an HMM, by filtering. A prompt is the beginning of x.

    What may follow an impossible prefix is nothing: its row is -inf throughout. A prompt that is
    impossible is an error.

    >>> from pcgcd import HMM, Vocabulary
    >>> hmm = HMM(torch.tensor([1.0, 0.0]), torch.eye(2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> lm = HMMLanguageModel(hmm, Vocabulary.from_bytes([b"a", None], eos_ids=1))
    >>> lm.log_probs([(0,)]).exp()
    tensor([[0.5000, 0.5000]])
    """

    def __init__(
        self, hmm: HiddenMarkovModel, vocabulary: Vocabulary, *, dtype: torch.dtype | None = None
    ) -> None:
        """Hold the model.

        Args:
            hmm: Over all ``vocabulary.logits_size`` tokens. To make what follows an EOS
                deterministic, see :func:`pcgcd.hmm.absorbing.absorbing`.
            vocabulary: What the tokens stand for.
            dtype: The floating type to compute in; by default that of the HMM, at least float32.
        """
        if hmm.vocab_size != vocabulary.logits_size:
            raise VocabularyMismatchError(
                f"the HMM has {hmm.vocab_size} tokens, but the vocabulary's logits have "
                f"{vocabulary.logits_size}; build both for one language model"
            )
        self.vocabulary = vocabulary
        dtype = dtype or torch.promote_types(hmm.emission.dtype, torch.float32)
        self.hmm = hmm.to(dtype=dtype)
        self._engine = ChainEngine.of(self.hmm, everything(hmm.vocab_size), dtype)

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        if not len(prefixes):
            return torch.empty(0, self.vocabulary.logits_size)
        return _rows(self._read([self._checked_prefix(prefix) for prefix in prefixes]))

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        """See :class:`LanguageModel`.

        Raises:
            ImpossibleEvidenceError: A prompt has probability zero.
        """
        return _FilterSession(self, self._checked_prompts(prompts))

    def _read(self, prefixes: Sequence[tuple[int, ...]]) -> ChainState:
        """The states after prefixes of any lengths."""
        states = []
        for prefix in prefixes:
            state = self._engine.start([None])
            for token in prefix:
                state = state.advance([token])
            states.append(state)
        return ChainState.concatenated(states)

    def __repr__(self) -> str:
        return f"HMMLanguageModel({self.hmm!r})"


class _FilterSession(SharedSession):
    """Holds a state of the HMM, one row for each slot."""

    def __init__(self, lm: HMMLanguageModel, prompts: list[tuple[int, ...]]) -> None:
        super().__init__(prompts, lm.vocabulary.logits_size)
        self._known = {prompt: lm._read([prompt]) for prompt in dict.fromkeys(prompts)}
        for prompt, state in self._known.items():
            if bool(state.log_prefix.isneginf()):
                raise ImpossibleEvidenceError(
                    f"the prompt {prompt} has probability zero under the HMM, so nothing can "
                    "follow it; give another prompt, or smooth the HMM"
                )
        self._lm = lm
        self._state = ChainState(())

    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        # A row that was advanced before anything was computed has a longer prompt.
        states = [self._known.get(p) or self._lm._read([p]) for p in prompts]
        self._state = ChainState.concatenated(states)
        return _rows(self._state)

    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        self._state = self._state.select(parents)
        for column in zip(*tokens):
            self._state = self._state.advance(column)
        return _rows(self._state)


def _rows(state: ChainState) -> Tensor:
    return state.next_token_log_probs().dense(state.vocab_size)
