"""Text that is given out while it is generated."""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterator, Sequence

from pcgcd.decoding.results import Generation
from pcgcd.decoding.smc import Step


class Stream:
    """Pieces of text of a running generation; then its result.

    With one particle every token is final at once. With several, text is final when all living
    particles share it.

    Attributes:
        result: The generation, once the stream has ended.
    """

    def __init__(
        self,
        steps: Iterator[Step],
        finish: Callable[[Sequence[Step]], Generation],
        text_of: Callable[[tuple[int, ...]], bytes],
    ) -> None:
        """Follow the steps of one request.

        Args:
            steps: The steps of its run.
            finish: From all steps to its result.
            text_of: From its tokens to the text behind the prompt.
        """
        self.result: Generation | None = None
        self._steps, self._finish, self._text_of = steps, finish, text_of

    def __iter__(self) -> Iterator[str]:
        # What is no UTF-8 is replaced once, when its bytes are complete or the text has ended.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        records, given = [], 0
        for step in self._steps:
            records.append(step)
            population = step.population
            alive = [
                ids
                for ids, weight in zip(population.tokens, population.log_weights, strict=True)
                if weight > -math.inf
            ]
            if not population.active and len(population.tokens) > 1:
                break
            text = self._text_of(_common_prefix(alive))
            piece = decoder.decode(text[given:])
            given = max(given, len(text))
            if piece:
                yield piece
        self.result = self._finish(records)
        if self.result.error is not None:
            raise self.result.error
        if len(self.result) == 1:
            rest = decoder.decode(b"", final=True)
            if rest:
                yield rest


def _common_prefix(sequences: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if not sequences:
        return ()
    low, high = min(sequences), max(sequences)
    length = next(
        (i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]),
        min(len(low), len(high)),
    )
    return low[:length]
