"""Hidden Markov models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.circuits import (
    Chain,
    ChainOperators,
    Circuit,
    Dense,
    Identity,
    InputLayer,
    Monarch,
    Operator,
    ProductLayer,
    SumLayer,
)
from pcgcd.errors import CheckpointError, InvalidParameterError, StructuralPropertyError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pcgcd.hmm.copying import Copying
    from pcgcd.hmm.files.checkpoints import VocabularyLike

__all__ = ["HMM", "MonarchHMM"]

_TOLERANCE = 1e-3


def _check_distribution(name: str, weights: Tensor) -> None:
    sums = weights.detach().sum(-1)
    lowest = weights.detach().amin()
    if not bool(lowest >= 0) or not bool(torch.isfinite(sums).all()):
        raise InvalidParameterError(
            f"{name} must be probabilities, but has negative or undefined entries (smallest: "
            f"{float(lowest):g}); pass probabilities, not logarithms"
        )
    error = float((sums - 1).abs().max())
    if error > _TOLERANCE:
        raise InvalidParameterError(
            f"{name} must sum to 1 along its last axis, but is off by up to {error:g}; normalise "
            "it, or pass validate=False to use unnormalised weights"
        )


class _HiddenMarkovChain(Chain):
    """What the two kinds of HMM share."""

    initial: Tensor
    emission: Tensor
    copying: Copying | None

    def given(self, prompt: Iterable[int]) -> Self:
        """The model of answers to a prompt, which repeat some of its tokens.

        Args:
            prompt: The tokens of the prompt.

        Returns:
            An HMM with other emissions; this one if it has no :attr:`copying`.
        """
        if self.copying is None:
            return self
        return self.with_emission(self.copying.emission(self.emission, prompt))

    def with_emission(self, emission: Tensor, copying: Copying | None = None) -> Self:
        """The same initial and transition probabilities with other emissions, (H, V)."""
        raise NotImplementedError

    @property
    def num_hidden(self) -> int:
        """The number of hidden states H."""
        return int(self.initial.shape[0])

    def _chain_operators(self, transition: Operator) -> ChainOperators:
        return ChainOperators(
            initial=Dense(self.initial.unsqueeze(0)),
            transition=transition,
            emission=Dense(self.emission),
            final=Identity(self.num_hidden),
        )

    def _check_shapes(self, num_hidden: int) -> None:
        if self.initial.shape != (num_hidden,) or self.emission.dim() != 2:
            raise InvalidParameterError(
                "an HMM needs an initial vector (H,) and an emission matrix (H, V), but got "
                f"{tuple(self.initial.shape)} and {tuple(self.emission.shape)}; H is {num_hidden}"
            )
        if self.emission.shape[0] != num_hidden or num_hidden < 1:
            raise InvalidParameterError(
                f"the emission has {self.emission.shape[0]} rows, but there are {num_hidden} "
                "hidden states"
            )
        copying = self.copying
        if copying is not None and (len(copying.rates), len(copying.weights)) != (
            num_hidden,
            self.emission.shape[1],
        ):
            raise InvalidParameterError(
                f"copying has {len(copying.rates)} rates and {len(copying.weights)} weights, but "
                f"there are {num_hidden} hidden states and {self.emission.shape[1]} tokens"
            )

    def save_pretrained(
        self,
        folder: str | os.PathLike[str],
        *,
        emission_dtype: torch.dtype | str | None = None,
        vocabulary: VocabularyLike | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the model to a folder; see :func:`pcgcd.hmm.files.checkpoints.save_hmm`."""
        from pcgcd.hmm.files.checkpoints import save_hmm

        if not isinstance(self, HMM | MonarchHMM):
            raise InvalidParameterError(
                f"only HMMs can be saved, but this is {type(self).__name__}"
            )
        return save_hmm(
            self, folder, emission_dtype=emission_dtype, vocabulary=vocabulary, facts=facts
        )

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str],
        *,
        vocabulary: VocabularyLike | str | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Read a model of this kind; see :func:`pcgcd.hmm.files.checkpoints.load_hmm`.

        Raises:
            CheckpointError: There is no model, or one of another kind.
        """
        from pcgcd.hmm.files.checkpoints import load_hmm

        hmm = load_hmm(source, vocabulary=vocabulary, dtype=dtype, device=device)
        if not isinstance(hmm, cls):
            raise CheckpointError(
                f"this is a {type(hmm).__name__}, not a {cls.__name__}; read it with "
                f"{type(hmm).__name__}.from_pretrained, or either kind with load_hmm"
            )
        return hmm

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_hidden={self.num_hidden}, vocab_size={self.vocab_size}, "
            f"dtype={self.emission.dtype})"
        )


class HMM(_HiddenMarkovChain):
    """A hidden Markov model (Def. 4.1), a circuit for every length.

    Attributes:
        initial: p(z_1), (H,).
        transition: p(z_{t+1} | z_t), (H, H), rows sum to one.
        emission: p(x_t | z_t), (H, V), rows sum to one.
        copying: How answers repeat their prompt, for :meth:`given`; None if that was not learnt.
            As a circuit, the model is the one without a prompt.

    >>> hmm = HMM(
    ...     torch.tensor([0.5, 0.5]),
    ...     torch.tensor([[0.9, 0.1], [0.2, 0.8]]),
    ...     torch.tensor([[0.7, 0.3], [0.1, 0.9]]),
    ... )
    >>> hmm.log_value(torch.tensor([[0, 1]])).exp()
    tensor([0.1650])
    >>> hmm.unroll(2)
    Circuit(5 layers over 2 variables, 9 units)
    """

    def __init__(
        self,
        initial: Tensor,
        transition: Tensor,
        emission: Tensor,
        *,
        copying: Copying | None = None,
        validate: bool = True,
    ) -> None:
        """Hold the three tensors; they are not copied, and gradients reach them.

        Args:
            initial: (H,).
            transition: (H, H).
            emission: (H, V).
            copying: How answers repeat their prompt.
            validate: Check that these are probabilities (on a GPU, this synchronises).
        """
        self.initial, self.transition, self.emission = initial, transition, emission
        self.copying = copying
        self._check_shapes(int(initial.numel()))
        if transition.shape != (self.num_hidden, self.num_hidden):
            raise InvalidParameterError(
                f"the transition must have shape {(self.num_hidden, self.num_hidden)}, but has "
                f"{tuple(transition.shape)}"
            )
        if validate:
            _check_distribution("initial", initial)
            _check_distribution("transition", transition)
            _check_distribution("emission", emission)

    @cached_property
    def operators(self) -> ChainOperators:
        """See :class:`pcgcd.circuits.Chain`."""
        return self._chain_operators(Dense(self.transition))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> HMM:
        """The same model with its tensors elsewhere, or in another floating type."""
        return HMM(
            self.initial.to(device=device, dtype=dtype),
            self.transition.to(device=device, dtype=dtype),
            self.emission.to(device=device, dtype=dtype),
            copying=None if self.copying is None else self.copying.to(device, dtype),
            validate=False,
        )

    def with_emission(self, emission: Tensor, copying: Copying | None = None) -> HMM:
        """The same initial and transition probabilities with other emissions, (H, V)."""
        return HMM(self.initial, self.transition, emission, copying=copying, validate=False)

    @classmethod
    def random(
        cls,
        num_hidden: int,
        vocab_size: int,
        *,
        concentration: float = 1.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> HMM:
        """An HMM with Dirichlet parameters; a small concentration gives peaked ones."""

        def rows(*shape: int) -> Tensor:
            alpha = torch.full(shape, concentration, dtype=torch.float64)
            draws = torch._standard_gamma(alpha, generator).clamp(min=1e-30)
            return (draws / draws.sum(-1, keepdim=True)).to(dtype)

        return cls(rows(num_hidden), rows(num_hidden, num_hidden), rows(num_hidden, vocab_size))

    @classmethod
    def from_circuit(cls, circuit: Circuit) -> HMM:
        """Read an HMM back from a chain-shaped circuit with tied steps.

        Raises:
            StructuralPropertyError: The circuit is no homogeneous HMM; says where it differs.
        """
        initial, transitions, emissions = _read_chain(circuit)
        transition, emission = transitions[0], emissions[0]
        for name, first, others in (
            ("transition", transition, transitions),
            ("emission", emission, emissions),
        ):
            for step, other in enumerate(others):
                if other.shape != first.shape or not torch.equal(other, first):
                    raise StructuralPropertyError(
                        f"this chain is not homogeneous: the {name} of step {step + 1} differs "
                        "from that of step 1; use it as a circuit"
                    )
        return cls(initial[0], transition, emission, validate=False)


def _read_chain(circuit: Circuit) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The dense parameters along sum -> (input x sum -> (input x ...)), variables in order."""
    weights: list[Tensor] = []
    emissions: list[Tensor] = []
    layer = circuit.root
    for step, variable in enumerate(circuit.variables):
        if not isinstance(layer, SumLayer) or len(layer.children) != 1:
            raise StructuralPropertyError(f"step {step + 1} is not a sum over one layer: {layer!r}")
        weights.append(layer.weights[0].to_dense())
        below = layer.children[0]
        last = step == circuit.num_variables - 1
        parts = below.children if isinstance(below, ProductLayer) else (below,)
        inputs = [part for part in parts if isinstance(part, InputLayer)]
        others = [part for part in parts if not isinstance(part, InputLayer)]
        if len(inputs) != 1 or len(others) != (not last) or inputs[0].variable != variable:
            raise StructuralPropertyError(
                f"step {step + 1} is not an input over variable {variable} and the rest of the "
                f"chain: {below!r}"
            )
        emissions.append(inputs[0].emission.to_dense())
        layer = others[0] if others else layer
    if len(weights) < 2:
        raise StructuralPropertyError("a chain of one step has no transition to read")
    return weights[0], weights[1:], emissions


