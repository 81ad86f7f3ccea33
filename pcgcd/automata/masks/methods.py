"""Masks as methods of an automaton: which tokens may come next."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pcgcd.automata.arrays import Mask
    from pcgcd.automata.automaton import FiniteAutomaton
    from pcgcd.automata.masks.bits import Words
    from pcgcd.automata.masks.state_sets import States
    from pcgcd.automata.masks.table import MaskTable

__all__ = ["Masking"]


class Masking:
    """The part of a token automaton that decoders use. A set of states stands for a prefix."""

    @cached_property
    def _mask_table(self) -> MaskTable:
        from pcgcd.automata.masks.table import MaskTable

        return MaskTable.of(cast("FiniteAutomaton", self))

    @property
    def start_states(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""
        return self._mask_table.start()

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""
        return self._mask_table.advance(states, token)

    def mask(self, states: States, remaining: int | None = None) -> Mask:
        """Which tokens may come next, (V,) booleans, read-only.

        With ``remaining`` (tokens that may still come, this one included) a token is allowed if
        the text can then be finished in time: the mask of GCD, Eq. (2). Without it, if it can be
        finished at all: the mask of LCD, Eq. (1).

        Args:
            states: A state, the states of one prefix, or their indicator (S,).
            remaining: The token budget that is left; None for any number.
        """
        from pcgcd.automata.masks.bits import unpack

        allowed = unpack(self._mask_table.mask(states, remaining), self._mask_table.vocab_size)
        allowed.flags.writeable = False
        return allowed

    def masks(
        self,
        states: Sequence[States],
        remaining: int | Sequence[int | None] | None = None,
    ) -> Words:
        """The masks of k prefixes in one call, packed, (k, ceil(V / 32)) 32-bit words.

        The functions of :mod:`pcgcd.automata.masks.bits` turn them into tensors and lists.
        """
        return self._mask_table.masks(states, remaining)
