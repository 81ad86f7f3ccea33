"""Where to put the nodes of a directed graph: layers from left to right (Sugiyama's method)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import accumulate, pairwise

import numpy as np

_SWEEPS = 12
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Positions, in the unit of the sizes that were asked for.

    Attributes:
        nodes: The centre of each node.
        via: For each edge, the points that it passes between its ends.
    """

    nodes: list[Point]
    via: list[list[Point]]


@dataclass
class _Graph:
    """The layered graph: nodes first, then one dummy for each layer that an edge crosses."""

    layer: list[int]
    chains: list[list[int]]  # for each edge its nodes from left to right
    reversed: list[bool]  # whether an edge runs from right to left

    def rows(self) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in range(max(self.layer) + 1)]
        for node, layer in enumerate(self.layer):
            rows[layer].append(node)
        return rows

    def links(self) -> list[tuple[int, int]]:
        return [link for chain in self.chains for link in pairwise(chain)]


def layered_layout(
    num_nodes: int,
    edges: Sequence[tuple[int, int]],
    roots: Sequence[int],
    *,
    column_gap: Callable[[int, int], float],
    row_gap: Callable[[int], float],
    lane_gap: float,
) -> Layout:
    """Lay out a graph so that most edges point to the right and few of them cross.

    Args:
        num_nodes: How many nodes there are.
        edges: (source, target); those from a node to itself are ignored.
        roots: Where to start, in the leftmost column.
        column_gap: The room that an edge needs, given its number and how many columns it spans.
        row_gap: The room that a node needs within its column.
        lane_gap: The same for an edge that passes through a column.
    """
    graph = _layered(num_nodes, edges, roots)
    rows = _ordered(graph)
    columns = _columns(graph, len(rows), column_gap)

    def room(node: int) -> float:
        return row_gap(node) if node < num_nodes else lane_gap

    heights = _heights(graph, rows, room, num_nodes)
    points = [(columns[layer], heights[node]) for node, layer in enumerate(graph.layer)]
    via = [
        [points[node] for node in (chain[-2:0:-1] if backwards else chain[1:-1])]
        for chain, backwards in zip(graph.chains, graph.reversed)
    ]
    return Layout(points[:num_nodes], via)


def _back_edges(num_nodes: int, edges: Sequence[tuple[int, int]], roots: Sequence[int]) -> set[int]:
    """Edges that close a cycle of a depth-first walk; without them the graph has no cycle."""
    leaving: list[list[int]] = [[] for _ in range(num_nodes)]
    for number, (source, target) in enumerate(edges):
        if source != target:
            leaving[source].append(number)
    colour = [0] * num_nodes  # 0 unseen, 1 on the current walk, 2 done
    back: set[int] = set()
    for start in [*roots, *range(num_nodes)]:
        if colour[start]:
            continue
        colour[start] = 1
        stack = [(start, iter(leaving[start]))]
        while stack:
            node, remaining = stack[-1]
            following = next(remaining, None)
            if following is None:
                colour[node] = 2
                stack.pop()
                continue
            target = edges[following][1]
            if colour[target] == 1:
                back.add(following)
            elif colour[target] == 0:
                colour[target] = 1
                stack.append((target, iter(leaving[target])))
    return back


def _layered(num_nodes: int, edges: Sequence[tuple[int, int]], roots: Sequence[int]) -> _Graph:
    """Each node goes one column to the right of the last of those before it."""
    back = _back_edges(num_nodes, edges, roots)
    forward = [
        (target, source) if number in back else (source, target)
        for number, (source, target) in enumerate(edges)
    ]
    before: dict[int, list[int]] = {node: [] for node in range(num_nodes)}
    for source, target in forward:
        if source != target:
            before[target].append(source)
    layer = [0] * num_nodes
    for node in TopologicalSorter(before).static_order():
        layer[node] = max((layer[source] + 1 for source in before[node]), default=0)
    chains: list[list[int]] = []
    for source, target in forward:
        chain = [source]
        for between in range(layer[source] + 1, layer[target]):
            chain.append(len(layer))
            layer.append(between)
        chains.append([*chain, target] if source != target else [source])
    return _Graph(layer, chains, [number in back for number in range(len(edges))])


