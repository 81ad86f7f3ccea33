"""Mixtures and multiples of chains, which are chains themselves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch

from pcgcd.circuits.chain import Chain, ChainOperators, check_together
from pcgcd.circuits.layers import OperatorMap
from pcgcd.circuits.operators import Multiple, block_diagonal, compose, side_by_side, stacked


class ChainMixture(Chain):
    """``sum_i weights[i] * operands[i]``: one chain whose hidden units are those of all operands.

    A path stays in the units of one operand, so transitions are block-diagonal; all is lazy.

    Attributes:
        operands: The chains, mixtures among them opened up.
        weights: The weight of each; those of opened mixtures are multiplied.
    """

    def __init__(self, operands: Sequence[Chain], weights: Sequence[float]) -> None:
        check_together("mix", operands)
        opened = [
            (part, weight * share)
            for operand, weight in zip(operands, weights)
            for part, share in _opened(operand)
        ]
        self.operands: tuple[Chain, ...] = tuple(part for part, _ in opened)
        self.weights: tuple[float, ...] = tuple(weight for _, weight in opened)

    @cached_property
    def operators(self) -> ChainOperators:
        each = [operand.operators for operand in self.operands]
        return ChainOperators(
            initial=side_by_side(
                [compose(Multiple(w, 1), part.initial) for w, part in zip(self.weights, each)]
            ),
            transition=block_diagonal([part.transition for part in each]),
            emission=stacked([part.emission for part in each]),
            final=block_diagonal([part.final for part in each]),
        )

    @property
    def weighs_by_paths(self) -> bool:
        return any(operand.weighs_by_paths for operand in self.operands)

    def map_operators(self, operator_map: OperatorMap) -> ChainMixture:
        return ChainMixture([o.map_operators(operator_map) for o in self.operands], self.weights)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> ChainMixture:
        return ChainMixture([o.to(device, dtype) for o in self.operands], self.weights)

    def __repr__(self) -> str:
        return " + ".join(f"{w:g} * ({o!r})" for w, o in zip(self.weights, self.operands))


def _opened(chain: Chain) -> list[tuple[Chain, float]]:
    if isinstance(chain, ChainMixture):
        return list(zip(chain.operands, chain.weights))
    return [(chain, 1.0)]
