"""What all kinds of hidden Markov models share."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor

from pcgcd.basics.numbers import TensorLike, as_tensor, check_weights, check_whole_number
from pcgcd.circuits import Chain, ChainOperators, Dense, Identity, Operator
from pcgcd.circuits.semirings import BOOLEAN
from pcgcd.errors import CheckpointError, InvalidParameterError
from pcgcd.hmm.copying import Copying

if TYPE_CHECKING:
    from typing_extensions import Self

    from pcgcd.hmm.files.checkpoints import VocabularyLike

_TOLERANCE = 1e-3
# What models become given a prompt. Beside them, since what refers weakly cannot be pickled.
_GIVEN: WeakKeyDictionary[Any, WeakValueDictionary[Any, Any]] = WeakKeyDictionary()
_DRAWN_AT_ONCE = 1 << 26


class HiddenMarkovModel(Chain):
    """A hidden Markov model (Def. 4.1), whatever its transition is made of.

    :class:`pcgcd.HMM` has a dense one, :class:`pcgcd.MonarchHMM` a Monarch matrix. What applies
    a transition uses ``operators.transition`` and need not know which it is.

    Attributes:
        factor_names: The attributes that hold the transition's parameters.
        initial: p(z_1), (H,).
        emission: p(x_t | z_t), (H, V), rows sum to one.
        copying: How answers repeat their prompt, for :meth:`given`; None if that was not learnt.
            As a circuit, the model is the one without a prompt.
    """

    factor_names: ClassVar[tuple[str, ...]]
    initial: Tensor
    emission: Tensor
    copying: Copying | None

    @property
    @abstractmethod
    def _transition_operator(self) -> Operator:
        """The transition as an operator, (H, H)."""

    @abstractmethod
    def __init__(
        self, *tensors: TensorLike, copying: Copying | None = None, validate: bool = True
    ) -> None:
        """Hold the initial vector, the parameters of the transition, and the emission."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle the parameters, without what was computed from them."""
        tensors = (self.initial, *self.transition_factors, self.emission)
        return partial(type(self), copying=self.copying, validate=False), tensors

    @property
    def transition_factors(self) -> tuple[Tensor, ...]:
        """The parameters of the transition; the rows of each are distributions."""
        return tuple(getattr(self, name) for name in self.factor_names)

    @property
    def num_hidden(self) -> int:
        """The number of hidden states H."""
        return int(self.initial.shape[0])

    @cached_property
    def operators(self) -> ChainOperators:
        return ChainOperators(
            initial=Dense(self.initial.unsqueeze(0)),
            transition=self._transition_operator,
            emission=Dense(self.emission),
            final=Identity(self.num_hidden),
        )

    @cached_property
    def ended(self) -> Tensor:
        """Whether a hidden state repeats one token for ever, as after an EOS, (H,).

        Of the states that emit one token only, the largest sets, one for each token, that no
        transition leaves.
        """
        possible = self.emission.detach() > 0
        single = (possible.sum(-1) == 1).nonzero().flatten()
        result = torch.zeros(self.num_hidden, dtype=torch.bool, device=self.emission.device)
        if not len(single):
            return result
        token = possible[single].to(torch.uint8).argmax(-1)
        tokens, place = token.unique(return_inverse=True)
        stays = result.new_zeros(len(tokens), self.num_hidden)
        stays[place, single] = True
        while True:
            kept = stays & ~self.operators.transition.matvec(~stays, BOOLEAN)
            if torch.equal(kept, stays):
                return stays.any(0)
            stays = kept

    @property
    def ending_tokens(self) -> tuple[int, ...]:
        """The tokens that no hidden state emits but those in which a text has :attr:`ended`."""
        emission = self.emission.detach()
        tokens = emission[self.ended].argmax(-1).unique()
        elsewhere = (emission[:, tokens] > 0)[~self.ended].any(0)
        return tuple(tokens[~elsewhere].tolist())

    def given(self, prompt: Iterable[int]) -> Self:
        """Return the model of answers to a prompt (its tokens), which repeat some of its tokens.

        A hidden state in which the text has :attr:`ended` repeats nothing of the prompt. A model
        without :attr:`copying` is its own. As long as somebody holds the result, the same prompt
        gives the same one, so that what was computed with it is there.
        """
        if self.copying is None:
            return self
        tokens, rates, weights = frozenset(prompt), self.copying.rates, self.copying.weights
        tensors = (self.emission, rates, weights)
        # What is differentiated, or may change unnoticed, is made anew.
        is_kept = not any(tensor.requires_grad or tensor.is_inference() for tensor in tensors)
        known = _GIVEN.setdefault(self, WeakValueDictionary())
        key = (tokens, *(tensor._version for tensor in tensors)) if is_kept else None
        result: Self | None = known.get(key)
        if result is None:
            going_on = Copying(rates.masked_fill(self.ended, 0), weights)
            result = self.with_emission(going_on.emission(self.emission, tokens))
            if is_kept:
                known[key] = result
        return result

    def adapted(
        self, samples: Sequence[Sequence[int]], *, strength: float = 2.0, steps: int = 2
    ) -> Self:
        """Return the model of the texts that some samples are of, with this one as the prior.

        For instance continuations of one prompt, drawn from the language model: see
        :mod:`pcgcd.hmm.adaptation`. Samples that are impossible in this model teach it nothing.

        Args:
            samples: The tokens of each, the one that ended it included; they may be cut off.
            strength: How many observations each row of this model is worth.
            steps: The number of steps of EM.
        """
        from pcgcd.hmm.adaptation import adapted

        return adapted(self, samples, strength=strength, steps=steps)

    def with_emission(self, emission: Tensor, copying: Copying | None = None) -> Self:
        """Return the same initial and transition probabilities with other emissions, (H, V).

        Their rows must sum to one, unless those of this model do not either.
        """
        if _worst_sum(self.emission) <= _TOLERANCE:
            _check_sums("emission", emission)
        tensors = (self.initial, *self.transition_factors, emission)
        return type(self)(*tensors, copying=copying, validate=False)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        tensors = (self.initial, *self.transition_factors, self.emission)
        moved = (tensor.to(device=device, dtype=dtype) for tensor in tensors)
        copying = None if self.copying is None else self.copying.to(device, dtype)
        return type(self)(*moved, copying=copying, validate=False)

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

        return save_hmm(
            self, folder, emission_dtype=emission_dtype, vocabulary=vocabulary, facts=facts
        )

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the model with a card; see :func:`pcgcd.hmm.files.hub.push_to_hub`."""
        from pcgcd.hmm.files.hub import push_to_hub

        return push_to_hub(self, repo_id, **options)

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

    def _check(self, num_hidden: int, validate: bool) -> None:
        """Check all tensors, given the number of hidden states that the transition has.

        That all entries are numbers and none is negative is checked always: what is computed from
        others means nothing. That rows sum to one is checked where ``validate`` says so.
        """
        if self.initial.shape != (num_hidden,) or self.emission.dim() != 2:
            raise InvalidParameterError(
                "an HMM needs an initial vector (H,) and an emission matrix (H, V), but got "
                f"{tuple(self.initial.shape)} and {tuple(self.emission.shape)}; H is {num_hidden}"
            )
        rows, vocab_size = self.emission.shape
        if rows != num_hidden or num_hidden < 1:
            raise InvalidParameterError(
                f"the emission has {rows} rows, but there are {num_hidden} hidden states"
            )
        sizes = self.copying and (len(self.copying.rates), len(self.copying.weights))
        if sizes and sizes != (num_hidden, vocab_size):
            raise InvalidParameterError(
                f"copying has {sizes[0]} rates and {sizes[1]} weights, but there are {num_hidden} "
                f"hidden states and {vocab_size} tokens"
            )
        for name in ("initial", *self.factor_names, "emission"):
            weights = getattr(self, name)
            (_check_sums if validate else check_weights)(name, weights)


def as_weights(name: str, values: TensorLike) -> Tensor:
    """Return a tensor as it is, and other numbers as one of torch's default type."""
    if isinstance(values, Tensor):
        return values
    return as_tensor(name, values).to(torch.get_default_dtype())


