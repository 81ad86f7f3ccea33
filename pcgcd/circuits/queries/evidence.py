"""Partially observed strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pcgcd.basics.numbers import TensorLike, as_tensor
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError

if TYPE_CHECKING:
    from pcgcd.circuits.circuit import Circuit

MISSING = -1


class Evidence(NamedTuple):
    """A checked batch of partial strings."""

    tokens: Tensor  # (batch, n), -1 where missing
    some: list[bool]  # for each variable, whether any row observes it
    every: list[bool]  # for each variable, whether all rows observe it
    column: dict[int, int]  # the column of each variable

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        return int(self.tokens.shape[0])


def as_tokens(tokens: TensorLike | None, device: torch.device) -> Tensor:
    """Return tokens as a tensor: of lists, a new one on the device; of None, an empty string."""
    found = as_tensor("tokens", [[]] if tokens is None else tokens)
    if found.dim() not in (1, 2):
        raise InvalidParameterError(
            f"expected tokens of shape (batch, length), but got {tuple(found.shape)}"
        )
    if isinstance(tokens, Tensor):
        return tokens
    return found.to(device, None if found.numel() else torch.long)  # an empty list has no type


def read_evidence(circuit: Circuit, tokens: Tensor | None) -> Evidence:
    """Check tokens (batch, m <= n) against a circuit and pad them with "missing" to its length.

    Costs one synchronisation on a GPU: whether a variable is observed decides what is computed.
    """
    length = circuit.num_variables
    if tokens is None:
        tokens = torch.full((1, length), MISSING, device=circuit.device)
    if tokens.dim() != 2 or tokens.shape[1] > length:
        raise InvalidParameterError(
            f"expected tokens of shape (batch, at most {length}), but got {tuple(tokens.shape)}"
        )
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise InvalidParameterError(f"tokens must be integers, but are {tokens.dtype}")
    if tokens.device != circuit.device:
        raise InvalidParameterError(
            f"the tokens are on {tokens.device}, the circuit is on {circuit.device}; move one of "
            "them with .to(device)"
        )
    tokens = torch.nn.functional.pad(tokens.long(), (0, length - tokens.shape[1]), value=MISSING)
    sizes = torch.tensor([circuit.vocab_sizes[v] for v in circuit.variables], device=tokens.device)
    bad = ((tokens < MISSING) | (tokens >= sizes)).any(0)
    seen = tokens != MISSING
    wrong, some, every = torch.stack([bad, seen.any(0), seen.all(0)]).tolist()
    if any(wrong):
        column = wrong.index(True)
        raise VocabularyMismatchError(
            f"tokens of variable {circuit.variables[column]} must lie in "
            f"0..{int(sizes[column]) - 1} (or be -1 for missing), but "
            f"{sorted(set(tokens[:, column].tolist()))[:10]} were given"
        )
    columns = {variable: column for column, variable in enumerate(circuit.variables)}
    return Evidence(tokens, some, every, columns)
