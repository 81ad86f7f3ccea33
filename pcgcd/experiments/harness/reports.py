"""Tables and figures: printed, and written as Markdown and PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from rich import box
from rich.console import Console
from rich.table import Table

from pcgcd.basics.files import write_text
from pcgcd.experiments.harness.facts import MEASURED
from pcgcd.experiments.harness.methods import METHODS
from pcgcd.experiments.harness.rows import Row
from pcgcd.experiments.harness.statistics import (
    Estimate,
    estimate,
    grouped,
    measure,
    variance_over_seeds,
)
from pcgcd.viz import save
from pcgcd.viz.style import INK, MARKERS, clear_frame, colours_of


@dataclass(frozen=True)
class Report:
    """What an experiment shows.

    Attributes:
        parts: Tables and paragraphs in order.
        figures: Figures by the names of their files.
    """

    parts: Sequence[Table | str]
    figures: Mapping[str, Figure] = field(default_factory=dict)

    def print(self, console: Console) -> None:
        """Print tables and paragraphs."""
        for part in self.parts:
            console.print(part, highlight=False)


def write_report(report: Report, results: Mapping[str, Any], out: Path) -> Report:
    """Write ``table.md`` and the figures to a folder; returns the report."""
    for name, figure in report.figures.items():
        save(figure, out / f"{name}.png")
    title = f"# Experiment: {results['experiment']}\n\n"
    write_text(out / "table.md", title + markdown(report, results))
    return report


def markdown(report: Report, results: Mapping[str, Any], folder: str = "") -> str:
    """Return the tables with the command, the number of rows and the machine.

    Args:
        report: The report.
        results: The content of ``results.json``.
        folder: Where the figures are, seen from the text.
    """
    lines = [f"Command: `{results['command']}`. Rows: {len(results['rows']):,}"]
    if not results["complete"]:
        lines[0] += f" of {results['planned']:,} that were planned; **the run was ended early**"
    named = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines[0] += (
        f". {results['machine']['processor']}, {results['machine']['cores']} cores; {named}."
    )
    lines += models_text(results["facts"])
    for part in report.parts:
        lines.append(markdown_table(part) if isinstance(part, Table) else part)
    lines += [f"![{name}]({folder}{name}.png)" for name in report.figures]
    return "\n\n".join(lines) + "\n"


def models_text(facts: Mapping[str, Any]) -> list[str]:
    """What is known of the models: how far the engine is from transformers, and the HMMs' bits."""
    known = []
    model = facts.get("model", {})
    if measured := model.get(MEASURED):
        known.append(
            f"llama.cpp computed the default model in {model['dtype']}: its log-probabilities "
            f"differ from those of transformers in float32 by at most {measured['largest']:.2g} "
            f"(tokens with at least one chance in a million, {measured['rows']:g} distributions), "
            f"its distributions by {measured['kl']:.1g} nats on average (Kullback-Leibler)."
        )
    for name, hmm in facts.get("hmms", {}).items():
        if bits := hmm.get("bits a token"):
            figures = ", ".join(f"{model} {value:.2f}" for model, value in bits.items())
            known.append(
                f"HMM `{name}`: H = {hmm['hidden']:,}, {hmm.get('samples', 0):,} samples; held-out "
                f"bits a token: {figures}."
            )
    return known