def _ordered(graph: _Graph) -> list[list[int]]:
    """The nodes of each column from top to bottom, by barycentres; the best of several sweeps."""
    rows = graph.rows()
    links = graph.links()
    near: dict[int, list[int]] = {}
    for left, right in links:
        near.setdefault(left, []).append(right)
        near.setdefault(right, []).append(left)
    best, fewest = [list(row) for row in rows], _crossings(rows, links, graph.layer)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        columns = list(range(len(rows)))[:: 1 if sweep % 2 == 0 else -1]
        for fixed, moved in pairwise(columns):
            place = {node: i for i, node in enumerate(rows[fixed])}
            wanted: dict[int, float] = {}
            for i, node in enumerate(rows[moved]):
                known = [place[other] for other in near.get(node, ()) if other in place]
                wanted[node] = sum(known) / len(known) if known else float(i)
            rows[moved].sort(key=wanted.__getitem__)
        crossings = _crossings(rows, links, graph.layer)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(rows: list[list[int]], links: list[tuple[int, int]], layer: list[int]) -> int:
    place = {node: i for row in rows for i, node in enumerate(row)}
    by_layer: dict[int, list[tuple[int, int]]] = {}
    for left, right in links:
        by_layer.setdefault(layer[left], []).append((place[left], place[right]))
    total = 0
    for group in by_layer.values():
        lefts, rights = np.array(group).T
        before = lefts[:, None] < lefts[None, :]
        total += int((before & (rights[:, None] > rights[None, :])).sum())
    return total


def _columns(
    graph: _Graph, num_layers: int, column_gap: Callable[[int, int], float]
) -> list[float]:
    widths = [0.0] * (num_layers - 1)
    for number, chain in enumerate(graph.chains):
        for node in chain[:-1]:
            layer = graph.layer[node]
            widths[layer] = max(widths[layer], column_gap(number, len(chain) - 1))
    return list(accumulate(widths, initial=0.0))


def _heights(
    graph: _Graph, rows: list[list[int]], room: Callable[[int], float], num_nodes: int
) -> list[float]:
    """Pull every node to the mean height of its neighbours, keeping order and distances.

    Sweeps to the right look at the neighbours before, sweeps to the left at those after, so that
    a chain becomes a straight line at once.
    """
    heights = [0.0] * len(graph.layer)
    before: list[list[int]] = [[] for _ in graph.layer]
    after: list[list[int]] = [[] for _ in graph.layer]
    for left, right in graph.links():
        after[left].append(right)
        before[right].append(left)
    gaps = [[(room(above) + room(below)) / 2 for above, below in pairwise(row)] for row in rows]
    for row, gap in zip(rows, gaps):
        total = sum(gap)
        for i, node in enumerate(row):
            heights[node] = total / 2 - sum(gap[:i])
    for sweep in range(_SWEEPS):
        to_the_right = sweep % 2 == 0
        for number in range(len(rows)) if to_the_right else range(len(rows) - 1, -1, -1):
            row, near = rows[number], before if to_the_right else after
            groups = [near[node] or [node] for node in row]
            wanted = [sum(heights[i] for i in group) / len(group) for group in groups]
            weights = [1.0 if node < num_nodes else 2.0 for node in row]
            for node, height in zip(row, _spread(wanted, gaps[number], weights)):
                heights[node] = height
    return heights


def _spread(wanted: list[float], gaps: list[float], weights: list[float]) -> list[float]:
    """The heights nearest to the wanted ones that descend by at least the gaps.

    Least squares by pooling neighbours that would violate a gap.
    """
    offsets = list(accumulate(gaps, initial=0.0))
    pools: list[tuple[float, float, int]] = []  # (mean, weight, members)
    for height, offset, weight in zip(wanted, offsets, weights):
        pools.append((height + offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (mean_a, weight_a, size_a), (mean_b, weight_b, size_b) = pools[-2:]
            total = weight_a + weight_b
            mean = (mean_a * weight_a + mean_b * weight_b) / total
            pools[-2:] = [(mean, total, size_a + size_b)]
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [mean - offset for mean, offset in zip(flat, offsets)]
