"""Prefixes in the product, one row each: what may come next, and how likely it is to end well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from pcgcd.circuits.frozen import Frozen
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.live_sets import LiveSet
from pcgcd.engine.model import ModelTables
from pcgcd.engine.product import ProductEngine
from pcgcd.engine.scoring import LOG_SMALLEST, next_tokens
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

__all__ = ["ProductState", "Row", "start_batch"]

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Logs: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


@dataclass(frozen=True, eq=False)
class Row:
    """One prefix. Rows do not change, so equal prefixes share one and are computed once.

    Attributes:
        engine: Its HMM and automaton.
        live: The automaton's states after the prefix.
        log_counts: The logarithm of the number of paths to each of them.
        filter: p(z_t | x_{1:t}), (H,); None before the first token. Zeros if p(x_{1:t}) = 0.
        log_prefix: log p(x_{1:t}) under the HMM.
        remaining: How many tokens may still come.
    """

    engine: ProductEngine
    live: LiveSet
    log_counts: Logs
    filter: Tensor | None
    log_prefix: float
    remaining: int

    @property
    def is_dead(self) -> bool:
        """Whether the prefix has left the constraint."""
        return not len(self.live.states)


class ProductState(Frozen):
    """k prefixes of one length, immutable; made by :meth:`ProductEngine.start` or
    :func:`start_batch`.
    """  # noqa: D205

    def __init__(self, rows: Sequence[Row]) -> None:
        """Hold the rows; repeated ones cost nothing."""
        self._rows = tuple(rows)

    @property
    def num_rows(self) -> int:
        """The number of prefixes k."""
        return len(self._rows)

    @cached_property
    def remaining(self) -> Indices:
        """How many tokens may still come in each row, (k,)."""
        return np.array([row.remaining for row in self._rows], dtype=np.int64)

    @property
    def live_states(self) -> tuple[tuple[int, ...], ...]:
        """The automaton's states after each prefix; none if it has left the constraint."""
        return tuple(tuple(row.live.states.tolist()) for row in self._rows)

    @cached_property
    def log_prefix(self) -> Tensor:
        """The log of p_hmm(x_{1:t}) of each row, (k,) float64."""
        return self._vector([row.log_prefix for row in self._rows])

    def next_tokens(self) -> Candidates:
        """The log of p(next token | prefix, constraint), normalised over the allowed tokens.

        The support is that of GCD: an allowed token always has a finite log-weight. Where its
        score is zero (the HMM says so, or it is too small for a float) it gets the smallest
        positive normal float32; where all scores of a row are zero the allowed tokens share the
        row equally. Importance weights correct the rest. Everything else is exactly -inf.
        """
        rows, number = self._distinct
        found = next_tokens(rows, self._predicted)
        if len(rows) == len(self._rows):
            return found
        index = torch.as_tensor(number, device=found.log_weights.device)
        tokens = None if found.tokens is None else found.tokens[index]
        return Candidates(tokens, found.log_weights[index])

    def next_lookaheads(self) -> Candidates:
        """The log of p_hmm(C | x_{1:t}, next token) / p_hmm(C | x_{1:t}) of the allowed tokens.

        How much a token raises or lowers the chance to end well; C is the constraint, by paths.
        Where the HMM gives an allowed token no mass, the smallest positive normal float32.
        """
        joint = self.next_tokens()
        marginal = self._next_marginals(joint.tokens)
        log_weights = joint.log_weights - marginal.log().to(joint.log_weights)
        unknown = (marginal <= 0) | (joint.log_weights <= LOG_SMALLEST)
        log_weights = log_weights.masked_fill(unknown, LOG_SMALLEST)
        return joint.with_weights(log_weights.masked_fill(joint.log_weights.isneginf(), -torch.inf))

    def log_lookahead(self) -> Tensor:
        """The log of p_hmm(the rest satisfies the constraint | x_{1:t}), by paths, (k,) float64.

        Before the first token this is :meth:`ProductEngine.log_mass`. -inf where nothing can be
        accepted in the tokens that remain. Where something can, but the HMM gives it no mass, the
        smallest positive float32; 0 where it gives the prefix itself none.
        """
        rows, number = self._distinct
        values = [_log_lookahead(row) for row in rows]
        return self._vector([values[i] for i in number])

    def advance(self, tokens: Sequence[int] | Tensor) -> ProductState:
        """The prefixes with one more token each; one that is not allowed makes its row dead."""
        chosen = [int(token) for token in tokens]
        if len(chosen) != len(self._rows):
            raise InvalidParameterError(
                f"advance needs one token for each of the {len(self._rows)} rows, but got "
                f"{len(chosen)}"
            )
        old, number = self._distinct
        made: dict[tuple[int, int], int] = {}
        places = [made.setdefault(key, len(made)) for key in zip(number, chosen)]
        pairs = list(made)
        for i, token in pairs:
            size = old[i].engine.model.vocab_size
            if not 0 <= token < size:
                raise VocabularyMismatchError(
                    f"tokens must lie in 0..{size - 1}, but {token} was given"
                )
        filters, log_steps = self._filters(pairs)
        rows = [
            _advanced(old[i], token, filters[at], log_steps[at])
            for at, (i, token) in enumerate(pairs)
        ]
        return ProductState([rows[place] for place in places])

    def select(self, rows: Sequence[int] | Tensor) -> ProductState:
        """Rows by number: repeated, dropped, in any order."""
        chosen = [int(row) for row in rows]
        wrong = [row for row in chosen if not 0 <= row < len(self._rows)]
        if wrong:
            raise InvalidParameterError(
                f"rows must lie in 0..{len(self._rows) - 1}, but {wrong[:5]} were given"
            )
        return ProductState([self._rows[row] for row in chosen])

    # -- what rows share ----------------------------------------------------------------------

    @cached_property
    def _distinct(self) -> tuple[list[Row], list[int]]:
        """The different rows, and the number of each row among them."""
        made: dict[int, int] = {}
        number = [made.setdefault(id(row), len(made)) for row in self._rows]
        distinct: list[Row] = [self._rows[number.index(i)] for i in range(len(made))]
        return distinct, number

    @cached_property
    def _models(self) -> list[tuple[ModelTables, list[int]]]:
        """The models, and the distinct rows of each."""
        members: dict[int, tuple[ModelTables, list[int]]] = {}
        for i, row in enumerate(self._distinct[0]):
            members.setdefault(id(row.engine.model), (row.engine.model, []))[1].append(i)
        return list(members.values())

    @cached_property
    def _predicted(self) -> list[Tensor]:
        """p(z_{t+1} | x_{1:t}) of each distinct row, (H,)."""
        rows = self._distinct[0]
        result: list[Tensor] = [torch.empty(0)] * len(rows)
        for model, members in self._models:
            later: list[Tensor] = []
            for i in members:
                given = rows[i].filter
                if given is None:
                    result[i] = model.initial
                else:
                    later.append(given)
            if later:
                moved = iter(model.forward(torch.stack(later)))
                for i in members:
                    if rows[i].filter is not None:
                        result[i] = next(moved)
        return result

    def _next_marginals(self, tokens: Tensor | None) -> Tensor:
        """p_hmm(next token | x_{1:t}) at the columns of candidates, (k, m)."""
        number = self._distinct[1]
        predicted = self._predicted
        parts: dict[int, Tensor] = {}
        for model, members in self._models:
            asked, place = None, None
            if tokens is not None:
                rows = [number.index(i) for i in members]
                asked, place = tokens[rows].unique(return_inverse=True)
            emission = model.rows if asked is None else model.rows[asked.to(model.device)]
            filters = torch.stack([predicted[i] for i in members])
            with torch.no_grad():
                found = filters @ emission.to(filters.dtype).mT
            if place is not None:
                found = found.gather(1, place.to(found.device))
            parts |= dict(zip(members, found))
        return torch.stack([parts[i] for i in number])

    def _filters(self, pairs: Sequence[tuple[int, int]]) -> tuple[list[Tensor], list[float]]:
        """The filter of each (distinct row, token), and log p(token | prefix)."""
        filters: list[Tensor] = [torch.empty(0)] * len(pairs)
        log_steps = [0.0] * len(pairs)
        for model, members in self._models:
            inside = set(members)
            chosen = [at for at, (i, _) in enumerate(pairs) if i in inside]
            tokens = torch.tensor([pairs[at][1] for at in chosen], device=model.device)
            before = torch.stack([self._predicted[pairs[at][0]] for at in chosen])
            joint = before.double() * model.rows[tokens].double()
            total = joint.sum(1, keepdim=True)
            after = (joint / total.where(total > 0, 1)).to(model.dtype)
            for at, vector, mass in zip(chosen, after, total.flatten().tolist()):
                filters[at] = vector
                log_steps[at] = math.log(mass) if mass > 0 else -math.inf
        return filters, log_steps

    def _vector(self, values: list[float]) -> Tensor:
        device = self._rows[0].engine.model.device if self._rows else None
        return torch.tensor(values, dtype=torch.float64, device=device)

    def __repr__(self) -> str:
        return f"ProductState({len(self._rows)} rows, remaining {self.remaining.tolist()})"


