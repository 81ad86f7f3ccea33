"""Small worlds in which every text can be written down."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.constraints import regex
from pcgcd.hmm import HMM
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import HMMLanguageModel, LanguageModel, TableLM

# "ab" can be spelled in two ways, token 4 doubles token 0, token 5 is a second end of text.
VOCABULARY = Vocabulary.from_bytes([b"a", b"b", b"ab", None, b"a", None], eos_ids=[3, 5])
EOS = frozenset(VOCABULARY.eos_ids)
SIZE = VOCABULARY.logits_size


def table(seed: int = 0) -> TableLM:
    return TableLM.random(VOCABULARY, seed=seed, order=2)


def hmm(seed: int = 0, num_hidden: int = 4) -> HMM:
    """Rather flat, so that its samples reach every text soon."""
    generator = torch.Generator().manual_seed(seed)
    return absorbing(
        HMM.random(num_hidden, SIZE, generator=generator, concentration=4.0), VOCABULARY.eos_ids
    )


def hmm_lm(seed: int = 0) -> HMMLanguageModel:
    return HMMLanguageModel(hmm(seed), VOCABULARY, dtype=torch.float64)


def with_padding(fa: FiniteAutomaton) -> FiniteAutomaton:
    """The automaton over texts, with an absorbing end after EOS."""
    end = fa.num_states
    edges = [
        (int(s), int(t), fa.labels.tokens(int(label)).tolist())
        for s, t, label in zip(fa.source, fa.target, fa.label, strict=True)
    ]
    accepting = [int(s) for s in fa.accepting_mask.nonzero()[0]]
    return FiniteAutomaton.from_edges(
        num_states=end + 1,
        vocab_size=SIZE,
        initial=[int(s) for s in fa.initial_mask.nonzero()[0]],
        accepting=[*accepting, end],
        edges=[*edges, *((s, end, EOS) for s in [*accepting, end])],
    )


def ambiguous() -> FiniteAutomaton:
    """Some a, then anything: a text with j tokens of a in front has up to j + 1 paths."""
    a, text = {0, 4}, {0, 1, 2, 4}
    return with_padding(
        FiniteAutomaton.from_edges(
            num_states=3,
            vocab_size=SIZE,
            initial=[0],
            accepting=[1, 2],
            edges=[(0, 0, a), (0, 1, a), (1, 1, text), (0, 2, {1}), (2, 2, {1, 2})],
        )
    )


def deterministic() -> FiniteAutomaton:
    return ambiguous().determinize()


def constraint() -> FiniteAutomaton:
    """Ends with "bb" or is empty: short budgets leave few ways."""
    return regex("((a|b)*bb)?").compile(VOCABULARY)


AUTOMATA = {
    "ambiguous": ambiguous(),
    "deterministic": deterministic(),
    "constraint": constraint(),
}


def leaves(budget: int) -> Iterator[tuple[int, ...]]:
    """Every sequence of tokens that ends, by EOS or by the budget."""
    text = [token for token in range(SIZE) if token not in EOS]
    for length in range(budget):
        for words in itertools.product(text, repeat=length):
            for eos in EOS:
                yield (*words, eos)
    yield from itertools.product(text, repeat=budget)


def log_prob(lm: LanguageModel, tokens: tuple[int, ...], prompt: tuple[int, ...] = ()) -> float:
    prefixes = [(*prompt, *tokens[:t]) for t in range(len(tokens))]
    rows = lm.log_probs(prefixes).double()
    return float(rows[torch.arange(len(tokens)), torch.tensor(tokens)].sum())


def target(lm: LanguageModel, fa: FiniteAutomaton, budget: int) -> dict[tuple[int, ...], float]:
    """gamma(x) = p_lm(x) 1{x in C} of every text, by enumeration."""
    return {
        tokens: float(torch.tensor(log_prob(lm, tokens)).exp())
        for tokens in leaves(budget)
        if fa.accepts(tokens)
    }
