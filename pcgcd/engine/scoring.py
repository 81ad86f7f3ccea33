"""The next tokens of many prefixes: messages for groups of tokens, then one pass over emissions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref as ref_to

import numpy as np
import torch
from torch import Tensor

from pcgcd.automata.arrays import frozen
from pcgcd.automata.edge_index import places_in
from pcgcd.engine.backends import EdgeSums, ScoreTask, Tiles
from pcgcd.engine.backward import joined
from pcgcd.engine.candidates import FEW, Candidates
from pcgcd.engine.live_sets import Plan
from pcgcd.engine.recursion import edge_weights, scaled
from pcgcd.engine.state import LOG_SMALLEST

if TYPE_CHECKING:
    from pcgcd.engine.chain_engine import ChainEngine
    from pcgcd.engine.chain_state import Row

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# Messages whose scales differ by less than exp(30) can share one scale.
_NEAR = 30.0
# Combinations of engines in one batch whose common classes of tokens are kept.
_KEPT_JOINTS = 8


def next_tokens(rows: Sequence[Row], predicted: Sequence[Tensor], *, exactly: bool) -> Candidates:
    """Return the candidates of each row; rows that share a guide share one pass over its emission.

    Args:
        rows: Different prefixes.
        predicted: p(z_{t+1} | x_{1:t}) of each of them, (H,).
        exactly: Whether zero is zero; otherwise every allowed token keeps some weight, see
            :meth:`pcgcd.engine.state.PrefixState.next_tokens`.
    """
    if not rows:
        return Candidates(torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, 0))
    plans = [_plan(row) for row in rows]
    vocab_size = rows[0].engine.guide.vocab_size
    most = max((plan.num_tokens for plan in plans if plan), default=0)
    width = None if most > FEW * vocab_size else most
    members: dict[tuple[int, type], list[int]] = {}
    for i, row in enumerate(rows):
        members.setdefault((id(row.engine.guide), type(row.engine.backend)), []).append(i)
    parts = [
        _scored(
            [rows[i] for i in chosen],
            [plans[i] for i in chosen],
            [predicted[i] for i in chosen],
            width,
            exactly,
        )
        for chosen in members.values()
    ]
    return Candidates.merged(parts, list(members.values()), vocab_size)


def _plan(row: Row) -> Plan | None:
    track = row.track
    if not track.live.members or track.remaining < 1:
        return None
    return track.live.plan(track.remaining)


def _scored(
    rows: Sequence[Row],
    plans: Sequence[Plan | None],
    predicted: Sequence[Tensor],
    width: int | None,
    exactly: bool,
) -> Candidates:
    """The candidates of rows with one guide; with a width they are lists, padded to it."""
    engine = rows[0].engine
    tiles, class_maps = _joint_tiles([row.engine for row in rows])
    messages, log_scale, offsets = _messages(rows, plans, predicted)
    group = np.full((len(rows), len(tiles.first) - 1), -1, dtype=np.int32)
    for i, plan in enumerate(plans):
        if plan is not None:
            own = plan.group if class_maps is None else plan.group[class_maps[id(rows[i].engine)]]
            group[i] = np.where(own >= 0, own + offsets[i], -1)
    shift = _shift(messages, log_scale, offsets)
    column = None
    if width is not None:
        taken = np.where(group >= 0, tiles.size, 0)
        column = (np.cumsum(taken, 1) - taken).astype(np.int32)
    num_columns = len(tiles.order) if width is None else width
    task = ScoreTask(tiles, group, column, num_columns)
    with torch.no_grad():
        scores = engine.backend.scores(engine.guide.rows, messages, task)
        tokens = None if column is None else _tokens(task, scores.device)
        if shift is not None:
            by_class = np.where(group >= 0, shift[group], 0.0)
            scores = _shifted(scores, by_class, task)
        return Candidates(tokens, _normalised(scores, exactly))


def _messages(
    rows: Sequence[Row], plans: Sequence[Plan | None], predicted: Sequence[Tensor]
) -> tuple[Tensor, Logs, list[int]]:
    """Messages of all groups of all rows, scaled, (G, H); their log-scales; where rows begin.

    m_g = p(z_{t+1} | x_{1:t}) * sum over the edges e of g of
    (paths to source) * f_e * w_{r-1}[target].
    """
    guide = rows[0].engine.guide
    batches: dict[tuple[int, int], list[int]] = {}
    for i, plan in enumerate(plans):
        if plan is not None:
            track = rows[i].track
            batches.setdefault((id(track.live), track.remaining), []).append(i)
    _ask(rows, plans)
    parts: list[Tensor] = []
    logs: list[Logs] = []
    offsets, total = [0] * len(rows), 0
    for (_, remaining), members in batches.items():
        row, plan = rows[members[0]], plans[members[0]]
        if plan is None:
            continue
        level = row.engine.messages.level(remaining - 1)
        target = level.find(plan.target)
        count, num_edges = len(members), len(target)
        groups = len(plan.first) - 1
        log_counts = np.stack([rows[i].track.log_counts[plan.place] for i in members])
        log_edges = (log_counts + plan.log_weight + level.log_scale[target]).ravel()
        steps = np.arange(count)[:, None] * num_edges
        first = np.append((plan.first[:-1] + steps).ravel(), count * num_edges)
        weight, largest = edge_weights(log_edges, first)
        summed = EdgeSums(
            torch.stack([predicted[i] for i in members]),
            np.repeat(np.arange(count), num_edges),
            level.rows,
            np.tile(target, count),
            weight,
            first,
        )
        part = row.engine.backend.accumulate(summed)
        part, log_part = scaled(part)
        parts.append(part)
        logs.append(largest + log_part)
        for place, i in enumerate(members):
            offsets[i] = total + place * groups
        total += count * groups
    if not parts:
        nothing = guide.rows.new_zeros(0, guide.num_hidden, dtype=guide.dtype)
        return nothing, np.zeros(0), offsets
    return torch.cat(parts), np.concatenate(logs), offsets


def _ask(rows: Sequence[Row], plans: Sequence[Plan | None]) -> None:
    """Ask for the backward messages that the plans read, those of one engine together."""
    wanted: dict[ChainEngine, list[tuple[int, Indices]]] = {}
    for row, plan in zip(rows, plans, strict=True):
        if plan is not None and not row.engine.messages.is_complete:
            wanted.setdefault(row.engine, []).append((row.track.remaining - 1, plan.target))
    for engine, pairs in wanted.items():
        engine.messages.ask(joined(pairs))


def _shift(messages: Tensor, log_scale: Logs, offsets: list[int]) -> Logs | None:
    """Scale the messages of each row in place; or, if they differ too much, what to add to logs."""
    bounds = sorted({0, *offsets, len(log_scale)})
    relative = np.zeros_like(log_scale)
    for low, high in pairwise(bounds):
        part = log_scale[low:high]
        best = part.max(initial=-np.inf)
        relative[low:high] = part - best if np.isfinite(best) else 0.0
    relative[~np.isfinite(log_scale)] = 0.0  # their messages are zero
    if relative.min(initial=0.0) < -_NEAR:
        return relative
    factor = torch.as_tensor(np.exp(relative), dtype=messages.dtype, device=messages.device)
    messages *= factor.unsqueeze(1)
    return None


def _shifted(scores: Tensor, by_class: Logs, task: ScoreTask) -> Tensor:
    """Scores times exp(shift), in float64 where that loses nothing."""
    shift = np.repeat(by_class, task.tiles.size, axis=1)  # (k, V) in the order of the tiles
    result = np.zeros((len(by_class), task.width))
    if task.column is None:
        result[:, task.tiles.order] = shift
    else:
        allowed = np.repeat(task.group >= 0, task.tiles.size, axis=1)
        for row, kept in enumerate(allowed):
            result[row, : int(kept.sum())] = shift[row, kept]
    return scores.double() * torch.as_tensor(result, device=scores.device).exp()


def _tokens(task: ScoreTask, device: torch.device) -> Tensor:
    """The token of each column of a list, (k, width)."""
    tokens = np.zeros((len(task.group), task.width), dtype=np.int64)
    for row, group in enumerate(task.group):
        places = places_in(task.tiles.first, np.flatnonzero(group >= 0))
        tokens[row, : len(places)] = task.tiles.order[places]
    return torch.as_tensor(tokens, device=device)


def _normalised(scores: Tensor, exactly: bool) -> Tensor:
    """Log-weights from scores, which are used up; -1 stands for tokens that are not allowed."""
    forbidden = scores < 0
    scores = scores.clamp_(min=0)
    total = scores.sum(1, keepdim=True)
    if exactly:
        return scores.log_().sub_(total.where(total > 0, 1).log_())
    empty = total.flatten() <= 0
    if bool(empty.any()):
        scores[empty] = (~forbidden[empty]).to(scores)
        total = scores.sum(1, keepdim=True)
    log_weights = scores.log_().sub_(total.log_()).nan_to_num_(neginf=LOG_SMALLEST)
    return log_weights.masked_fill_(forbidden, -torch.inf).float()


def _joint_tiles(
    engines: Sequence[ChainEngine],
) -> tuple[Tiles, dict[int, Indices] | None]:
    """Classes of tokens that none of the engines distinguishes, and each engine's class of each."""
    distinct = {id(engine): engine for engine in engines}
    if len(distinct) == 1:
        return engines[0].tiles, None
    chosen = sorted(distinct.values(), key=id)
    kept = chosen[0].joint_tiles
    key = tuple(map(id, chosen))
    found = kept.get(key)
    if found is None or any(ref() is not engine for ref, engine in zip(found[0], chosen)):
        if len(kept) >= _KEPT_JOINTS:
            kept.clear()
        found = kept[key] = (tuple(map(ref_to, chosen)), *_joined(chosen))
    return found[1], dict(zip(key, found[2]))


def _joined(engines: Sequence[ChainEngine]) -> tuple[Tiles, list[Indices]]:
    joint = np.zeros(len(engines[0].tiles.order), dtype=np.int64)
    for engine in engines:
        code = joint * engine.graph.num_classes + engine.graph.token_class
        _, joint = np.unique(code, return_inverse=True)
    # Numbered by their first tokens, whatever the order of the engines, which is that of addresses:
    # so the same seed draws the same tokens in every process.
    _, first = np.unique(joint, return_index=True)
    joint = np.argsort(np.argsort(first))[joint]
    order = np.argsort(joint, kind="stable")
    starts = np.searchsorted(joint[order], np.arange(int(joint.max()) + 2))
    example = order[starts[:-1]]
    maps = [engine.graph.token_class[example] for engine in engines]
    # As read-only as those of one engine: loops are compiled for each kind of arrays.
    return Tiles(order, starts, frozen(joint)), maps
