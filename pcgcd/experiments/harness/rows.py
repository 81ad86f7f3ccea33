"""One measurement, and what distinguishes it from the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from pcgcd.errors import InvalidParameterError


class Key(NamedTuple):
    """What a row is about: one of each in an experiment.

    Attributes:
        example: The example of the data.
        setting: What else is varied, such as the format and the budget.
        method: How the texts were made.
        k: The number of particles, or of independent texts.
        seed: The number of the repetition.
    """

    example: str
    setting: str
    method: str
    k: int
    seed: int


@dataclass(frozen=True)
class Row:
    """What one method did on one example.

    Attributes:
        key: Which one.
        text: The text of the largest weight; None if none has any.
        score: What the experiment rates; the expectation under the weights.
        log_evidence: The estimate of log p_lm(C); None where it is not estimated, or no text has
            any weight.
        ess: The effective sample size of the final weights.
        seconds: CPU seconds, an equal share of those of the batch.
        measures: Further numbers of the experiment, by name.
    """

    key: Key
    text: str | None = None
    score: float | None = None
    log_evidence: float | None = None
    ess: float | None = None
    seconds: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, flat."""
        result = asdict(self)
        return {**self.key._asdict(), **{name: result[name] for name in result if name != "key"}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """Read what :meth:`to_dict` wrote.

        Raises:
            InvalidParameterError: It is no such row.
        """
        try:
            key = Key(*(data[name] for name in Key._fields))
            rest = {name: value for name, value in data.items() if name not in Key._fields}
            return cls(key, **rest)
        except (KeyError, TypeError) as error:
            raise InvalidParameterError(
                f"a row of an experiment was expected, but {str(data)[:80]} was found ({error})"
            ) from error


class Job(NamedTuple):
    """Rows that are made together, because they share the language model's batches.

    Attributes:
        keys: The rows that it makes, in order.
        run: Makes them; the same rows whenever it is called, but for the seconds.
    """

    keys: tuple[Key, ...]
    run: Callable[[], Sequence[Row]]


@dataclass(frozen=True)
class Plan:
    """An experiment, ready to run.

    Attributes:
        facts: What decides the rows: options, models, data; plain data.
        jobs: What is to be done.
    """

    facts: Mapping[str, Any]
    jobs: Sequence[Job]
