"""Hidden Markov models with a dense transition, and with a Monarch one."""

from __future__ import annotations

import math
from functools import cached_property, partial

import torch
from torch import Tensor

from pcgcd.basics.numbers import TensorLike
from pcgcd.circuits import Circuit, Dense, InputLayer, Monarch, Operator, ProductLayer, SumLayer
from pcgcd.errors import InvalidParameterError, StructuralPropertyError
from pcgcd.hmm.copying import Copying
from pcgcd.hmm.model import HiddenMarkovModel, as_weights, random_rows


class HMM(HiddenMarkovModel):
    """A hidden Markov model (Def. 4.1) with a dense transition, a circuit for every length.

    Attributes:
        initial: p(z_1), (H,).
        transition: p(z_{t+1} | z_t), (H, H), rows sum to one.
        emission: p(x_t | z_t), (H, V), rows sum to one.
        copying: How answers repeat their prompt; see :class:`HiddenMarkovModel`.

    >>> hmm = HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]])
    >>> hmm.log_value([[0, 1]]).exp()
    tensor([0.1650])
    >>> hmm.unroll(2)
    Circuit(5 layers over 2 variables, 9 units)
    """

    factor_names = ("transition",)

    def __init__(
        self,
        initial: TensorLike,
        transition: TensorLike,
        emission: TensorLike,
        *,
        copying: Copying | None = None,
        validate: bool = True,
    ) -> None:
        """Hold the tensors; they are not copied, and gradients reach them.

        Lists of numbers, and arrays, become tensors of torch's default type.

        Args:
            initial: (H,).
            transition: (H, H).
            emission: (H, V).
            copying: How answers repeat their prompt.
            validate: Check that rows sum to one, not only that they are numbers of at least zero.
        """
        self.initial = as_weights("initial", initial)
        self.transition = as_weights("transition", transition)
        self.emission = as_weights("emission", emission)
        self.copying = copying
        hidden = int(self.initial.numel())
        if self.transition.shape != (hidden, hidden):
            raise InvalidParameterError(
                f"the transition must have shape {(hidden, hidden)}, but has "
                f"{tuple(self.transition.shape)}"
            )
        self._check(hidden, validate)

    @cached_property
    def _transition_operator(self) -> Operator:
        return Dense(self.transition)

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
        """Return an HMM with Dirichlet parameters; a small concentration gives peaked ones."""
        rows = partial(random_rows, concentration=concentration, generator=generator, dtype=dtype)
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


class MonarchHMM(HiddenMarkovModel):
    """An HMM whose transition is a Monarch matrix: H^(3/2) parameters in place of H^2.

    Attributes:
        initial: p(z_1), (H,), H = a * b.
        left: (a, b, b), rows sum to one.
        right: (b, a, a), rows sum to one.
        emission: p(x_t | z_t), (H, V), rows sum to one.
        copying: How answers repeat their prompt; see :class:`HMM`.

    >>> MonarchHMM.random(6, 4, generator=torch.Generator().manual_seed(0)).left.shape
    torch.Size([3, 2, 2])
    """

    factor_names = ("left", "right")

    def __init__(
        self,
        initial: TensorLike,
        left: TensorLike,
        right: TensorLike,
        emission: TensorLike,
        *,
        copying: Copying | None = None,
        validate: bool = True,
    ) -> None:
        self.initial = as_weights("initial", initial)
        self.left, self.right = as_weights("left", left), as_weights("right", right)
        self.emission = as_weights("emission", emission)
        self.copying = copying
        self._check(self._transition_operator.shape[0], validate)

    @cached_property
    def _transition_operator(self) -> Operator:
        return Monarch(self.left, self.right)

    def to_dense(self) -> HMM:
        """Return the same model with its transition written out."""
        transition = self._transition_operator.to_dense()
        return HMM(self.initial, transition, self.emission, copying=self.copying, validate=False)

    @classmethod
    def random(
        cls,
        num_hidden: int,
        vocab_size: int,
        *,
        blocks: tuple[int, int] | None = None,
        concentration: float = 1.0,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> MonarchHMM:
        """Return a Monarch HMM with Dirichlet parameters; see :meth:`HMM.random`.

        Args:
            num_hidden: The number of hidden states H.
            vocab_size: The number of tokens.
            blocks: The (a, b) with a * b = H; by default as square as possible.
            concentration: A small one gives peaked rows.
            generator: Decides the draws.
            dtype: The floating type.
        """
        a, b = monarch_blocks(num_hidden) if blocks is None else blocks
        if a * b != num_hidden:
            raise InvalidParameterError(
                f"blocks must multiply to {num_hidden} hidden states, but are {a} and {b}"
            )
        rows = partial(random_rows, concentration=concentration, generator=generator, dtype=dtype)
        return cls(rows(num_hidden), rows(a, b, b), rows(b, a, a), rows(num_hidden, vocab_size))


def monarch_blocks(num_hidden: int) -> tuple[int, int]:
    """Return the (a, b) of a Monarch transition: as square as possible, with a * b = H and a >= b.

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
