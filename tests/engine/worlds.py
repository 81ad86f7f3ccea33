"""Small worlds in which every string can be summed over: HMMs, automata, and the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from pcgcd import HMM, FiniteAutomaton, MonarchHMM, Vocabulary, constraints

VOCAB_SIZE = 4


def random_hmm(seed: int, num_hidden: int = 5, vocab_size: int = VOCAB_SIZE) -> HMM:
    generator = torch.Generator().manual_seed(seed)
    return HMM.random(num_hidden, vocab_size, concentration=0.5, generator=generator)


def random_monarch(seed: int, vocab_size: int = VOCAB_SIZE) -> MonarchHMM:
    generator = torch.Generator().manual_seed(seed)

    def rows(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator).pow(3).add(1e-3).softmax(-1)

    return MonarchHMM(rows(6), rows(2, 3, 3), rows(3, 2, 2), rows(6, vocab_size))


def half_precision(hmm: HMM) -> HMM:
    """The same model with its emission in bfloat16."""
    return HMM(hmm.initial, hmm.transition, hmm.emission.bfloat16(), validate=False)


def random_automaton(
    seed: int, vocab_size: int = VOCAB_SIZE, *, deterministic: bool = False
) -> FiniteAutomaton:
    """Some states, edges and token sets; an NFA may have several initial states."""
    rng = np.random.default_rng(seed)
    num_states = int(rng.integers(1, 5))
    edges: list[tuple[int, int, list[int]]] = []
    for source in range(num_states):
        if deterministic:
            target = rng.integers(-1, num_states, vocab_size)
            edges += [(source, int(t), [v]) for v, t in enumerate(target) if t >= 0]
        else:
            for target in range(num_states):
                if rng.random() < 0.6:
                    edges.append(
                        (source, target, np.flatnonzero(rng.random(vocab_size) < 0.5).tolist())
                    )
    count = 1 if deterministic else int(rng.integers(1, num_states + 1))
    return FiniteAutomaton.from_edges(
        num_states=num_states,
        vocab_size=vocab_size,
        initial=rng.choice(num_states, count, replace=False).tolist(),
        accepting=np.flatnonzero(rng.random(num_states) < 0.5).tolist(),
        edges=edges,
    )


def vocabulary() -> Vocabulary:
    return Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3)


def padded_automata() -> dict[str, FiniteAutomaton]:
    """Token automata of constraints, padded with EOS; the empty text is allowed in some."""
    written = {
        "star": constraints.regex("(ab)*"),
        "one or two": constraints.regex("a|bb?"),
        "literal": constraints.literal("aba"),
        "suffix": constraints.regex("[ab]*bab"),
    }
    return {name: rule.compile(vocabulary()) for name, rule in written.items()}


def strings(length: int, vocab_size: int = VOCAB_SIZE) -> Iterator[tuple[int, ...]]:
    return itertools.product(range(vocab_size), repeat=length)


class Oracle:
    """p_hmm(x) * (number of accepting paths of x), summed over all strings of one length."""

    def __init__(self, hmm: HMM | MonarchHMM, fa: FiniteAutomaton, length: int) -> None:
        dense = hmm if isinstance(hmm, HMM) else hmm.to_dense()
        self.initial = dense.initial.double().numpy()
        self.transition = dense.transition.double().numpy()
        self.emission = dense.emission.double().numpy()
        self.fa, self.length = fa, length
        self.vocab_size = fa.vocab_size
        self.moves = np.zeros((fa.vocab_size, fa.num_states, fa.num_states))
        for source, target, label in zip(fa.source, fa.target, fa.label):
            self.moves[fa.labels.tokens(int(label)), source, target] = 1
        self.weight = {x: self.prefix(x) * self.paths(x) for x in strings(length, fa.vocab_size)}

        self.masses: list[dict[tuple[int, ...], float]] = [{} for _ in range(length + 1)]
        for x, weight in self.weight.items():
            for t in range(length + 1):
                self.masses[t][x[:t]] = self.masses[t].get(x[:t], 0.0) + weight

    def prefix(self, x: Sequence[int]) -> float:
        """p_hmm(x)."""
        message = self.initial
        for step, token in enumerate(x):
            message = (message @ self.transition if step else message) * self.emission[:, token]
        return float(message.sum())

    def guided(self, x: Sequence[int]) -> float:
        """The guide's mass of all strings of the length that begin so: p_hmm(x) if it sums to 1."""
        rest = np.ones(len(self.initial))
        for _ in range(self.length - max(len(x), 1)):
            rest = self.transition @ (self.emission.sum(1) * rest)
        if not len(x):
            return float(self.initial @ (self.emission.sum(1) * rest))
        message = self.initial
        for step, token in enumerate(x):
            message = (message @ self.transition if step else message) * self.emission[:, token]
        return float(message @ rest)

    def paths(self, x: Sequence[int]) -> float:
        count = self.fa.initial_mask.astype(float)
        for token in x:
            count = count @ self.moves[token]
        return float(count @ self.fa.accepting_mask)

    def mass(self, prefix: Sequence[int] = ()) -> float:
        """The mass of all strings that begin so."""
        head = tuple(prefix)
        return self.masses[len(head)].get(head, 0.0)

    def next_tokens(self, prefix: Sequence[int]) -> torch.Tensor:
        total = self.mass(prefix)
        chances = [self.mass((*prefix, v)) / total for v in range(self.vocab_size)]
        return torch.tensor(chances, dtype=torch.float64).log()

    def prefixes(self) -> Iterator[tuple[int, ...]]:
        """All beginnings of strings with some mass, shortest first."""
        for length in range(self.length + 1):
            for x in strings(length, self.vocab_size):
                if self.mass(x) > 0:
                    yield x
