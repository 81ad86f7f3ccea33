"""The engine of any other circuit: a tree times a constraint, a chain of many kinds of steps.

The messages of a layered graph are kept as long as they stay true. A unit's value depends on the
tokens inside its scope, the flow into it on those outside; a new token touches only what it
concerns. So what lies in the future is summed out once for all prefixes, and a chain needs a
constant number of layers for each token.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata import FiniteAutomaton
from pcgcd.circuits import CircuitLike, circuit_product
from pcgcd.circuits.circuit import Circuit
from pcgcd.circuits.frozen import Frozen
from pcgcd.circuits.layers import InputLayer, Layer
from pcgcd.circuits.properties import require_tractable
from pcgcd.circuits.semirings import REAL, Scaled
from pcgcd.engine.candidates import Candidates
from pcgcd.engine.graph import Graph
from pcgcd.engine.prefix_engine import PrefixEngine, everything
from pcgcd.engine.state import LOG_SMALLEST, PrefixState, with_support
from pcgcd.engine.tracks import GraphTrack, check_budget
from pcgcd.errors import InvalidParameterError

_KEPT_LENGTHS = 4


class LayeredEngine(PrefixEngine):
    """``guide * automaton`` for a guide of any structure, in general queries made incremental."""

    def __init__(self, guide: CircuitLike, automaton: FiniteAutomaton | None) -> None:
        """Join the two; nothing is computed yet.

        Args:
            guide: Any smooth and decomposable circuit, of one length or of all.
            automaton: What constrains it, if anything does.
        """
        self._guide, self._automaton = guide, automaton
        self.graph = Graph.of(automaton or everything(guide.vocab_size))
        self._lengths: dict[int, tuple[_Plan, _Plan]] = {}

    def check(self, budget: int) -> None:
        check_budget(self.graph, budget)
        if isinstance(self._guide, Circuit) and budget != self._guide.num_variables:
            raise InvalidParameterError(
                f"this circuit is over {self._guide.num_variables} tokens, so that is its budget, "
                f"but {budget} was asked for"
            )

    def start_rows(self, budget: int, count: int) -> LayeredState:
        """So many rows before the first token."""
        whole, free = self._plans(budget)
        track = GraphTrack.start(self.graph, budget)
        parts = (_Messages.start(whole, count), _Messages.start(free, count))
        zeros = torch.zeros(count, dtype=torch.float64)
        return LayeredState(
            (track,) * count, parts[0], parts[1] if free is not whole else None, zeros
        )

    def _plans(self, length: int) -> tuple[_Plan, _Plan]:
        """The graphs of that length, of the product and of the guide alone."""
        if length not in self._lengths:
            if len(self._lengths) >= _KEPT_LENGTHS:
                self._lengths.pop(next(iter(self._lengths)))
            free = _Plan(self._guide.unroll(length))
            whole = free
            if self._automaton is not None:
                whole = _Plan(circuit_product(self._guide, self._automaton).unroll(length))
            self._lengths[length] = (whole, free)
        return self._lengths[length]

    def __repr__(self) -> str:
        return f"LayeredEngine({self._guide!r}, {self._automaton!r})"


class _Plan:
    """A layered graph, and what all prefixes share: values of units whose tokens are to come.

    Attributes:
        circuit: The graph.
        parents: The layers above each layer.
        inputs: The input layers of each variable, in the order of the tokens.
        values: The values of layers with all their tokens summed out, made when first asked for.
    """

    def __init__(self, circuit: Circuit) -> None:
        require_tractable(circuit, "decoding")
        self.circuit = circuit
        self.real = REAL.with_dtype(circuit.dtype)
        self.order = {layer: i for i, layer in enumerate(circuit.layers)}
        self.parents: dict[Layer, list[Layer]] = {layer: [] for layer in circuit.layers}
        for layer in circuit.layers:
            for child in layer.children:
                self.parents[child].append(layer)
        self.inputs: list[list[InputLayer]] = [[] for _ in circuit.variables]
        self.column = {variable: t for t, variable in enumerate(circuit.variables)}
        for layer in circuit.inputs:
            self.inputs[self.column[layer.variable]].append(layer)
        self.values: dict[Layer, Scaled] = {}

    @cached_property
    def seen(self) -> list[int]:
        """The variables of the first t tokens as bits of a scope, for every t."""
        bits = [0]
        for variable in self.circuit.variables:
            bits.append(bits[-1] | 1 << variable)
        return bits


class _Messages(Frozen):
    """Values and flows that are true of k prefixes of t tokens.

    Attributes:
        plan: The graph.
        tokens: The prefixes, (k, t).
    """

    def __init__(
        self,
        plan: _Plan,
        tokens: Tensor,
        values: dict[Layer, Scaled],
        flows: dict[Layer, Scaled],
    ) -> None:
        self.plan, self.tokens = plan, tokens
        # Filled while it is used: what is added follows from the rest.
        self._values, self._flows = values, flows

    @classmethod
    def start(cls, plan: _Plan, count: int) -> _Messages:
        """Before the first token."""
        nothing = torch.zeros(count, 0, dtype=torch.long, device=plan.circuit.device)
        return cls(plan, nothing, {}, {})

    def advance(self, tokens: Tensor) -> _Messages:
        """With one more token each: forget what it changes."""
        variable = self.plan.circuit.variables[self.tokens.shape[1]]

        def concerns(layer: Layer) -> bool:
            return bool(layer.scope.bits >> variable & 1)

        return _Messages(
            self.plan,
            torch.cat([self.tokens, tokens.unsqueeze(1)], 1),
            {layer: value for layer, value in self._values.items() if not concerns(layer)},
            {layer: flow for layer, flow in self._flows.items() if concerns(layer)},
        )

    def select(self, rows: Tensor) -> _Messages:
        """Other rows."""
        real = self.plan.real

        def chosen(messages: dict[Layer, Scaled]) -> dict[Layer, Scaled]:
            return {
                layer: message if real.shape(message)[0] == 1 else real.take_rows(message, rows)
                for layer, message in messages.items()
            }

        values, flows = chosen(self._values), chosen(self._flows)
        return _Messages(self.plan, self.tokens[rows], values, flows)

    def scores(self) -> Scaled:
        """Return the mass of the texts that begin with the prefix and each token, (k, V)."""
        layers = self.plan.inputs[self.tokens.shape[1]]
        flows = self._flows_to(layers)
        real, result = self.plan.real, None
        for layer in layers:
            part = layer.emission.rmatvec(flows[layer], real)
            result = part if result is None else real.add(result, part)
        assert result is not None, "every variable has an input layer"
        return self._expanded(result)

    def mass(self) -> Tensor:
        """Return the log of the mass of the texts that begin with the prefix, (k,) float64."""
        layers = self.plan.inputs[min(self.tokens.shape[1], len(self.plan.inputs) - 1)]
        flows = self._flows_to(layers)
        real, result = self.plan.real, None
        for layer in layers:
            part = real.sum(real.mul(flows[layer], self._value(layer)))
            result = part if result is None else real.add(result, part)
        assert result is not None, "every variable has an input layer"
        return real.to_log(result).double().expand(len(self.tokens))

    def _expanded(self, x: Scaled) -> Scaled:
        count = len(self.tokens)
        return Scaled(x.mantissa.expand(count, -1), x.exponent.expand(count, -1))

    def _value(self, layer: Layer) -> Scaled:
        """The value of a layer's units, (k or 1, units), on an explicit stack."""
        stack = [layer]
        while stack:
            top = stack[-1]
            store = self._store(top)
            if top in store:
                stack.pop()
                continue
            missing = [child for child in top.children if child not in self._store(child)]
            if missing:
                stack += missing
                continue
            store[top] = self._computed(top)
            stack.pop()
        return self._store(layer)[layer]

    def _store(self, layer: Layer) -> dict[Layer, Scaled]:
        """Where a layer's value is kept: with all prefixes if none of its tokens is known."""
        seen = self.plan.seen[self.tokens.shape[1]]
        return self._values if layer.scope.bits & seen else self.plan.values

    def _computed(self, layer: Layer) -> Scaled:
        real = self.plan.real
        if isinstance(layer, InputLayer) and self._store(layer) is self._values:
            return layer.observed(self.tokens[:, self.plan.column[layer.variable]], real)
        below = [self._store(child)[child] for child in layer.children]
        return layer.up(below, real)

    def _flows_to(self, targets: Sequence[Layer]) -> dict[Layer, Scaled]:
        """The flows into some layers, from those above that are still true."""
        plan, real = self.plan, self.plan.real
        root = plan.circuit.root
        known = dict(self._flows)
        known.setdefault(root, real.lift(self.tokens.new_ones((1, 1))))
        wanted: set[Layer] = set()
        stack = [layer for layer in targets if layer not in known]
        while stack:
            layer = stack.pop()
            if layer not in wanted:
                wanted.add(layer)
                stack += [above for above in plan.parents[layer] if above not in known]
        above = {parent for layer in wanted for parent in plan.parents[layer]}
        for layer in sorted(above, key=plan.order.__getitem__, reverse=True):
            needs = layer.down_needs_values
            below: list[Any] = [self._value(c) if needs else None for c in layer.children]
            for child, part in zip(layer.children, layer.down(known[layer], below, real)):
                if child in wanted:
                    known[child] = real.add(known[child], part) if child in known else part
        # Only what was passed on the way is worth keeping: the next token is near.
        self._flows.clear()
        self._flows.update({layer: known[layer] for layer in {*above, *wanted, *targets}})
        return known


