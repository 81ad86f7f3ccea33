"""A progress bar on the error stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pcgcd.decoding.smc import Step


def shown(steps: Iterable[Step], budget: int, wanted: bool) -> Iterator[Step]:
    """The steps, with a bar that counts them if it is wanted.

    Args:
        steps: The steps of a run.
        budget: The largest number of steps; most runs end before.
        wanted: Whether to draw the bar.
    """
    if not wanted:
        yield from steps
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("tokens"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown_task = bar.add_task("tokens", total=budget, note="")
        clock = time.perf_counter()
        for step in steps:
            rate = step.number / (time.perf_counter() - clock)
            going = len(step.population.active)
            bar.update(shown_task, completed=step.number, note=f"{rate:.1f}/s, {going} going")
            yield step