class MonarchHMM(_HiddenMarkovChain):
    """An HMM whose transition is a Monarch matrix: H^(3/2) parameters in place of H^2.

    Attributes:
        initial: p(z_1), (H,), H = a * b.
        left: (a, b, b), rows sum to one.
        right: (b, a, a), rows sum to one.
        emission: p(x_t | z_t), (H, V), rows sum to one.
        copying: How answers repeat their prompt; see :class:`HMM`.
    """

    def __init__(
        self,
        initial: Tensor,
        left: Tensor,
        right: Tensor,
        emission: Tensor,
        *,
        copying: Copying | None = None,
        validate: bool = True,
    ) -> None:
        """Hold the four tensors; they are not copied, and gradients reach them."""
        self.initial, self.left, self.right, self.emission = initial, left, right, emission
        self.copying = copying
        self._transition = Monarch(left, right)
        self._check_shapes(self._transition.shape[0])
        if validate:
            for name in ("initial", "left", "right", "emission"):
                _check_distribution(name, getattr(self, name))

    @cached_property
    def operators(self) -> ChainOperators:
        """See :class:`pcgcd.circuits.Chain`."""
        return self._chain_operators(self._transition)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> MonarchHMM:
        """The same model with its tensors elsewhere, or in another floating type."""
        return MonarchHMM(
            self.initial.to(device=device, dtype=dtype),
            self.left.to(device=device, dtype=dtype),
            self.right.to(device=device, dtype=dtype),
            self.emission.to(device=device, dtype=dtype),
            copying=None if self.copying is None else self.copying.to(device, dtype),
            validate=False,
        )

    def to_dense(self) -> HMM:
        """The same model with its transition written out."""
        transition = self._transition.to_dense()
        return HMM(self.initial, transition, self.emission, copying=self.copying, validate=False)

    def with_emission(self, emission: Tensor, copying: Copying | None = None) -> MonarchHMM:
        """The same initial and transition probabilities with other emissions, (H, V)."""
        return MonarchHMM(
            self.initial, self.left, self.right, emission, copying=copying, validate=False
        )
