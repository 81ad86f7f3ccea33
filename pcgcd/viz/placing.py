"""Rectangles in inches, and room for labels beside curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.transforms import Bbox

from pcgcd.viz.curves import Curve, Points
from pcgcd.viz.style import axes_inches

_PAD = 0.045
_NEAR = 0.12
_BESIDE = 0.08  # words that follow each other on a line would be read as one
_SPACING = 0.02
_FRACTIONS = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)


def box_around(x: float, y: float, width: float, height: float) -> Bbox:
    """Return a rectangle from its centre and size."""
    return Bbox.from_extents(x - width / 2, y - height / 2, x + width / 2, y + height / 2)


def rounded_box(
    x: float, y: float, width: float, height: float, *, pad: float, **options: Any
) -> FancyBboxPatch:
    """Return the patch of a rectangle with round corners, from its centre and size."""
    corner = (x - width / 2 + pad, y - height / 2 + pad)
    style = f"round,pad={pad}"
    inside = (width - 2 * pad, height - 2 * pad)
    return FancyBboxPatch(corner, *inside, boxstyle=style, zorder=3, **options)


def place_labels(
    curves: Sequence[Curve], sizes: Sequence[tuple[float, float]], obstacles: Sequence[Bbox]
) -> list[Bbox]:
    """Return a rectangle of the given size beside each curve, off the obstacles and off each other.

    Takes the curves in order, and for each the best of a few places along both its sides: no
    overlap with an obstacle or an earlier label counts most, then not covering a curve or coming
    near another one, then being near the middle.
    """
    lines = [curve.resampled(_SPACING) for curve in curves]
    points = np.concatenate([np.zeros((0, 2)), *lines])
    owner = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    blocked = _corners(obstacles)
    placed: list[Bbox] = []
    for number, (curve, (width, height)) in enumerate(zip(curves, sizes)):
        candidates = _candidates(curve, width, height)
        low, high = Bbox.union(candidates).padded(2 * _NEAR).get_points()
        near = ((low < points) & (points < high)).all(1)
        others, taken = points[near & (owner != number)], _corners(placed)
        costs = [_cost(box, lines[number], others, blocked, taken) for box in candidates]
        placed.append(candidates[int(np.argmin(costs + 0.1 * np.arange(len(costs))))])
    return placed


def _cost(box: Bbox, own: Points, others: Points, blocked: Points, taken: Points) -> float:
    """How bad a place is for a label."""
    padded = box.padded(_PAD)
    clash = _overlap(padded, blocked) + _overlap(box.padded(_PAD + _BESIDE, _PAD), taken)
    covered = box.count_contains(own) + padded.count_contains(others)
    return 1e3 * clash + 0.3 * covered + 0.03 * box.padded(_NEAR).count_contains(others)


def _corners(boxes: Sequence[Bbox]) -> Points:
    """The lower left and the upper right corner of each, (number, 2, 2)."""
    return np.array([box.get_points() for box in boxes]).reshape(-1, 2, 2)


def _overlap(box: Bbox, corners: Points) -> float:
    """The area shared with other rectangles."""
    low, high = box.get_points()
    shared = np.minimum(high, corners[:, 1]) - np.maximum(low, corners[:, 0])
    return float(shared.clip(min=0).prod(1).sum())


def _candidates(curve: Curve, width: float, height: float) -> list[Bbox]:
    """Places for a label, the preferred ones first: the middle, and above rather than below."""
    result = []
    for fraction in (0.5,) if curve.is_loop else _FRACTIONS:
        point, normal = curve.at(fraction)
        if not curve.is_loop and (normal[1] < -1e-9 or (abs(normal[1]) <= 1e-9 and normal[0] < 0)):
            normal = -normal
        for side in (normal, -normal):
            distance = _PAD + abs(side[0]) * width / 2 + abs(side[1]) * height / 2
            x, y = point + distance * side
            result.append(box_around(x, y, width, height))
    return result


def show_box(axes: Axes, box: Bbox) -> float:
    """Let axes show a rectangle of inches, made smaller where it must be; returns the scale."""
    width, height = axes_inches(axes)
    scale = min(width / box.width, height / box.height, 1.0)
    x, y = box.get_points().mean(0)
    axes.set_xlim(x - width / scale / 2, x + width / scale / 2)
    axes.set_ylim(y - height / scale / 2, y + height / scale / 2)
    axes.set_axis_off()
    return scale
