"""Rejection sampling that learns what to avoid (CARS, arXiv 2510.01902), as a baseline.

Texts are drawn from the language model until one is valid. Whatever an attempt finds to be
impossible is ruled out for good: a trie of the prefixes that were visited keeps how much of the
model's probability is left below each. Within an attempt nothing changes, and no valid text is ever
ruled out, so that every text which is accepted is an exact sample of p_lm(x | C).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pcgcd.experiments.bias_worlds import World


class Drawn(NamedTuple):
    """What was drawn.

    Attributes:
        texts: The tokens of each text; fewer than asked for where the attempts were used up.
        calls: How many predictions the language model was asked for; each prefix once.
        attempts: How many texts were begun.
    """

    texts: list[tuple[int, ...]]
    calls: int
    attempts: int


class _Prefix:
    """A prefix that was visited.

    Attributes:
        left: The model's probability of each next token that has not been ruled out, (V,).
        valid: The tokens after which a valid text still fits in, (V,) booleans.
        children: The prefixes that were visited behind it.
    """

    __slots__ = ("children", "left", "states", "valid")

    def __init__(self, world: World, tokens: tuple[int, ...], states: tuple[int, ...]) -> None:
        self.states = states
        self.left: NDArray[np.float64] = world.rows[tokens].numpy().copy()
        self.valid = world.automaton.mask(states, world.budget - len(tokens))
        self.children: dict[int, _Prefix] = {}


def cars(world: World, k: int, rng: np.random.Generator, *, most: int = 4096) -> Drawn:
    """Draw exact samples of a world's posterior.

    Args:
        world: A language model and a constraint.
        k: How many texts.
        rng: What is drawn with.
        most: The most attempts.
    """
    root = _Prefix(world, (), world.automaton.start_states)
    ends = set(world.lm.vocabulary.eos_ids)
    texts: list[tuple[int, ...]] = []
    calls, attempts = 1, 0
    while len(texts) < k and attempts < most:
        attempts += 1
        path: list[_Prefix] = [root]
        tokens: tuple[int, ...] = ()
        while True:
            here = path[-1]
            token = int(rng.choice(len(here.left), p=here.left / here.left.sum()))
            tokens = (*tokens, token)
            if not here.valid[token]:
                break
            if token in ends or len(tokens) == world.budget:
                texts.append(tokens)
                break
            if token not in here.children:
                states = world.automaton.advance(here.states, token)
                here.children[token] = _Prefix(world, tokens, states)
                calls += 1
            path.append(here.children[token])
        _rule_out(world, path, tokens)
    return Drawn(texts, calls, attempts)


def _rule_out(world: World, path: list[_Prefix], tokens: tuple[int, ...]) -> None:
    """Remove what an attempt has shown to be impossible, from the end of its path to the root."""
    for place in reversed(range(len(path))):
        here = path[place]
        here.left[~here.valid] = 0
        if place + 1 < len(path):
            chance = float(world.rows[tokens[:place]][tokens[place]])
            here.left[tokens[place]] = chance * path[place + 1].left.sum()
