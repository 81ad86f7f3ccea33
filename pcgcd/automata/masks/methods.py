"""Masks as methods of an automaton: which tokens may come next."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pcgcd.automata.automaton import FiniteAutomaton
    from pcgcd.automata.masks.bits import Words
    from pcgcd.automata.masks.state_sets import States
    from pcgcd.automata.masks.table import MaskTable

__all__ = ["Masking"]

Allowed: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

_KEPT_BYTES = 64 << 20


class Masking:
    """The part of a token automaton that decoders use. A set of states stands for a prefix."""

    @cached_property
    def _mask_table(self) -> MaskTable:
        from pcgcd.automata.masks.table import MaskTable

        return MaskTable.of(cast("FiniteAutomaton", self))

    @cached_property
    def _unpacked(self) -> dict[int, tuple[Words, Allowed]]:
        return {}

    @property
    def start_states(self) -> tuple[int, ...]:
        """The states before the first token; none if the language is empty."""
        return self._mask_table.start()

    def advance(self, states: States, token: int) -> tuple[int, ...]:
        """The states after one more token; none if it was not allowed."""
        return self._mask_table.advance(states, token)

    def mask(self, states: States, remaining: int | None = None) -> Allowed:
        """Which tokens may come next, (V,) booleans, read-only.

        With ``remaining`` (tokens that may still come, this one included) a token is allowed if
        the text can then be finished in time: the mask of GCD, Eq. (2). Without it, if it can be
        finished at all: the mask of LCD, Eq. (1).

        Args:
            states: A state, the states of one prefix, or their indicator (S,).
            remaining: The token budget that is left; None for any number.
        """
        words = self._mask_table.mask(states, remaining)
        kept = self._unpacked.get(id(words))
        if kept is None:
            from pcgcd.automata.masks.bits import unpack

            allowed = unpack(words, self._mask_table.vocab_size)
            allowed.flags.writeable = False
            if len(self._unpacked) * len(allowed) > _KEPT_BYTES:
                self._unpacked.clear()
            # The words are kept as well, so that no others can get their id.
            kept = self._unpacked[id(words)] = (words, allowed)
        return kept[1]

    def masks(
        self,
        states: Sequence[States],
        remaining: int | Sequence[int | None] | None = None,
    ) -> Words:
        """The masks of k prefixes in one call, packed, (k, ceil(V / 32)) 32-bit words.

        :func:`pcgcd.automata.masks.bits.unpack_tensor` and ``apply_mask`` turn them into tensors.
        """
        return self._mask_table.masks(states, remaining)
