"""Smooth lines between circles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Points = np.ndarray[Any, np.dtype[np.float64]]
_SAMPLES = 24


@dataclass(frozen=True)
class Curve:
    """A line through many points, (number of points, 2).

    Attributes:
        points: The points in order, both ends on the rims of their circles.
        is_loop: Whether it leads back to where it came from.
    """

    points: Points
    is_loop: bool

    def angle_at(self, end: int, centre: tuple[float, float]) -> float:
        """Return the direction of the end 0 or -1, seen from the centre of its circle."""
        x, y = self.points[end] - np.asarray(centre)
        return float(np.arctan2(y, x))

    def at(self, fraction: float) -> tuple[Points, Points]:
        """Return the point at a fraction of the length, and the unit normal to its left."""
        way = self._way()
        index = int(np.searchsorted(way, fraction * way[-1], side="right")) - 1
        index = min(max(index, 0), len(way) - 2)
        start, end = self.points[index], self.points[index + 1]
        step = way[index + 1] - way[index]
        along = (end - start) / step
        point = start + (fraction * way[-1] - way[index]) * along
        return point, np.array([-along[1], along[0]])

    def resampled(self, spacing: float) -> Points:
        """Points at equal distances along the curve."""
        way = self._way()
        places = np.linspace(0.0, way[-1], 2 + int(way[-1] / spacing))
        columns = [np.interp(places, way, self.points[:, axis]) for axis in range(2)]
        return np.stack(columns, axis=1)

    def _way(self) -> Points:
        steps = np.linalg.norm(np.diff(self.points, axis=0), axis=1)
        result: Points = np.concatenate([[0.0], np.cumsum(steps)])
        return result


def _bezier(controls: Points, samples: int = _SAMPLES) -> Points:
    """Points on the cubic curve with four control points (4, 2)."""
    t = np.linspace(0.0, 1.0, samples)[:, None]
    a, b, c, d = controls
    result: Points = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
    return result


def smooth_curve(through: Sequence[tuple[float, float]], bend: float, radius: float) -> Curve:
    """Return a curve through points (Catmull-Rom), cut off at the circles around both ends.

    Args:
        through: The points; the first and the last are centres of circles.
        bend: How far the middle of a straight line is moved to its left.
        radius: The radius of the circles.
    """
    points = np.asarray(through, dtype=float)
    if len(points) == 2 and bend:
        along = _unit(points[1] - points[0])
        middle = points.mean(0) + bend * np.array([-along[1], along[0]])
        points = np.stack([points[0], middle, points[1]])
    padded = np.concatenate([points[:1], points, points[-1:]])
    pieces = []
    for before, start, end, after in zip(padded, padded[1:], padded[2:], padded[3:]):
        controls = np.stack([start, start + (end - before) / 6, end - (after - start) / 6, end])
        pieces.append(_bezier(controls))
    line = np.concatenate(pieces)
    outside = (np.linalg.norm(line - points[0], axis=1) > radius) & (
        np.linalg.norm(line - points[-1], axis=1) > radius
    )
    inner = line[outside]
    first = points[0] + radius * _unit(inner[0] - points[0])
    last = points[-1] + radius * _unit(inner[-1] - points[-1])
    line = np.concatenate([first[None], inner, last[None]])
    steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
    return Curve(line[np.concatenate([[True], steps > 1e-9])], is_loop=False)


def loop_curve(
    centre: tuple[float, float], taken: Sequence[float], radius: float, reach: float
) -> Curve:
    """Return a loop at a circle, in the direction farthest from the angles already taken."""

    def room(direction: float) -> float:
        turns = [abs((angle - direction + np.pi) % (2 * np.pi) - np.pi) for angle in taken]
        return round(min(turns, default=np.pi), 2)

    direction = max((np.pi / 2, -np.pi / 2, 0.0, np.pi), key=room)
    middle = np.asarray(centre, dtype=float)

    def rim(turn: float, distance: float) -> Points:
        angle = direction + turn
        return middle + distance * np.array([np.cos(angle), np.sin(angle)])

    controls = np.stack(
        [
            rim(0.55, radius),
            rim(0.62, radius + 1.25 * reach),
            rim(-0.62, radius + 1.25 * reach),
            rim(-0.55, radius),
        ]
    )
    return Curve(_bezier(controls, 2 * _SAMPLES), is_loop=True)


def flowing_line(start: tuple[float, float], end: tuple[float, float]) -> Points:
    """Return a line that leaves and arrives level; two points where both ends are at one height."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        return np.array([start, end])
    middle = (x1 + x2) / 2
    return _bezier(np.array([start, (middle, y1), (middle, y2), end]), _SAMPLES // 2)


def _unit(vector: Points) -> Points:
    result: Points = vector / np.linalg.norm(vector)
    return result
