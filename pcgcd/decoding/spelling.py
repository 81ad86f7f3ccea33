"""Looking ahead to how a language model spells what a constraint leaves no choice about.

A constraint fixes texts, not tokens: ``","`` may be one token, or ``",`` and ``"``. A language
model has seen the spelling of its tokenizer only, and hardly ever goes on with another. But it does
not know the constraint: expecting ``", "`` it writes ``",``, and has then no usual token left for
the ``"`` that must follow. A particle that walks into such a trap loses its weight one token later,
and a few particles walk into it together.

So a token is trapped if few tokens may follow it, and the tokenizer would join or cut it and every
one of them otherwise. :class:`Spelled` makes another proposal avoid such tokens, and
:class:`SpelledPotential` rates prefixes that end in one as what they will be. Both change only how
well the particles are placed: the target is the same, spelled in whatever way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.basics.keeping import kept_with
from pcgcd.decoding.contracts import needs_guide
from pcgcd.decoding.next_step import NextStep
from pcgcd.decoding.potentials import Potential
from pcgcd.decoding.proposals import Proposal
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.state import PrefixState
from pcgcd.engine.tracks import Track
from pcgcd.lm import LanguageModel

COST = 8.0  # in nats: what an unusual spelling costs, about; see docs/decoding.md
_FEW = 64  # followers; among more than these some are usual
_LIKELY = 16  # tokens of each prefix that are looked at
_KEPT = 1 << 18  # answers; they are forgotten when there are more


class Spelling:
    """Which tokens leave no usual spelling for what must follow.

    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", b"ab", None], eos_ids=3)
    >>> spelling = Spelling(vocabulary, lambda text: (2,) if text == "ab" else (0, 0))
    >>> spelling.is_usual(0, 1), spelling.is_usual(0, 0)
    (False, True)
    """

    def __init__(self, vocabulary: Vocabulary, spell: Callable[[str], Sequence[int]]) -> None:
        """Hold a tokenizer; nothing is asked yet.

        Args:
            vocabulary: The tokens.
            spell: From a text to its tokens, without special ones.
        """
        self.vocabulary, self._spell = vocabulary, spell
        self._pairs: dict[tuple[int, int], bool] = {}
        self._traps: WeakKeyDictionary[object, dict[tuple[tuple[int, ...], int], bool]]
        self._traps = WeakKeyDictionary()
        self._before = tuple(spell("\n"))

    @classmethod
    def of(cls, lm: LanguageModel) -> Spelling | None:
        """Return how a language model spells; None if it does not say."""
        # What is no subclass of LanguageModel need not have all of its methods.
        spell = getattr(lm, "spell", None)
        if spell is None:
            return None
        return kept_with(
            lm, "_spelling", lambda: None if spell("\n") is None else cls(lm.vocabulary, spell)
        )

    def is_usual(self, first: int, second: int) -> bool:
        """Return whether a tokenizer writes the text of two tokens as these tokens.

        Tokens without a text of their own, parts of a character among them, count as usual.
        """
        found = self._pairs.get((first, second))
        if found is None:
            if len(self._pairs) >= _KEPT:
                self._pairs.clear()
            found = self._pairs[first, second] = self._is_usual(first, second)
        return found

    def _is_usual(self, first: int, second: int) -> bool:
        vocabulary, pair = self.vocabulary, (first, second)
        if not vocabulary.size > max(pair) or not set(pair).isdisjoint(vocabulary.eos_ids):
            return True
        left, right = (vocabulary.token_bytes[token] for token in pair)
        if not left or not right:
            return True
        try:
            text = (left + right).decode()
        except UnicodeDecodeError:
            return True
        # Some tokenizers write the beginning of a text in a way of its own.
        return tuple(self._spell(text)) == pair or (
            tuple(self._spell("\n" + text)) == self._before + pair
        )

    def is_trapped(self, track: Track) -> bool:
        """Return whether every token that may follow a prefix would be an unusual one."""
        if track.token < 0:
            return False
        known = self._traps.setdefault(track.graph, {})
        found = known.get((track.members, track.token))
        if found is None:
            if len(known) >= _KEPT:
                known.clear()
            followers = track.followers(_FEW) or ()
            found = bool(followers) and not any(
                self.is_usual(track.token, follower) for follower in followers
            )
            known[track.members, track.token] = found
        return found

    def traps(self, track: Track, tokens: Sequence[int]) -> list[bool]:
        """Return for each of some next tokens whether the prefix would be trapped with it."""
        known = self._traps.setdefault(track.graph, {})
        found = []
        for token in tokens:
            # Keyed by the states before it, apart from those after it by the sign.
            key = (track.members, -1 - token)
            trapped = known.get(key)
            if trapped is None:
                trapped = known[key] = self.is_trapped(track.advance(token))
            found.append(trapped)
        return found


@dataclass(frozen=True, eq=False)
class Spelled:
    """A proposal that avoids tokens which leave no usual spelling for what must follow.

    Its support is that of the other.

    Attributes:
        proposal: The other.
        spelling: How the language model spells.
        cost: By how much the log-weight of such a token is lowered.
    """

    proposal: Proposal
    spelling: Spelling
    cost: float = COST

    @property
    def needs_guide(self) -> bool:
        """Whether the other does."""
        return needs_guide(self.proposal, "proposal", "weigh")

    def weigh(self, step: NextStep) -> Candidates:
        """Return the weights of the other, of trapped tokens lowered."""
        found = self.proposal.weigh(step)
        weights = found.log_weights
        # Tokens that are less likely than a trapped one need not be looked at.
        likely, columns = weights.topk(min(_LIKELY, weights.shape[1]), dim=1)
        near = (likely > -torch.inf) & (likely >= likely[:, :1] - self.cost)
        tokens = (columns if found.tokens is None else found.tokens.gather(1, columns)).tolist()
        trapped = torch.zeros_like(near)
        for row, (track, count) in enumerate(zip(step.state.tracks, near.sum(1).tolist())):
            if count > 1:
                traps = self.spelling.traps(track, tokens[row][:count])
                trapped[row, :count] = torch.tensor(traps)
        if not trapped.any():
            return found
        lowered = weights.scatter_add(1, columns, trapped.to(weights.dtype).mul(-self.cost))
        return found.with_weights(lowered)


@dataclass(frozen=True, eq=False)
class SpelledPotential:
    """A potential that rates trapped prefixes lower.

    Attributes:
        potential: The other.
        spelling: How the language model spells.
        cost: By how much the logarithm of psi is lowered.
    """

    potential: Potential
    spelling: Spelling
    cost: float = COST

    @property
    def needs_guide(self) -> bool:
        """Whether the other does."""
        return needs_guide(self.potential, "potential", "log_twist")

    def log_twist(self, state: PrefixState) -> Tensor:
        """Return that of the other, of trapped prefixes lowered."""
        trapped = [self.spelling.is_trapped(track) for track in state.tracks]
        log_psi = self.potential.log_twist(state)
        return log_psi - self.cost * torch.tensor(trapped, dtype=log_psi.dtype).to(log_psi.device)
