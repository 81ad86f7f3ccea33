"""What fitting gives: a model, and how it came about."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pcgcd.hmm.model import HiddenMarkovModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Model = TypeVar("Model", bound=HiddenMarkovModel)

_BLUE, _ORANGE, _INK = "#2b67a6", "#e67e22", "#2b2f36"


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
        """Draw the curve of bits per token over epochs, from the start (0) on.

        Args:
            references: Other models' bits per token, by name, as horizontal lines: the language
                model's own entropy, an n-gram model.
        """
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.subplots()
        self._draw_history(axes)
        for name, bits in (references or {}).items():
            axes.axhline(bits, color=_INK, linewidth=0.8, linestyle=":")
            place: Any = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
            axes.annotate(name, (1, bits), fontsize=8, color=_INK, **place)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel("bits per token")
        axes.grid(alpha=0.25, linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
        return figure

    def _draw_history(self, axes: Axes) -> None:
        train = [-entry.train / math.log(2) for entry in self.history]
        epochs = [entry.epoch for entry in self.history]
        axes.plot(epochs, train, color=_BLUE, label="training, as it went")
        measured = [(0, self.start_held_out), *((e.epoch, e.held_out) for e in self.history)]
        held = {
            epoch: -value / math.log(2)
            for epoch, value in measured
            if value is not None and math.isfinite(value)
        }
        if held:
            shown: Any = {"color": _ORANGE, "marker": "o", "markersize": 3, "label": "held out"}
            axes.plot(list(held), list(held.values()), **shown)
        if self.best_epoch in held:
            place = [self.best_epoch], [held[self.best_epoch]]
            axes.plot(*place, "*", color=_ORANGE, markersize=11, label="best epoch")
