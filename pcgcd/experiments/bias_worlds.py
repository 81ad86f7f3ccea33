"""Languages so small that every text can be scored: the posterior is known.

A language model over 49,152 tokens is cut down to those that occur in the language, and one more
that stands for all others. None of the others is ever allowed, so that every method does on the
small model what it would do on the large one, token by token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata import FiniteAutomaton, Vocabulary
from pcgcd.basics.numbers import normalised
from pcgcd.constraints import Constraint, regex
from pcgcd.decoding import Target
from pcgcd.errors import AutomatonTooLargeError
from pcgcd.hmm import HMM, HiddenMarkovModel
from pcgcd.hmm.absorbing import absorbing
from pcgcd.lm import HMMLanguageModel, LanguageModel, TableLM

_MOST_PREFIXES = 4_000
_ROUNDS = 10
_RANDOM_HIDDEN, _RANDOM_BUDGET = 8, 5


class Language(NamedTuple):
    """A language that can be enumerated.

    Attributes:
        name: What it is called.
        pattern: A regular expression of it.
        budget: The most tokens.
        question: What the language model is asked.
    """

    name: str
    pattern: str
    budget: int
    question: str = ""


RANDOM_LANGUAGES = (
    Language("exactly one a", "[bc]*a[bc]*", _RANDOM_BUDGET),
    Language("evenly many b", "[ac]*(b[ac]*b[ac]*)*", _RANDOM_BUDGET),
    Language("ends in ab", "[abc]*ab", _RANDOM_BUDGET),
    Language("mentions ca and b", "[abc]*(ca[abc]*b|b[abc]*ca)[abc]*", _RANDOM_BUDGET),
)
REAL_LANGUAGES = (
    Language("a number", "[1-9][0-9]?", 3, "Pick a number between 1 and 99. Answer with digits."),
    Language("a year", "(19|20)[0-9][05]", 6, "In which year was the telephone book invented?"),
    Language(
        "a city",
        "(Paris|London|Rome|Madrid|Berlin|Vienna|Oslo|Athens|Lisbon|Dublin)[.!]",
        4,
        "Name a city in Europe.",
    ),
    Language("an animal", "(A|The) (cat|dog|bird|fish)[.]", 5, "Name an animal."),
    Language("a colour", "(red|black|white) (cat|dog|bird)", 4, "Name a colour and an animal."),
    Language("a record", r'\{"ok":(true|false)\}', 6, 'Answer with JSON such as {"ok":true}.'),
)


@dataclass(frozen=True)
class World:
    """A language, a model of it and its posterior.

    Attributes:
        name: The language.
        setting: The kind of model.
        lm: The model over the tokens of the language.
        automaton: The constraint over these tokens.
        budget: The most tokens.
        guides: HMMs by name.
        posterior: p(x | C) of each sequence of tokens.
        log_evidence: log p(C).
        rows: The model's next-token probabilities after each prefix.
        pattern: The regular expression.
    """

    name: str
    setting: str
    lm: TableLM
    automaton: FiniteAutomaton
    budget: int
    guides: Mapping[str, HiddenMarkovModel]
    posterior: Mapping[tuple[int, ...], float]
    log_evidence: float
    rows: Mapping[tuple[int, ...], Tensor]
    pattern: str


def random_world(language: Language, seed: int = 0) -> World:
    """Make a random HMM over three letters, guided by itself and by one half its size."""
    vocabulary = Vocabulary.from_bytes([b"a", b"b", b"c", None], eos_ids=3)
    generator = torch.Generator().manual_seed(seed)
    drawn = HMM.random(
        _RANDOM_HIDDEN, 4, concentration=0.5, generator=generator, dtype=torch.float64
    )
    return hmm_world("random HMM", absorbing(drawn, 3), vocabulary, language, ())


def hmm_world(
    setting: str,
    hmm: HiddenMarkovModel,
    vocabulary: Vocabulary,
    language: Language,
    prompt: Sequence[int],
    groups: int = _RANDOM_HIDDEN // 2,
) -> World:
    """Return an HMM as the language model, guided by itself and by a coarser one."""
    lm = HMMLanguageModel(hmm, vocabulary, dtype=torch.float64)
    own = HMM(hmm.initial, hmm.transition_factors[0], hmm.emission).to(dtype=torch.float64)
    coarse = coarsened(own, groups)
    guides = {"own": own, f"H = {coarse.num_hidden}": coarse}
    return enumerated(setting, lm, language, prompt, guides)


def enumerated(
    setting: str,
    lm: LanguageModel,
    language: Language,
    prompt: Sequence[int],
    guides: Mapping[str, HiddenMarkovModel],
) -> World:
    """Cut a language model down to a language; everything that can be reached is scored once.

    Args:
        setting: The kind of model.
        lm: The language model.
        language: The language.
        prompt: What the texts follow.
        guides: HMMs over the model's tokens, conditioned on the prompt.

    Raises:
        AutomatonTooLargeError: There are more prefixes than can be scored.
    """
    constraint = regex(language.pattern)
    levels = _prefixes(lm.vocabulary, constraint, language.budget)
    used = sorted({token for level in levels for _, _, allowed in level for token in allowed})
    place = {token: i for i, token in enumerate(used)}
    table = _scored(lm, prompt, levels, used, place)
    ends = [place[token] for token in used if token in set(lm.vocabulary.eos_ids)]
    texts = [
        lm.vocabulary.token_bytes[token] if place[token] not in ends else None for token in used
    ]
    vocabulary = Vocabulary.from_bytes([*texts, None], eos_ids=ends)
    weights = _weights(levels, place, table, language.budget, set(ends))
    total = math.fsum(weights.values())
    return World(
        name=language.name,
        setting=setting,
        lm=TableLM(vocabulary, table),
        automaton=Target.of(constraint, vocabulary).automaton,
        budget=language.budget,
        guides={name: _cut_down(hmm, used) for name, hmm in guides.items()},
        posterior={sequence: weight / total for sequence, weight in weights.items()},
        log_evidence=math.log(total),
        rows=table,
        pattern=language.pattern,
    )


# A prefix: its tokens, the place of its parent in the level before, and the tokens that may follow.
_Level = list[tuple[tuple[int, ...], int, tuple[int, ...]]]


def _prefixes(vocabulary: Vocabulary, constraint: Constraint, budget: int) -> list[_Level]:
    """Return all prefixes of texts of any length, up to the budget, by length."""
    fa = Target.of(constraint, vocabulary).automaton
    ends = set(vocabulary.eos_ids)
    going: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = [((), 0, fa.start_states)]
    levels: list[_Level] = []
    count = 0
    for _ in range(budget + 1):
        level, following = [], []
        for place, (prefix, parent, states) in enumerate(going):
            allowed = tuple(int(token) for token in np.flatnonzero(fa.mask(states)))
            level.append((prefix, parent, allowed))
            following += [
                ((*prefix, token), place, fa.advance(states, token))
                for token in allowed
                if token not in ends
            ]
            if count + len(going) + len(following) > _MOST_PREFIXES:
                raise AutomatonTooLargeError(
                    f"the language has more than {_MOST_PREFIXES:,} prefixes of up to {budget} "
                    "tokens; take a smaller one, or a smaller budget"
                )
        levels.append(level)
        count += len(level)
        going = following
    return levels


def _scored(
    lm: LanguageModel,
    prompt: Sequence[int],
    levels: Sequence[_Level],
    used: Sequence[int],
    place: Mapping[int, int],
) -> dict[tuple[int, ...], Tensor]:
    """Return the next-token probabilities after each prefix; the last is that of all others."""
    session = lm.start([tuple(prompt)])
    columns = torch.tensor(used)
    table: dict[tuple[int, ...], Tensor] = {}
    for number, level in enumerate(levels[:-1]):
        if not level:
            break
        if number:
            session.reindex([parent for _, parent, _ in level])
            session.advance([prefix[-1] for prefix, _, _ in level])
        inside = session.log_probs()[:, columns].double().exp()
        rest = (1 - inside.sum(1, keepdim=True)).clamp(min=0)
        rows = normalised(torch.cat([inside, rest], 1))
        for (prefix, _, _), row in zip(level, rows, strict=True):
            table[tuple(place[token] for token in prefix)] = row
    return table


def _weights(
    levels: Sequence[_Level],
    place: Mapping[int, int],
    table: Mapping[tuple[int, ...], Tensor],
    budget: int,
    ends: set[int],
) -> dict[tuple[int, ...], float]:
    """p_lm of each sequence that ends in time, by a token or at the end of the budget."""
    chance: dict[tuple[int, ...], float] = {(): 1.0}
    found: dict[tuple[int, ...], float] = {}
    for length, level in enumerate(levels):
        for given, _, following in level:
            prefix = tuple(place[token] for token in given)
            allowed = [place[token] for token in following]
            p = chance[prefix]
            if length == budget:
                if ends & set(allowed):
                    found[prefix] = p
                continue
            row = table[prefix].tolist()
            for token in allowed:
                longer = (*prefix, token)
                (found if token in ends else chance)[longer] = p * row[token]
    return {sequence: weight for sequence, weight in found.items() if weight > 0}


def _cut_down(hmm: HiddenMarkovModel, used: Sequence[int]) -> HiddenMarkovModel:
    """Return the HMM over the tokens of the language and one for all others."""
    emission = hmm.emission.double()
    inside = emission[:, torch.tensor(used)]
    rest = (emission.sum(1, keepdim=True) - inside.sum(1, keepdim=True)).clamp(min=0)
    return hmm.to(dtype=torch.float64).with_emission(normalised(torch.cat([inside, rest], 1)))


def coarsened(hmm: HMM, groups: int) -> HMM:
    """Return an HMM in which hidden states that emit alike are one (k-means of their square roots).

    States that end a text for good stay on their own.
    """
    ended = hmm.ended
    roots = hmm.emission.sqrt()
    free = torch.nonzero(~ended).flatten()
    centres = roots[free[:: max(1, len(free) // groups)][:groups]]
    nearest = torch.zeros(len(free), dtype=torch.long)
    for _ in range(_ROUNDS):
        nearest = torch.cdist(roots[free], centres).argmin(1)
        member: Any = torch.nn.functional.one_hot(nearest, len(centres)).to(roots.dtype)
        sizes = member.sum(0)
        means = member.T @ roots[free] / sizes.clamp(min=1)[:, None]
        centres = torch.where(sizes[:, None] > 0, means, centres)
    label = torch.full((hmm.num_hidden,), -1)
    label[free] = nearest
    label[ended] = len(centres) + torch.arange(int(ended.sum()))
    label = label.unique(return_inverse=True)[1]
    together = torch.nn.functional.one_hot(label).to(roots.dtype)  # (H, groups)
    average = normalised(together.T)
    return HMM(
        hmm.initial @ together,
        average @ hmm.transition @ together,
        average @ hmm.emission,
        validate=False,
    )
