"""Values, partition functions, marginals, conditionals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.circuits.properties import no_mass, require_possible, require_tractable
from pcgcd.circuits.queries.evidence import MISSING, Evidence, read_evidence
from pcgcd.circuits.queries.passes import downward, upward
from pcgcd.circuits.semirings import REAL, Scaled, Semiring, Value
from pcgcd.errors import ImpossibleEvidenceError, InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit

# The semiring of a call that names none.
DEFAULT: Any = REAL


def value(circuit: Circuit, x: Tensor | None, semiring: Semiring[Value] = DEFAULT) -> Value:
    """Return the root's value (batch,) in any semiring, missing tokens summed out."""
    semiring = semiring.with_dtype(circuit.dtype)
    evidence = read_evidence(circuit, x)
    if not all(evidence.every):
        require_tractable(circuit, "summing out missing tokens")
    return _value(circuit, evidence, semiring)


def _value(circuit: Circuit, evidence: Evidence, semiring: Semiring[Value]) -> Value:
    root = upward(circuit, evidence, semiring, keep=(circuit.root,))[circuit.root]
    if semiring.shape(root)[0] != evidence.batch_size:  # nothing was observed: one row for all
        root = semiring.take_rows(root, evidence.tokens.new_zeros(evidence.batch_size))
    return semiring.reshape(root, (evidence.batch_size,))


def _read_complete(circuit: Circuit, x: Tensor, query: str) -> Evidence:
    evidence = read_evidence(circuit, x)
    if not all(evidence.every) and evidence.batch_size:
        raise InvalidParameterError(
            f"{query} needs every one of the {circuit.num_variables} tokens, but some are missing "
            "(-1, or past the end of x); use log_marginal to sum them out"
        )
    return evidence


def log_value(circuit: Circuit, x: Tensor) -> Tensor:
    """Logarithms of the values of x (batch, n), without a missing token."""
    evidence = _read_complete(circuit, x, "log_value")
    real = REAL.with_dtype(circuit.dtype)
    return real.to_log(_value(circuit, evidence, real))


def log_partition(circuit: Circuit) -> Tensor:
    """Logarithm of the sum of the values over all strings."""
    return REAL.with_dtype(circuit.dtype).to_log(value(circuit, None, REAL))[0]


def log_prob(circuit: Circuit, x: Tensor) -> Tensor:
    """Logarithms of the normalised values of x (batch, n), without a missing token."""
    _read_complete(circuit, x, "log_prob")
    return log_marginal(circuit, x)


def log_marginal(circuit: Circuit, x: Tensor) -> Tensor:
    """``log p(observed part)``; the quotient is taken before the logarithm, for precision."""
    real = REAL.with_dtype(circuit.dtype)
    mass = value(circuit, None, real)
    if not bool(mass.mantissa[0] > 0):
        raise no_mass(circuit)
    return real.to_log(real.div(value(circuit, x, real), mass))


def log_conditional(circuit: Circuit, x: Tensor, evidence: Tensor) -> Tensor:
    """``log p(x | evidence)`` for partial strings; exactly -inf where they contradict."""
    real = REAL.with_dtype(circuit.dtype)
    known = read_evidence(circuit, evidence).tokens
    asked = read_evidence(circuit, x).tokens
    asked, known = torch.broadcast_tensors(asked, known)
    given = value(circuit, known, real)
    require_possible(given.mantissa > 0, "evidence")
    clash = ((asked != known) & (asked != MISSING) & (known != MISSING)).any(-1)
    joint = value(circuit, torch.where(known == MISSING, asked, known), real)
    log_ratio = real.to_log(real.div(joint, given))
    return log_ratio.masked_fill(clash, float("-inf"))


def _token_scores(circuit: Circuit, evidence: Evidence, variables: list[int]) -> list[Scaled]:
    """For each variable, the value with it set to each token, others as observed (batch, V)."""
    real = REAL.with_dtype(circuit.dtype)
    targets = [layer for layer in circuit.inputs if layer.variable in variables]
    flows, _ = downward(circuit, evidence, real, targets)
    scores: dict[int, Scaled] = {}
    for layer in targets:
        part = layer.emission.rmatvec(flows[layer], real)
        known = scores.get(layer.variable)
        scores[layer.variable] = part if known is None else real.add(known, part)
    return [scores[variable] for variable in variables]


def next_token_log_probs(circuit: Circuit, prefix: Tensor) -> Tensor:
    """``log p(x_{t+1} | x_{1:t})``, (batch, V), each row normalised."""
    require_tractable(circuit, "next_token_log_probs")
    if prefix.dim() == 2 and prefix.shape[1] >= circuit.num_variables:
        raise InvalidParameterError(
            f"the prefix already has {prefix.shape[1]} of {circuit.num_variables} tokens; "
            "there is no next one"
        )
    real = REAL.with_dtype(circuit.dtype)
    evidence = read_evidence(circuit, prefix)
    variable = circuit.variables[prefix.shape[1]]
    (scores,) = _token_scores(circuit, evidence, [variable])
    scores = _expanded(scores, evidence.batch_size)
    mass = real.sum(scores)
    require_possible(mass.mantissa > 0, "prefix")
    return real.to_log(real.div(scores, real.reshape(mass, (-1, 1))))


def _expanded(x: Scaled, batch: int) -> Scaled:
    return Scaled(x.mantissa.expand(batch, -1), x.exponent.expand(batch, -1))


def token_marginals(circuit: Circuit, evidence: Tensor) -> Tensor:
    """``p(x_t = v | evidence)``, (batch, n, V); one-hot where a token is observed."""
    require_tractable(circuit, "token_marginals")
    vocab_size = circuit.vocab_size
    real = REAL.with_dtype(circuit.dtype)
    known = read_evidence(circuit, evidence)
    require_possible(_value(circuit, known, real).mantissa > 0, "evidence")
    columns = []
    scores = _token_scores(circuit, known, list(circuit.variables))
    for column, score in enumerate(scores):
        free = real.normalised(_expanded(score, known.batch_size))
        tokens = known.tokens[:, column]
        fixed = torch.nn.functional.one_hot(tokens.clamp(min=0), vocab_size).to(free.dtype)
        columns.append(torch.where((tokens >= 0)[:, None], fixed, free))
    return torch.stack(columns, dim=1)


def expected_token_counts(circuit: Circuit, evidence: Tensor) -> Tensor:
    """``sum_t p(x_t = v | evidence)``, (batch, V)."""
    return token_marginals(circuit, evidence).sum(1)


def unit_posteriors(circuit: Circuit, evidence: Tensor) -> list[Tensor]:
    """For each variable, how likely each unit of its input layers is used, (batch, units).

    For an HMM these are the posteriors of the hidden states. Where a variable has several input
    layers (mixtures), their units follow one another in the circuit's order.
    """
    require_tractable(circuit, "unit_posteriors")
    real = REAL.with_dtype(circuit.dtype)
    known = read_evidence(circuit, evidence)
    targets = list(circuit.inputs)
    flows, values = downward(circuit, known, real, targets, keep=targets)
    if not bool((values[circuit.root].mantissa > 0).all()):
        raise ImpossibleEvidenceError(
            "some row of the evidence has probability zero, so no unit can have produced it"
        )
    used: dict[int, list[Scaled]] = {variable: [] for variable in circuit.variables}
    for layer in targets:
        used[layer.variable].append(real.mul(flows[layer], values[layer]))
    found = [real.normalised(real.concat(parts)) for parts in used.values()]
    return [posterior.expand(known.batch_size, -1) for posterior in found]
