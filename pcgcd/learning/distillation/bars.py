"""Progress bars of distillation, on the error stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from pcgcd.learning.results import Progress


class Callbacks(NamedTuple):
    """Callbacks that move the progress bars."""

    on_sample: Callable[[int, int], None] | None
    on_read: Callable[[int, int], None] | None
    on_fit: Callable[[Progress], None] | None


@contextmanager
def bars(samples: int, wanted: bool) -> Iterator[Callbacks]:
    """Bars with tokens per second and the time left, if they are wanted."""
    if not wanted:
        yield Callbacks(None, None, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Bars(*columns, console=Console(stderr=True)) as shown:
        drawn = _Drawn(shown, samples)
        yield Callbacks(drawn.on_sample, drawn.on_read, drawn.on_fit)


class _Drawn:
    """Three bars, one below the other; the last two appear when their work begins."""

    def __init__(self, shown: Bars, samples: int) -> None:
        self._shown = shown
        self._sampling = shown.add_task("samples", total=samples, note="")
        self._reading = shown.add_task("reading samples again", total=None, note="", visible=False)
        self._fitting = shown.add_task("fitting", total=None, note="", visible=False)
        self._sampled_from = self._read_from = time.monotonic()
        self._new = self._tokens = 0

    def on_sample(self, count: int, count_tokens: int) -> None:
        if count_tokens:
            self._new, self._tokens = self._new + count, self._tokens + count_tokens
        self._shown.update(self._sampling, advance=count)
        seconds = time.monotonic() - self._sampled_from
        note = f"{self._tokens / seconds:.0f} tokens/s"
        if self._new:
            left = self._shown.tasks[self._sampling].remaining or 0
            note += f", {_duration(left * seconds / self._new)} left"
        self._shown.update(self._sampling, note=note)

    def on_read(self, count: int, total: int) -> None:
        task = self._shown.tasks[self._reading]
        if not task.visible or task.finished:
            self._shown.reset(self._reading, total=total, visible=True)
            self._read_from = time.monotonic()
        self._shown.update(self._reading, advance=count)
        seconds = time.monotonic() - self._read_from
        left = (total - task.completed) * seconds / max(1, task.completed)
        self._shown.update(self._reading, note=f"{_duration(left)} left")

    def on_fit(self, progress: Progress) -> None:
        note = (
            f"epoch {progress.epoch} of {progress.epochs}, {progress.tokens_per_second:.0f} "
            f"tokens/s, {_duration(progress.seconds_left)} left at most"
        )
        done = (progress.epoch - 1) * progress.batches + progress.batch
        total = progress.epochs * progress.batches
        self._shown.update(self._fitting, completed=done, total=total, note=note, visible=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