def start_batch(items: Sequence[tuple[ProductEngine, int]]) -> ProductState:
    """Several constraints and budgets in one batch, one row for each (engine, budget).

    Raises:
        EmptyLanguageError: A budget is too small; names one that is not.
    """
    made: dict[tuple[int, int], Row] = {}
    for engine, budget in items:
        key = (id(engine), int(budget))
        if key not in made:
            live = engine.first_live(int(budget))
            made[key] = Row(engine, live, np.zeros(len(live.states)), None, 0.0, int(budget))
    for engine, budget in sorted(items, key=lambda item: -item[1]):
        engine.prepare(int(budget))
    return ProductState([made[id(engine), int(budget)] for engine, budget in items])


def _advanced(row: Row, token: int, vector: Tensor, log_step: float) -> Row:
    graph, remaining = row.engine.graph, row.remaining - 1
    live, log_counts = row.engine.live_sets.dead, row.log_counts[:0]
    if remaining >= 0 and not row.is_dead:
        move = row.live.move(int(graph.token_class[token]))
        if graph.is_alive(move.target.states, remaining):
            live = move.target
            log_counts = np.full(len(live.states), -np.inf)
            np.logaddexp.at(log_counts, move.to, row.log_counts[move.place])
    return Row(row.engine, live, log_counts, vector, row.log_prefix + log_step, max(remaining, 0))


def _log_lookahead(row: Row) -> float:
    graph = row.engine.graph
    if not graph.is_alive(row.live.states, row.remaining):
        return -math.inf
    if row.filter is None:
        return row.engine.log_mass(row.remaining)
    if row.log_prefix == -math.inf:
        return 0.0
    slot = graph.alive(row.remaining).slot[row.live.states]
    kept = np.flatnonzero(slot >= 0)
    level = row.engine.level(row.remaining)
    dots = (level.rows[slot[kept]].double() @ row.filter.double()).cpu().numpy()
    with np.errstate(divide="ignore"):
        logs = np.log(dots) + level.log_scale[slot[kept]] + row.log_counts[kept]
    result = float(np.logaddexp.reduce(logs))
    return result if result > -math.inf else LOG_SMALLEST