def _worst_sum(weights: Tensor) -> float:
    """How far the sum of a row is from one, at most."""
    return float((weights.detach().sum(-1) - 1).abs().max())


def _check_sums(name: str, weights: Tensor) -> None:
    check_weights(name, weights)
    error = _worst_sum(weights)
    if not error <= _TOLERANCE:
        raise InvalidParameterError(
            f"{name} must sum to 1 along its last axis, but is off by up to {error:g}; normalise "
            "it, or pass validate=False to use unnormalised weights"
        )


def random_rows(
    *shape: int, concentration: float, generator: torch.Generator | None, dtype: torch.dtype
) -> Tensor:
    """Rows drawn from a symmetric Dirichlet distribution.

    They are normalised Gamma draws. A small concentration gives draws far below the range of any
    type, so these are made as logarithms, log Gamma(a) ~ log Gamma(a + 1) + log(U) / a, and a row
    keeps its largest entries. What is too small for ``dtype`` beside them becomes zero. Many rows
    are drawn in parts, so that little memory is needed beside the result.
    """
    for size in shape:
        check_whole_number("the number of hidden states and of tokens", size, least=1)
    if not 0 < concentration < float("inf"):
        raise InvalidParameterError(f"concentration must be positive, but is {concentration:g}")
    if math.prod(shape) > _DRAWN_AT_ONCE and shape[0] > 1:
        parts = torch.arange(shape[0]).tensor_split(2 * math.prod(shape) // _DRAWN_AT_ONCE)
        result = torch.empty(shape, dtype=dtype)
        for part in (part for part in parts if len(part)):
            result[part] = random_rows(
                len(part),
                *shape[1:],
                concentration=concentration,
                generator=generator,
                dtype=dtype,
            )
        return result
    wide = torch.float64
    small = concentration < 1
    shapes = torch.full(shape, concentration + small, dtype=wide)
    log_draws = torch._standard_gamma(shapes, generator).log()
    if small:
        uniform = torch.empty(shape, dtype=wide).exponential_(generator=generator)  # -log U
        log_draws -= uniform / concentration
    return log_draws.softmax(-1).to(dtype)
