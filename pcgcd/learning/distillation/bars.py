"""Progress bars of distillation, on the error stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pcgcd.learning.em.fit_result import Progress

__all__ = ["Callbacks", "bars"]


class Callbacks(NamedTuple):
    """What tells the bars how far it is."""

    on_sample: Callable[[int, int], None] | None
    on_read: Callable[[int, int], None] | None
    on_fit: Callable[[Progress], None] | None


@contextmanager
def bars(samples: int, wanted: bool) -> Iterator[Callbacks]:
    """Bars with tokens per second and the time left.

    Args:
        samples: How many samples there will be.
        wanted: Whether to draw them.
    """
    if not wanted:
        yield Callbacks(None, None, None)
        return
    import time

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
        sampling = shown.add_task("samples", total=samples, note="")
        reading = shown.add_task("reading samples again", total=None, note="", visible=False)
        fitting = shown.add_task("fitting", total=None, note="", visible=False)
        clock, new, tokens = time.monotonic(), 0, 0
        read_from = clock

        def on_sample(count: int, count_tokens: int) -> None:
            nonlocal new, tokens
            if count_tokens:
                new, tokens = new + count, tokens + count_tokens
            shown.update(sampling, advance=count)
            seconds = time.monotonic() - clock
            left = samples - shown.tasks[0].completed
            note = f"{tokens / seconds:.0f} tokens/s"
            if new:
                note += f", {_duration(left * seconds / new)} left"
            shown.update(sampling, note=note)

        def on_read(count: int, total: int) -> None:
            nonlocal read_from
            task = shown.tasks[reading]
            if not task.visible or task.finished:
                shown.reset(reading, total=total, visible=True)
                read_from = time.monotonic()
            shown.update(reading, advance=count)
            left = total - task.completed
            seconds = time.monotonic() - read_from
            note = f"{_duration(left * seconds / max(1, task.completed))} left"
            shown.update(reading, note=note)

        def on_fit(progress: Progress) -> None:
            note = (
                f"epoch {progress.epoch} of {progress.epochs}, {progress.tokens_per_second:.0f} "
                f"tokens/s, {_duration(progress.seconds_left)} left at most"
            )
            done = (progress.epoch - 1) * progress.batches + progress.batch
            total = progress.epochs * progress.batches
            shown.update(fitting, completed=done, total=total, note=note, visible=True)

        yield Callbacks(on_sample, on_read, on_fit)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