class LayeredState(PrefixState):
    """k prefixes of one length in one circuit."""

    def __init__(
        self,
        tracks: tuple[GraphTrack, ...],
        whole: _Messages,
        free: _Messages | None,
        log_unknown: Tensor,
    ) -> None:
        """Hold the messages of the product and of the guide alone; None if they are the same."""
        self._tracks, self._whole, self._free = tracks, whole, free
        self._log_unknown = log_unknown

    @property
    def tracks(self) -> tuple[GraphTrack, ...]:
        return self._tracks

    @cached_property
    def log_mass(self) -> Tensor:
        return self._whole.mass()

    @cached_property
    def log_prefix(self) -> Tensor:
        return self.log_mass if self._free is None else self._free.mass()

    def _unknown_log_lookahead(self) -> Tensor:
        return self._log_unknown

    def _scored(self, *, exactly: bool) -> Candidates:
        if not self.num_rows or not int(self.remaining[0]):
            nothing = torch.full((self.num_rows, self.vocab_size), -torch.inf)
            return Candidates(None, nothing)
        log_weights = _log_normalised(self._whole)
        if exactly:
            return Candidates(None, log_weights)
        mask = self.allowed().dense(self.vocab_size).to(log_weights.device)
        return Candidates(None, with_support(log_weights, mask > -torch.inf).float())

    def guide_log_probs(self, columns: Tensor | None) -> Tensor:
        rows = _log_normalised(self._free or self._whole)
        return rows if columns is None else rows.gather(1, columns.to(rows.device))

    def _advanced(self, tokens: list[int]) -> LayeredState:
        if self.num_rows and not int(self.remaining[0]):
            raise InvalidParameterError("the texts are complete: no token can follow")
        given = torch.tensor(tokens, dtype=torch.long, device=self._whole.tokens.device)
        free = None if self._free is None else self._free.advance(given)
        unknown = self._log_unknown
        later = LayeredState(
            tuple(track.advance(token) for track, token in zip(self._tracks, tokens)),
            self._whole.advance(given),
            free,
            unknown,
        )
        lost = later.log_prefix.isneginf() & ~self.log_prefix.isneginf()
        if bool(lost.any()):
            before = (self.log_mass - self.log_prefix).clamp(min=LOG_SMALLEST)
            unknown = torch.where(lost, before, unknown)
            later = LayeredState(later._tracks, later._whole, free, unknown)
        return later

    def _selected(self, rows: list[int]) -> LayeredState:
        index = torch.tensor(rows, dtype=torch.long, device=self._whole.tokens.device)
        return LayeredState(
            tuple(self._tracks[row] for row in rows),
            self._whole.select(index),
            None if self._free is None else self._free.select(index),
            self._log_unknown[index.cpu()],
        )


def _log_normalised(messages: _Messages) -> Tensor:
    """The log of p(next token | prefix), (k, V); -inf throughout without mass."""
    real, scores = messages.plan.real, messages.scores()
    mass = real.sum(scores)
    one = real.lift(torch.ones_like(mass.mantissa))
    safe = real.where(mass.mantissa > 0, mass, one)
    return real.to_log(real.div(scores, real.reshape(safe, (-1, 1))))
