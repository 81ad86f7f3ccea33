"""Language models small enough to be written down: for enumeration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError
from pcgcd.lm.base import LanguageModel

if TYPE_CHECKING:
    from pcgcd.automata.vocabulary import Vocabulary

_TOLERANCE = 1e-6
_KEPT_ROWS = 1 << 14

Table = Mapping[tuple[int, ...], Any] | Callable[[tuple[int, ...]], Any]


class TableLM(LanguageModel):
    """The next-token probabilities of each prefix, as a table or a function; float64.

    >>> from pcgcd.automata import Vocabulary
    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
    >>> lm = TableLM(vocabulary, {(): [0.5, 0.5, 0.0]}, default=[0.25, 0.25, 0.5])
    >>> lm.log_probs([(), (0, 1)]).exp()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.2500, 0.2500, 0.5000]], dtype=torch.float64)
    """

    def __init__(self, vocabulary: Vocabulary, table: Table, *, default: Any = None) -> None:
        """Hold the table.

        Args:
            vocabulary: What the tokens stand for.
            table: The probabilities of all ``logits_size`` tokens, by prefix; or a function that
                gives them. A prompt is a part of the prefix.
            default: The probabilities after a prefix that is not in the table. Without one, asking
                for such a prefix is an error.
        """
        if not callable(table) and not isinstance(table, Mapping):
            raise InvalidParameterError(
                f"a table is a mapping from prefixes to probabilities, or a function, but "
                f"{type(table).__name__} was given"
            )
        self.vocabulary = vocabulary
        self._table, self._default = table, default
        self._kept: dict[tuple[int, ...], Tensor] = {}

    @classmethod
    def random(
        cls,
        vocabulary: Vocabulary,
        *,
        seed: int = 0,
        order: int | None = None,
        concentration: float = 1.0,
    ) -> TableLM:
        """A model with Dirichlet rows, drawn from the seed and the last ``order`` tokens.

        Args:
            vocabulary: What the tokens stand for.
            seed: Equal seeds give equal models.
            order: How many tokens back it looks; by default to the beginning.
            concentration: Small values give peaked rows.
        """
        if concentration <= 0 or (order is not None and order < 0) or seed < 0:
            raise InvalidParameterError(
                "a random table needs seed >= 0, order >= 0 and concentration > 0, but seed="
                f"{seed}, order={order} and concentration={concentration} were given"
            )
        width = vocabulary.logits_size

        def row(prefix: tuple[int, ...]) -> Any:
            seen = prefix if order is None else prefix[max(0, len(prefix) - order) :]
            draws = np.random.default_rng([seed, len(seen), *seen]).gamma(concentration, size=width)
            draws = np.maximum(draws, 1e-30)
            return draws / draws.sum()

        return cls(vocabulary, row)

    def log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        rows = [self._row(self._checked_prefix(prefix)) for prefix in prefixes]
        return torch.stack(rows) if rows else torch.empty(0, self._width, dtype=torch.float64)

    def _row(self, prefix: tuple[int, ...]) -> Tensor:
        row = self._kept.get(prefix)
        if row is None:
            if len(self._kept) >= _KEPT_ROWS:
                self._kept.clear()
            row = self._kept[prefix] = self._checked(prefix, self._look_up(prefix))
        return row

    def _look_up(self, prefix: tuple[int, ...]) -> Any:
        if not isinstance(self._table, Mapping):
            return self._table(prefix)
        row = self._table.get(prefix, self._default)
        if row is None:
            raise InvalidParameterError(
                f"the table has no row for the prefix {prefix}; add one, or give a default"
            )
        return row

    def _checked(self, prefix: tuple[int, ...], row: Any) -> Tensor:
        probabilities = torch.as_tensor(row, dtype=torch.float64)
        if probabilities.shape != (self._width,):
            raise InvalidParameterError(
                f"expected {self._width} probabilities after the prefix {prefix}, but found the "
                f"shape {tuple(probabilities.shape)}"
            )
        total = float(probabilities.sum())
        if not abs(total - 1) <= _TOLERANCE or bool((probabilities < 0).any()):
            raise InvalidParameterError(
                f"the probabilities after the prefix {prefix} must be non-negative and sum to 1, "
                f"but sum to {total:g} and the smallest is {float(probabilities.min()):g}"
            )
        return (probabilities / total).log()

    def __repr__(self) -> str:
        return f"TableLM({self.vocabulary!r})"
