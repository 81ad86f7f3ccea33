"""The settings of a distillation, checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pcgcd.errors import InvalidParameterError
from pcgcd.learning.em.fit import EMEngine

__all__ = ["Fitting", "Method", "Sampling", "Start", "Transition"]

Transition: TypeAlias = Literal["dense", "monarch"]
Method: TypeAlias = Literal["random", "lvd"]


def check_whole(name: str, value: object, least: int) -> None:
    """Raise an error unless a value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidParameterError(
            f"{name} must be a whole number of at least {least}, but is {value!r}"
        )


def check_one_of(name: str, value: object, *known: str) -> None:
    """Raise an error unless a value is one of those known."""
    if value not in known:
        shown = " or ".join(f'"{other}"' for other in known)
        raise InvalidParameterError(f"{name} must be {shown}, but is {value!r}")


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn; see :func:`~pcgcd.learning.distillation.sampling.sample`."""

    samples: int = 10_000
    length: int = 32
    batch_size: int = 64
    shard_size: int = 256
    group: int = 1

    def __post_init__(self) -> None:
        for name in ("samples", "length", "batch_size", "shard_size", "group"):
            check_whole(name, getattr(self, name), 1)
        if self.shard_size % self.group:
            raise InvalidParameterError(
                f"shard_size must be a multiple of group, but they are {self.shard_size} and "
                f"{self.group}"
            )


@dataclass(frozen=True)
class Start:
    """Where fitting starts; see :func:`~pcgcd.learning.distillation.starts.initialise`."""

    num_hidden: int = 256
    transition: Transition = "dense"
    method: Method = "random"
    max_samples: int = 2048

    def __post_init__(self) -> None:
        check_whole("num_hidden", self.num_hidden, 2)
        check_whole("max_samples", self.max_samples, 1)
        check_one_of("transition", self.transition, "dense", "monarch")
        check_one_of("method", self.method, "random", "lvd")
        if self.transition == "monarch":
            monarch_blocks(self.num_hidden)


def monarch_blocks(num_hidden: int) -> tuple[int, int]:
    """The (a, b) of a Monarch transition: as square as possible, with a * b = H and a >= b.

    Raises:
        InvalidParameterError: The number is prime.

    >>> monarch_blocks(16384), monarch_blocks(12)
    ((128, 128), (4, 3))
    """
    root = math.isqrt(max(num_hidden, 1))
    b = max(d for d in range(1, root + 1) if num_hidden % d == 0)
    if b == 1:
        squares = sorted({max(2, root) ** 2, (root + 1) ** 2})
        raise InvalidParameterError(
            "the number of hidden states of a Monarch transition must be a product, best a square, "
            f"but is {num_hidden}; take {' or '.join(map(str, squares))}"
        )
    return num_hidden // b, b


@dataclass(frozen=True)
class Fitting:
    """How the model is fitted; see :func:`pcgcd.learning.em.fit.fit`.

    Attributes:
        held_out: The share of prompts (or samples) that fitting never sees.
        smooth: Smooth the emissions in the end with what the language model predicts; it reads all
            samples once more. See :func:`~pcgcd.learning.distillation.smoothing.smooth`.
        copy: Learn from the held-out samples how answers repeat their prompts. See
            :func:`~pcgcd.learning.distillation.copying.learn_copying`.
        engine: Whose EM: "own" or "pyjuice".
    """

    epochs: int = 20
    batch_size: int = 256
    step_size: float = 1.0
    pseudocount: float = 0.1
    dropout: float = 0.0
    patience: int | None = 3
    held_out: float = 0.1
    smooth: bool = False
    copy: bool = True
    checkpoint_seconds: float = 300.0
    engine: EMEngine = "own"

    def __post_init__(self) -> None:
        check_whole("epochs", self.epochs, 0)
        check_whole("batch_size", self.batch_size, 1)
        check_whole("patience", 1 if self.patience is None else self.patience, 1)
        check_one_of("engine", self.engine, "own", "pyjuice")
        for name, value, said, right in (
            ("step_size", self.step_size, "in (0, 1]", 0 < self.step_size <= 1),
            ("pseudocount", self.pseudocount, "0 or more", 0 <= self.pseudocount < math.inf),
            ("dropout", self.dropout, "in [0, 1)", 0 <= self.dropout < 1),
            ("held_out", self.held_out, "in [0, 1)", 0 <= self.held_out < 1),
        ):
            if not right:
                raise InvalidParameterError(f"{name} must be {said}, but is {value:g}")
        if self.smooth and not self.held_out:
            raise InvalidParameterError(
                "smoothing chooses its strength by samples that are held out, but held_out is 0; "
                "hold some out, or do not smooth"
            )
