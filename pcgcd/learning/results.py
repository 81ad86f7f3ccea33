"""What fitting gives: a model, and how it came about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from pcgcd.hmm.model import HiddenMarkovModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Epoch", "FitResult", "Progress"]

Model = TypeVar("Model", bound=HiddenMarkovModel)


@dataclass(frozen=True)
class Epoch:
    """One pass over the data. Log-likelihoods are in nats per token.

    Attributes:
        epoch: Its number, from 1.
        step_size: The last one.
        train: Of each batch just before the step that it caused.
        held_out: After the epoch; None where no data was held out.
        seconds: How long it took, without what was interrupted.
    """

    epoch: int
    step_size: float
    train: float
    held_out: float | None
    seconds: float


@dataclass(frozen=True)
class Progress:
    """Where fitting is, for whoever shows it.

    Attributes:
        epoch: The epoch under way, from 1.
        epochs: How many there will be at most.
        batch: Batches of this epoch that are done.
        batches: How many an epoch has.
        step_size: The last one.
        train: Nats per token of this epoch so far.
        tokens_per_second: Since fitting started or was resumed.
        seconds_left: An estimate, until the last epoch ends.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int
    step_size: float
    train: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class FitResult(Generic[Model]):
    """A fitted model.

    Attributes:
        hmm: The model of the best epoch by held-out likelihood; of the last one where no data was
            held out.
        history: One entry per epoch.
        best_epoch: The epoch that the model is from.
        stopped_early: Whether patience ran out.
        steps: How many M steps were made in all.
        start_held_out: Held-out nats per token before the first step.
        last: The model of the last epoch, if it was asked for and is another one.
    """

    hmm: Model = field(repr=False)
    history: tuple[Epoch, ...]
    best_epoch: int
    stopped_early: bool
    steps: int
    start_held_out: float | None = None
    last: Model | None = field(default=None, repr=False)

    @property
    def held_out(self) -> float | None:
        """Held-out log-likelihood of the model, in nats per token."""
        return (
            self.history[self.best_epoch - 1].held_out if self.best_epoch else self.start_held_out
        )

    @property
    def bits_per_token(self) -> float | None:
        """Held-out bits per token of the model: smaller is better."""
        return None if self.held_out is None else -self.held_out / math.log(2)

    def plot(self, references: Mapping[str, float] | None = None) -> Figure:
        """The curve of bits per token over epochs, from the start (0) on.

        Args:
            references: Other models' bits per token, by name, as horizontal lines: the language
                model's own entropy, an n-gram model.
        """
        from pcgcd.learning.curve import draw_curve

        return draw_curve(self, references or {})
