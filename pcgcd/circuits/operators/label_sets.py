"""Emissions of zeros and ones, factored through the few distinct token sets."""

from __future__ import annotations

from torch import Tensor

from pcgcd.circuits.operators.base import PLAIN, Operator
from pcgcd.circuits.semirings import Semiring, Value
from pcgcd.errors import InvalidParameterError


class LabelSets(Operator):
    """Which tokens each label admits, (labels, tokens), through classes of equivalent tokens.

    An automaton's emission matrix B_f (E x V) is huge and almost all repetition. Tokens that no
    label distinguishes form a class, so that

        B[label, token] = label_class[label, token_class[token]],

    and edges point at labels with a gather in front (see :func:`rowwise_kronecker`, which pulls
    it out). Nothing of size E x V exists.
    """

    def __init__(self, label_class: Tensor, token_class: Tensor) -> None:
        if label_class.dim() != 2 or token_class.dim() != 1:
            raise InvalidParameterError(
                "label sets need a (labels, classes) matrix and a (tokens,) vector, but got "
                f"shapes {tuple(label_class.shape)} and {tuple(token_class.shape)}"
            )
        self.label_class = label_class.bool()
        self.token_class = token_class

    @property
    def shape(self) -> tuple[int, int]:
        return self.label_class.shape[0], self.token_class.shape[0]

    @property
    def cost(self) -> int:
        return self.label_class.numel() + self.token_class.numel()

    def matvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        by_class = semiring.scatter(x, self.token_class, self.label_class.shape[1])
        return semiring.matmul(by_class, self.label_class)

    def rmatvec(self, x: Value, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.gather(semiring.matmul(x, self.label_class.mT), self.token_class)

    def rows(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.lift(self.label_class[index][:, self.token_class])

    def columns(self, index: Tensor, semiring: Semiring[Value] = PLAIN) -> Value:
        return semiring.lift(self.label_class[:, self.token_class[index]].mT)
