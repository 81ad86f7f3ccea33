"""What extensions must keep to: parts of decoding of a user's own, checked as they are used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.decoding.next_step import NextStep
from pcgcd.engine.candidates import Candidates
from pcgcd.errors import InvalidParameterError
from pcgcd.lm import LanguageModel
from pcgcd.lm.base import checked_log_probs

# How far the logarithm of a row's sum may be from zero: what half precision loses.
_TOLERANCE = 1e-3


def check_language_model(lm: Any) -> None:
    """Refuse what is no language model, or does not say what its tokens stand for."""
    _check_members(lm, ("log_probs", "start", "encode"), "a language model", "LanguageModel")
    vocabulary = getattr(lm, "vocabulary", None)
    if not isinstance(vocabulary, Vocabulary):
        raise InvalidParameterError(
            f"{type(lm).__name__} must have an attribute vocabulary, a pcgcd.Vocabulary, but has "
            f"{vocabulary!r:.60}; set self.vocabulary, for instance to "
            "Vocabulary.from_tokenizer(tokenizer)"
        )


def check_session(session: Any) -> None:
    """Refuse what is no batch of growing prefixes."""
    members = ("log_probs", "advance", "reindex")
    _check_members(session, members, "what a language model's start returns", "LMSession")


def _check_members(thing: Any, members: Sequence[str], what: str, base: str) -> None:
    missing = [name for name in members if not callable(getattr(thing, name, None))]
    if missing:
        raise InvalidParameterError(
            f"{what} has the methods {', '.join(members)}, but {type(thing).__name__} lacks "
            f"{', '.join(missing)}; inherit from pcgcd.lm.{base}"
        )


def check_log_probs(found: Any, count: int, lm: LanguageModel, *, normalised: bool) -> Tensor:
    """Refuse other than a row for each of the prefixes.

    Args:
        found: What the session returned.
        count: The number of prefixes.
        lm: The language model.
        normalised: Whether to refuse rows that are no distributions, too: a pass over all.
    """
    rows = checked_log_probs(found, count, lm.vocabulary.logits_size)
    if not normalised:
        return rows
    totals = rows.to(torch.promote_types(rows.dtype, torch.float32)).logsumexp(-1)
    wrong = (~(totals.abs() <= _TOLERANCE)).nonzero().flatten().tolist()
    if wrong:
        total = float(totals[wrong[0]])
        sums = "has NaN or +inf" if not total < math.inf else f"sums to exp({total:.4g})"
        raise InvalidParameterError(
            f"log_probs of {type(lm).__name__} must return logarithms of probabilities that sum "
            f"to 1 in each row, but row {wrong[0]} {sums}; return "
            "torch.log_softmax(logits.float(), dim=-1)"
        )
    return rows


def needs_guide(part: Any, kind: str, method: str) -> bool:
    """Return whether a proposal or a potential needs a guide; one that does not say needs none.

    Args:
        part: The proposal or potential.
        kind: What it is called in errors.
        method: The method that it must have.
    """
    if not callable(getattr(part, method, None)):
        raise InvalidParameterError(
            f"a {kind} is a name or an object with a method {method}, but got {part!r}; see "
            f"pcgcd.decoding.{kind.capitalize()}"
        )
    return bool(getattr(part, "needs_guide", False))


def check_candidates(found: Any, step: NextStep, proposal: Any) -> Candidates:
    """Refuse what is no candidates for each row over the step's vocabulary."""
    count, vocab_size = step.log_probs.shape
    if not isinstance(found, Candidates):
        raise InvalidParameterError(
            f"{proposal!r}.weigh must return Candidates(tokens, log_weights), but returned a "
            f"{type(found).__name__}"
        )
    width = found.log_weights.shape[1]
    if found.num_rows != count or (found.tokens is None and width != vocab_size):
        raise InvalidParameterError(
            f"{proposal!r}.weigh must return a row for each of the {count} prefixes, with "
            f"{vocab_size} columns or with named tokens, but returned {found.num_rows} rows of "
            f"{width} columns"
        )
    tokens = found.tokens
    if tokens is not None and tokens.numel():
        least, most = tokens.aminmax()
        if tokens.dtype != torch.long or least < 0 or most >= vocab_size:
            raise InvalidParameterError(
                f"{proposal!r}.weigh must name tokens by whole numbers (torch.long) from 0 to "
                f"{vocab_size - 1}, but named {tokens.dtype} from {least} to {most}"
            )
    return found


def check_support(step: NextStep, found: Candidates, proposal: Any) -> None:
    """Refuse a proposal that has nothing to draw where the target goes on.

    Args:
        step: What the proposal saw.
        found: What it found.
        proposal: The proposal.
    """
    rows = (found.log_weights == -torch.inf).all(1).nonzero().flatten().tolist()
    if not rows:
        return
    allowed = step.state.select(rows).allowed().to(step.log_probs.device)
    weights = allowed.log_weights + allowed.at(step.log_probs[rows])
    going = (weights > -torch.inf).any(1).nonzero().flatten().tolist()
    if going:
        raise InvalidParameterError(
            f"{proposal!r} gives no token any weight in row {rows[going[0]]}, although the "
            "constraint allows tokens that the language model gives probability; a proposal must "
            "give weight to every token with which the target goes on (step.allowed() names them)"
        )


def check_log_twist(found: Any, count: int, potential: Any) -> Tensor:
    """Refuse what is no number for each row; give back a copy in float64 on the CPU."""
    if not isinstance(found, Tensor) or found.shape != (count,):
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InvalidParameterError(
            f"{potential!r}.log_twist must return a tensor of {count} numbers, one for each "
            f"prefix, but returned {shape}"
        )
    result = found.detach().double().cpu().clone()
    if bool((result.isnan() | (result == torch.inf)).any()):
        raise InvalidParameterError(
            f"{potential!r}.log_twist returned NaN or +inf; the logarithm of a potential is a "
            "number, or -inf for a prefix that cannot be completed"
        )
    return result


def check_ancestors(found: Any, weights: Tensor, method: Any) -> list[int]:
    """Refuse what does not name a particle with weight for each place.

    Args:
        found: What the resampler returned.
        weights: The weights of the particles, (k,).
        method: The resampler.
    """
    name, count = getattr(method, "__name__", repr(method)), len(weights)
    chosen = found.tolist() if hasattr(found, "tolist") else found
    if not isinstance(chosen, list | tuple) or len(chosen) != count:
        size = len(chosen) if hasattr(chosen, "__len__") else f"a {type(chosen).__name__}"
        raise InvalidParameterError(
            f"the resampler {name} must return the ancestor of each of the {count} particles, but "
            f"returned {size}"
        )
    if not all(isinstance(i, int) and 0 <= i < count for i in chosen):
        raise InvalidParameterError(
            f"the resampler {name} must return numbers of particles from 0 to {count - 1}, but "
            f"returned {chosen}"
        )
    alive = weights.tolist()
    dead = next((i for i in chosen if not alive[i]), None)
    if dead is not None:
        raise InvalidParameterError(
            f"the resampler {name} chose particle {dead}, whose weight is 0; a particle may be "
            "chosen in proportion to its weight only"
        )
    return list(chosen)
