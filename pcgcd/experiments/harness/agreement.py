"""How far two engines that compute one language model are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from pcgcd.lm import LanguageModel

CONVERSATIONS = (
    "Write a short sentence with the words: dog, ball, park.",
    "Name a city in Europe, and say in one sentence what it is known for.",
    'Answer with a JSON object such as {"name": "add", "arguments": {"a": 1, "b": 2}}.',
    "SELECT the names of all singers who are older than thirty, as one SQL query.",
)
_STEPS = 8


class Agreement(NamedTuple):
    """The difference of next-token distributions.

    Attributes:
        largest: The largest difference of the log-probabilities of a token that has at least one
            chance in a million.
        kl: The mean Kullback-Leibler divergence from the first to the second, in nats.
        rows: How many distributions were compared.
    """

    largest: float
    kl: float
    rows: int


def agreement(
    first: LanguageModel,
    second: LanguageModel,
    conversations: Sequence[str] = CONVERSATIONS,
    steps: int = _STEPS,
) -> Agreement:
    """Compare two models after the same prefixes: chats, and the first one's likeliest answers.

    Args:
        first: The reference.
        second: The other one, with the same vocabulary.
        conversations: What is asked.
        steps: Tokens of each answer after which the models are compared.
    """
    prefixes = [first.encode([{"role": "user", "content": text}]) for text in conversations]
    largest, divergences = 0.0, []
    for _ in range(steps):
        one, other = (lm.log_probs(prefixes).cpu().double() for lm in (first, second))
        known = one > torch.tensor(1e-6).log()
        largest = max(largest, float((one - other)[known].abs().max()))
        chances = one.exp()
        divergences.append(torch.where(chances > 0, chances * (one - other), 0.0).sum(1))
        prefixes = [(*prefix, int(row.argmax())) for prefix, row in zip(prefixes, one, strict=True)]
    compared = torch.cat(divergences)
    return Agreement(largest, float(compared.mean()), len(compared))
