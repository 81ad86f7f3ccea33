"""The settings of a distillation, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.hmm import monarch_blocks
from pcgcd.learning.em.fit import EMEngine, check_fitting

Transition: TypeAlias = Literal["dense", "monarch"]
Method: TypeAlias = Literal["random", "lvd"]


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
            check_whole_number(name, getattr(self, name), 1)
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
        check_whole_number("num_hidden", self.num_hidden, 2)
        check_whole_number("max_samples", self.max_samples, 1)
        check_one_of("transition", self.transition, "dense", "monarch")
        check_one_of("method", self.method, "random", "lvd")
        if self.transition == "monarch":
            monarch_blocks(self.num_hidden)


@dataclass(frozen=True)
class Fitting:
    """How the model is fitted; see :func:`pcgcd.learning.em.fit.fit`.

    Attributes:
        held_out: The share of prompts (or samples) that fitting never sees.
        smooth: Smooth the emissions in the end with what the language model predicts; it reads
            samples once more. See :func:`~pcgcd.learning.distillation.smoothing.smooth`.
        smooth_samples: How many samples smoothing reads at most, evenly spread.
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
    smooth_samples: int = 4096
    copy: bool = True
    checkpoint_seconds: float = 300.0
    engine: EMEngine = "own"

    def __post_init__(self) -> None:
        check_fitting(self)
        check_whole_number("smooth_samples", self.smooth_samples, 1)
        if not 0 < self.step_size <= 1:
            raise InvalidParameterError(f"step_size must be in (0, 1], but is {self.step_size:g}")
        if not 0 <= self.held_out < 1:
            raise InvalidParameterError(f"held_out must be in [0, 1), but is {self.held_out:g}")
        if self.smooth and not self.held_out:
            raise InvalidParameterError(
                "smoothing chooses its strength by samples that are held out, but held_out is 0; "
                "hold some out, or do not smooth"
            )
