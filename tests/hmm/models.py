"""Small models, data and oracles for the tests of fitting."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from pcgcd import HMM, MonarchHMM
from pcgcd.hmm import HiddenMarkovModel

Parts = dict[str, Tensor]


def rows(*shape: int, seed: int, dtype: torch.dtype = torch.float64, power: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(*shape, generator=generator, dtype=torch.float64).pow(power) + 1e-4
    return (weights / weights.sum(-1, keepdim=True)).to(dtype)


def dense(
    hidden: int, vocab: int, seed: int = 0, dtype: torch.dtype = torch.float64, power: float = 3.0
) -> HMM:
    return HMM(
        rows(hidden, seed=seed, dtype=dtype, power=power),
        rows(hidden, hidden, seed=seed + 1, dtype=dtype, power=power),
        rows(hidden, vocab, seed=seed + 2, dtype=dtype, power=power),
    )


def monarch(
    a: int, b: int, vocab: int, seed: int = 0, dtype: torch.dtype = torch.float64
) -> MonarchHMM:
    return MonarchHMM(
        rows(a * b, seed=seed, dtype=dtype),
        rows(a, b, b, seed=seed + 1, dtype=dtype),
        rows(b, a, a, seed=seed + 2, dtype=dtype),
        rows(a * b, vocab, seed=seed + 3, dtype=dtype),
    )


def ending(hidden: int, vocab: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> HMM:
    """The last hidden state emits the last token for ever; no other state emits it."""
    initial, transition = rows(hidden, seed=seed), rows(hidden, hidden, seed=seed + 1)
    emission = rows(hidden, vocab, seed=seed + 2)
    initial[-1] = 0
    transition[-1] = torch.eye(hidden)[-1]
    emission[:, -1] = 0
    emission[-1] = torch.eye(vocab)[-1]
    parts = (initial / initial.sum(), transition, emission / emission.sum(-1, keepdim=True))
    return HMM(*(part.to(dtype) for part in parts))


def parts(hmm: HiddenMarkovModel) -> Parts:
    names = ("initial", "transition", "emission")
    if isinstance(hmm, MonarchHMM):
        names = ("initial", "left", "right", "emission")
    return {name: getattr(hmm, name) for name in names}


def enumerated_counts(hmm: HMM, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Expected counts by going through every hidden path."""
    initial, transition, emission = (torch.zeros_like(part) for part in parts(hmm).values())
    for x in batch.tolist():
        weights = {}
        for z in itertools.product(range(hmm.num_hidden), repeat=len(x)):
            weight = float(hmm.initial[z[0]] * hmm.emission[z[0], x[0]])
            for t in range(1, len(x)):
                weight *= float(hmm.transition[z[t - 1], z[t]] * hmm.emission[z[t], x[t]])
            weights[z] = weight
        total = sum(weights.values())
        for z, weight in weights.items():
            initial[z[0]] += weight / total
            for t, token in enumerate(x):
                emission[z[t], token] += weight / total
                if t:
                    transition[z[t - 1], z[t]] += weight / total
    return initial, transition, emission


def gradient_counts(hmm: HiddenMarkovModel, batch: Tensor) -> list[Tensor]:
    """theta * d log p(x) / d theta, by automatic differentiation."""
    leaves = [part.double().clone().requires_grad_() for part in parts(hmm).values()]
    type(hmm)(*leaves, validate=False).log_value(batch).sum().backward()
    return [
        torch.zeros_like(leaf) if leaf.grad is None else leaf.detach() * leaf.grad
        for leaf in leaves
    ]


def sampled(hmm: HiddenMarkovModel, count: int, length: int, seed: int = 0) -> Tensor:
    """Sequences of the model, hidden state by hidden state."""
    generator = torch.Generator().manual_seed(seed)
    state = torch.multinomial(hmm.initial.expand(count, -1), 1, generator=generator)[:, 0]
    found = []
    for _ in range(length):
        found.append(torch.multinomial(hmm.emission[state], 1, generator=generator))
        rows = hmm.operators.transition.rows(state)
        state = torch.multinomial(rows, 1, generator=generator)[:, 0]
    return torch.cat(found, 1)
