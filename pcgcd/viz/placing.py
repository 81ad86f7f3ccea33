"""Finding room for labels beside curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from pcgcd.viz.curves import Curve, Points
from pcgcd.viz.style import axes_inches

__all__ = ["Box", "place_labels", "show_box"]

_PAD = 0.045
_NEAR = 0.12
_BESIDE = 0.08  # words that follow each other on a line would be read as one
_SPACING = 0.02
_FRACTIONS = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> Box:
        """A rectangle from its centre and size."""
        return cls(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    @classmethod
    def of_points(cls, points: Points) -> Box:
        """The smallest rectangle around points (number, 2)."""
        (left, bottom), (right, top) = points.min(0), points.max(0)
        return cls(float(left), float(bottom), float(right), float(top))

    @classmethod
    def union(cls, boxes: Iterable[Box]) -> Box:
        """The smallest rectangle around others."""
        found = list(boxes)
        return cls(
            min(box.left for box in found),
            min(box.bottom for box in found),
            max(box.right for box in found),
            max(box.top for box in found),
        )

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From bottom to top."""
        return self.top - self.bottom

    @property
    def centre(self) -> tuple[float, float]:
        """The middle."""
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2

    def grown(self, by: float) -> Box:
        """With a margin on all sides."""
        return Box(self.left - by, self.bottom - by, self.right + by, self.top + by)

    def overlap(self, other: Box) -> float:
        """The area shared with another rectangle."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(wide, 0.0) * max(high, 0.0)

    def count_inside(self, points: Points) -> int:
        """How many of the points (number, 2) it holds."""
        return len(self.points_inside(points))

    def points_inside(self, points: Points) -> Points:
        """Those of the points (number, 2) that it holds."""
        inside = (points > (self.left, self.bottom)) & (points < (self.right, self.top))
        found: Points = points[inside.all(1)]
        return found


def place_labels(
    curves: Sequence[Curve], sizes: Sequence[tuple[float, float]], obstacles: Sequence[Box]
) -> list[Box]:
    """A rectangle of the given size beside each curve, off the obstacles and off each other.

    Takes the curves in order, and for each the best of a few places along both its sides: no
    overlap with an obstacle or an earlier label counts most, then not covering a curve or coming
    near another one, then being near the middle.
    """
    lines = [curve.resampled(_SPACING) for curve in curves]
    points = np.concatenate([np.zeros((0, 2)), *lines])
    owner = np.repeat(np.arange(len(lines)), [len(line) for line in lines])
    placed: list[Box] = []
    for number, (curve, (width, height)) in enumerate(zip(curves, sizes)):
        candidates = _candidates(curve, width, height)
        around = Box.union(candidates).grown(2 * _NEAR)
        others = around.points_inside(points[owner != number])

        def cost(
            item: tuple[int, Box], own: Points = lines[number], others: Points = others
        ) -> float:
            rank, box = item
            padded = box.grown(_PAD)
            wide = Box(padded.left - _BESIDE, padded.bottom, padded.right + _BESIDE, padded.top)
            clash = sum(padded.overlap(other) for other in obstacles)
            clash += sum(wide.overlap(other) for other in placed)
            covered = box.count_inside(own) + padded.count_inside(others)
            near = box.grown(_NEAR).count_inside(others)
            return 1e3 * clash + 0.3 * covered + 0.03 * near + 0.1 * rank

        placed.append(min(enumerate(candidates), key=cost)[1])
    return placed


def _candidates(curve: Curve, width: float, height: float) -> list[Box]:
    """Places for a label, the preferred ones first: the middle, and above rather than below."""
    result = []
    for fraction in (0.5,) if curve.is_loop else _FRACTIONS:
        point, normal = curve.at(fraction)
        if not curve.is_loop and (normal[1] < -1e-9 or (abs(normal[1]) <= 1e-9 and normal[0] < 0)):
            normal = -normal
        for side in (normal, -normal):
            distance = _PAD + abs(side[0]) * width / 2 + abs(side[1]) * height / 2
            x, y = point + distance * side
            result.append(Box.around(float(x), float(y), width, height))
    return result


def show_box(axes: Axes, box: Box) -> float:
    """Let axes show a rectangle of inches, made smaller where it must be; returns the scale."""
    width, height = axes_inches(axes)
    scale = min(width / box.width, height / box.height, 1.0)
    centre_x, centre_y = box.centre
    axes.set_xlim(centre_x - width / scale / 2, centre_x + width / scale / 2)
    axes.set_ylim(centre_y - height / scale / 2, centre_y + height / scale / 2)
    axes.set_axis_off()
    return scale