def markdown_table(table: Table) -> str:
    """Return a table of rich in Markdown, with its title as a paragraph above it."""
    signs = {"right": "---:", "center": ":---:"}
    rows = [
        [_cell(column.header) for column in table.columns],
        [signs.get(column.justify, "---") for column in table.columns],
        *([_cell(cell) for cell in row] for row in zip(*(c.cells for c in table.columns))),
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    title = " ".join(str(table.title or "").split())
    return "\n".join([f"**{title}**", "", *lines] if title else lines)


def _cell(value: Any) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def table_of(title: str, *columns: str, left: int = 1) -> Table:
    """Return a table whose first columns are words, and the others numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    return table


def written(found: Estimate | None, scale: float = 1.0, digits: int = 1) -> str:
    """Return a mean and its interval, or a dash. One example has no interval.

    >>> written(Estimate(0.5, 0.25, 0.75, 8), 100)
    '50.0 [25.0, 75.0]'
    """
    if found is None:
        return "–"
    mean, low, high = (f"{scale * value:.{digits}f}" for value in found[:3])
    return f"{mean} [{low}, {high}]" if found.examples > 1 else mean


def in_order(names: Sequence[str]) -> list[str]:
    """Methods in the order of the list of methods, others behind them as they come."""
    known = {name: place for place, name in enumerate(METHODS)}
    return sorted(dict.fromkeys(names), key=lambda name: known.get(name, len(known)))


def summary_table(
    rows: Sequence[Row], title: str, columns: Mapping[str, tuple[str, float]]
) -> Table:
    """One line for each setting, method and k.

    Log-evidence is shown where no run lost all its particles; its variance is over seeds.

    Args:
        rows: All rows.
        title: The title.
        columns: Measures of the experiment: what each is called, its name in a row and a factor.
    """
    heads = ("setting", "method", "k", "examples", *columns)
    table = table_of(
        title, *heads, "alive, %", "log-evidence", "its variance", "ESS", "CPU s", left=2
    )
    groups = grouped(rows)
    for setting in dict.fromkeys(group[0] for group in groups):
        own = {group[1:]: found for group, found in groups.items() if group[0] == setting}
        names = in_order([name for name, _ in own])
        for name, k in sorted(own, key=lambda pair: (names.index(pair[0]), pair[1])):
            found = own[name, k]
            seconds = estimate(found, measure("seconds"))
            evidence = log_evidence(found)
            spread = variance_over_seeds(found, measure("log_evidence"))
            ess = estimate(found, measure("ess"))
            table.add_row(
                setting,
                name,
                str(k),
                str(len({row.key.example for row in found})),
                *(
                    written(estimate(found, measure(column)), scale)
                    for column, scale in columns.values()
                ),
                _share(estimate(found, measure("alive"))),
                written(evidence, digits=2),
                "–" if spread is None else f"{spread.mean:.3g}",
                "–" if ess is None else f"{ess.mean:.1f}",
                "–" if seconds is None else f"{seconds.mean:.2f}",
            )
    return table


def _share(found: Estimate | None) -> str:
    return "–" if found is None else f"{100 * found.mean:.1f}"


def log_evidence(rows: Sequence[Row]) -> Estimate | None:
    """Return the mean log-evidence; None where a run has none, since its estimate is then log 0."""
    if any(row.log_evidence is None for row in rows):
        return None
    return estimate(rows, measure("log_evidence"))


def figure_against_k(
    rows: Sequence[Row],
    value: Callable[[Row], float | None],
    label: str,
    *,
    scale: float = 1.0,
    log_y: bool = False,
) -> Figure:
    """Draw a panel for each setting: a measure against k, a line for each method, 95 % intervals.

    A method that was run with one k only is a horizontal line.
    """
    groups = grouped(row for row in rows if value(row) is not None)
    settings = list(dict.fromkeys(group[0] for group in groups))
    names = in_order([group[1] for group in groups])
    colours = dict(zip(names, colours_of(names), strict=True))
    markers = {name: MARKERS[i % len(MARKERS)] for i, name in enumerate(names)}
    figure = Figure(figsize=(1.2 + 3.4 * max(1, len(settings)), 3.6), layout="constrained")
    panels = figure.subplots(1, max(1, len(settings)), squeeze=False)[0]
    for axes, setting in zip(panels, settings, strict=False):
        all_k = sorted({group[2] for group in groups if group[0] == setting})
        for name in names:
            points = [
                (k, estimate(groups[setting, name, k], value))
                for k in all_k
                if (setting, name, k) in groups
            ]
            known = [(k, found) for k, found in points if found is not None]
            if not known:
                continue
            style: dict[str, Any] = {"color": colours[name], "label": name}
            if len(known) == 1 and len(all_k) > 1:
                axes.axhline(scale * known[0][1].mean, linestyle="--", linewidth=1.1, **style)
                continue
            mean, low, high = ([scale * found[i] for _, found in known] for i in range(3))
            errors = [
                [m - v for m, v in zip(mean, low, strict=True)],
                [v - m for m, v in zip(mean, high, strict=True)],
            ]
            axes.errorbar(
                [k for k, _ in known],
                mean,
                errors,
                marker=markers[name],
                markersize=4.5,
                linewidth=1.4,
                capsize=2.5,
                **style,
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(all_k)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        if log_y:
            axes.set_yscale("log")
        axes.set_xlabel("particles k", color=INK, fontsize=9)
        axes.set_title(setting, color=INK, fontsize=9.5)
        clear_frame(axes)
    panels[0].set_ylabel(label, color=INK, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(4, max(1, len(labels))),
        frameon=False,
        fontsize=8.5,
    )
    return figure
