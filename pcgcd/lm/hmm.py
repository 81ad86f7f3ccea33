"""A hidden Markov model as the language model: what it should generate is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pcgcd.errors import ImpossibleEvidenceError, VocabularyMismatchError
from pcgcd.hmm import HMM, MonarchHMM
from pcgcd.lm.base import LanguageModel, LMSession, SharedSession

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

__all__ = ["HMMLanguageModel"]


class HMMLanguageModel(LanguageModel):
    """``p(x_{t+1} | x_{1:t})`` of an HMM, by filtering. A prompt is the beginning of x.

    What may follow an impossible prefix is nothing: its row is -inf throughout. A prompt that is
    impossible is an error.

    >>> from pcgcd.automata import Vocabulary
    >>> hmm = HMM(torch.tensor([1.0, 0.0]), torch.eye(2), torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    >>> lm = HMMLanguageModel(hmm, Vocabulary.from_bytes([b"a", None], eos_ids=1))
    >>> lm.log_probs([(0,)]).exp()
    tensor([[0.5000, 0.5000]])
    """

    def __init__(
        self, hmm: HMM | MonarchHMM, vocabulary: Vocabulary, *, dtype: torch.dtype | None = None
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
        self.hmm = hmm.to(dtype=dtype or torch.promote_types(hmm.emission.dtype, torch.float32))

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """See :class:`LanguageModel`."""
        filters = [self.filter(prefix) for prefix in prefixes]
        belief = (
            torch.stack(filters) if filters else self.hmm.initial.new_empty(0, self.hmm.num_hidden)
        )
        return self._emit(belief)

    def start(self, prompts: Sequence[Sequence[int]]) -> LMSession:
        """See :class:`LanguageModel`.

        Raises:
            ImpossibleEvidenceError: A prompt has probability zero.
        """
        return _FilterSession(self, self._checked_prompts(prompts))

    def filter(self, prefix: Sequence[int]) -> Tensor:
        """``p(z_{t+1} | x_{1:t})``, (H,): what the hidden state of the next token may be.

        Zero throughout if the prefix is impossible.
        """
        belief = self.hmm.initial.unsqueeze(0)
        for token in self._checked_prefix(prefix):
            belief = self._read(belief, torch.tensor([token], device=belief.device))
        return belief[0]

    def _read(self, belief: Tensor, tokens: Tensor) -> Tensor:
        """One filtering step: (k, H) and (k,) to (k, H)."""
        joint = belief * self.hmm.emission.index_select(1, tokens).mT
        return self.hmm.operators.transition.rmatvec(_normalised(joint))

    def _emit(self, belief: Tensor) -> Tensor:
        return _normalised(belief @ self.hmm.emission).log()

    def __repr__(self) -> str:
        return f"HMMLanguageModel({self.hmm!r})"


class _FilterSession(SharedSession):
    """Holds the filter of each prefix, (slots, H)."""

    def __init__(self, lm: HMMLanguageModel, prompts: list[tuple[int, ...]]) -> None:
        super().__init__(prompts, lm.vocabulary.logits_size)
        self._lm = lm
        self._filters = {prompt: lm.filter(prompt) for prompt in dict.fromkeys(prompts)}
        for prompt, belief in self._filters.items():
            if not bool((belief > 0).any()):
                raise ImpossibleEvidenceError(
                    f"the prompt {prompt} has probability zero under the HMM, so nothing can "
                    "follow it; give another prompt, or smooth the HMM"
                )
        self._belief = torch.empty(0)

    def _start(self, prompts: list[tuple[int, ...]]) -> Tensor:
        beliefs = [self._filters.get(prompt) for prompt in prompts]
        self._belief = torch.stack(
            [self._lm.filter(p) if b is None else b for p, b in zip(prompts, beliefs)]
        )
        return self._lm._emit(self._belief)

    def _extend(self, parents: list[int], tokens: list[tuple[int, ...]]) -> Tensor:
        device = self._belief.device
        self._belief = self._belief[torch.tensor(parents, device=device)]
        for column in zip(*tokens):
            self._belief = self._lm._read(self._belief, torch.tensor(column, device=device))
        return self._lm._emit(self._belief)


def _normalised(weights: Tensor) -> Tensor:
    """Rows that sum to one; a row of zeros stays as it is."""
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total > 0, total, 1)
