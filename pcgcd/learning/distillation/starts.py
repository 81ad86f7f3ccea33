"""Where fitting starts: at random, or from clusters of the language model's hidden states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import normalise_
from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HMM, HiddenMarkovModel, MonarchHMM
from pcgcd.hmm.hmm import monarch_blocks
from pcgcd.learning.distillation.embeddings import spread, token_states
from pcgcd.learning.distillation.settings import Method, Transition
from pcgcd.learning.distillation.shards import SampleSet
from pcgcd.learning.sequences import inside, num_tokens

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel

_UNSEEN = 0.05  # the share of a token distribution that is spread over all tokens


def initialise(
    samples: SampleSet | Tensor,
    num_hidden: int,
    *,
    vocab_size: int | None = None,
    eos_ids: Iterable[int] | None = None,
    method: Method = "random",
    lm: LanguageModel | None = None,
    prompts: Sequence[tuple[int, ...]] | None = None,
    max_samples: int = 2048,
    smoothing: float = 1.0,
    seed: int = 0,
    transition: Transition = "dense",
    progress: Callable[[int], None] | None = None,
) -> HiddenMarkovModel:
    """Return an HMM to start fitting from.

    For each EOS, one hidden state emits that EOS only and leads to itself only; no other state
    emits an EOS. These zeros are kept by fitting.

    Args:
        samples: What will be fitted, (N, n), padded with EOS.
        num_hidden: The number of hidden states H, those for EOS included.
        vocab_size: The number of tokens V; a :class:`SampleSet` knows it.
        eos_ids: The tokens that end a text; a :class:`SampleSet` knows them.
        method: "random": random transitions, and emissions that are a random mixture around the
            frequencies of tokens. "lvd", latent variable distillation: the language model's states
            after each token are clustered (k-means), each cluster is a hidden state, and the
            parameters are smoothed relative frequencies of clusters and tokens.
        lm: The language model, for "lvd"; one of transformers.
        prompts: The tokens of each sample's prompt, for "lvd".
        max_samples: How many samples are clustered at most, evenly spread.
        smoothing: How many observations the smoothing of "lvd" is worth in each hidden state.
        seed: Decides what is random.
        transition: "dense", or "monarch" with blocks as square as possible.
        progress: Called with the number of samples that "lvd" has read, again and again.

    Raises:
        MissingDependencyError: "lvd" without scikit-learn.
    """
    check_one_of("method", method, "random", "lvd")
    tokens = samples.tokens if isinstance(samples, SampleSet) else samples
    if isinstance(samples, SampleSet):
        vocab_size = samples.manifest.vocab_size if vocab_size is None else vocab_size
        eos_ids = samples.manifest.eos_ids if eos_ids is None else eos_ids
    if vocab_size is None or eos_ids is None:
        raise InvalidParameterError("samples in a tensor need vocab_size and eos_ids beside them")
    if tokens.ndim != 2 or not len(tokens):
        raise InvalidParameterError(
            f"samples must be an array (number, length), but have shape {tuple(tokens.shape)}"
        )
    layout = Layout.of(num_hidden, vocab_size, tuple(sorted({*eos_ids})), transition)
    lengths = num_tokens(tokens, layout.eos_ids)
    frequencies = _frequencies(tokens, lengths, layout)
    if method == "random":
        return _random(layout, frequencies, seed)
    if lm is None or prompts is None or len(prompts) != len(tokens):
        raise InvalidParameterError(
            '"lvd" needs the language model (lm=) and one prompt for each sample (prompts=)'
        )
    rows = spread(torch.arange(len(tokens)), max_samples)
    tokens, lengths = tokens[rows], lengths[rows]
    read = [prompts[row] for row in rows.tolist()]
    states = token_states(lm, read, tokens, lengths, progress=progress)
    clusters = _clusters(states.after, len(layout.text), seed)
    path = torch.full(tokens.shape, -1, dtype=torch.long)
    path[inside(tokens, lengths)] = layout.text[clusters]
    for eos, state in zip(layout.eos_ids, layout.ends.tolist()):
        path[(tokens == eos) & (path >= 0)] = state
    return _from_paths(layout, tokens.long(), path, frequencies, smoothing)


@dataclass(frozen=True, eq=False)
class Layout:
    """Which hidden states are for text, and which for the end of it."""

    num_hidden: int  # H
    vocab_size: int  # V
    eos_ids: tuple[int, ...]  # the tokens that end a text
    blocks: tuple[int, int] | None  # the (a, b) of a Monarch transition; None for a dense one
    ends: Tensor  # the absorbing hidden state of each EOS
    text: Tensor  # the other hidden states

    @classmethod
    def of(
        cls, num_hidden: int, vocab_size: int, eos_ids: tuple[int, ...], transition: str
    ) -> Layout:
        """Place the ends.

        A Monarch transition is W[(i, j), (k, l)] = left[i, j, l] * right[l, i, k]. The state
        (i, b - 1) is absorbing if left[i, b - 1] leads to l = b - 1 only and right[b - 1, i] to
        k = i only; so each end has an i of its own.
        """
        check_one_of("transition", transition, "dense", "monarch")
        if not eos_ids or not all(0 <= eos < vocab_size for eos in eos_ids):
            raise InvalidParameterError(
                f"end-of-sequence ids must be at least one, in 0..{vocab_size - 1}, but are "
                f"{eos_ids}"
            )
        if num_hidden <= len(eos_ids):
            raise _too_few(num_hidden, eos_ids)
        blocks, ends = None, [num_hidden - 1 - e for e in range(len(eos_ids))]
        if transition == "monarch":
            blocks = monarch_blocks(num_hidden)
            a, b = blocks
            ends = [(a - 1 - e) * b + b - 1 for e in range(len(eos_ids))]
        if min(ends) < 0:
            raise _too_few(num_hidden, eos_ids)
        mask = torch.ones(num_hidden, dtype=torch.bool)
        mask[ends] = False
        text = mask.nonzero().flatten()
        return cls(num_hidden, vocab_size, eos_ids, blocks, torch.tensor(ends), text)

    def model(
        self, initial: Tensor, factors: Sequence[Tensor], emission: Tensor
    ) -> HiddenMarkovModel:
        """Weights made into distributions, with the ends as they must be. In place."""
        emission[:, list(self.eos_ids)] = 0
        emission[self.ends] = 0
        emission[self.ends, list(self.eos_ids)] = 1
        if self.blocks is None:
            factors[0][self.ends] = 0
            factors[0][self.ends, self.ends] = 1
        else:
            left, right = factors
            first, last = self.ends // self.blocks[1], self.blocks[1] - 1
            left[first, last] = 0
            left[first, last, last] = 1
            right[last, first] = 0
            right[last, first, first] = 1
        for part in (initial, *factors, emission):
            normalise_(part)
        kind: type[HiddenMarkovModel] = HMM if self.blocks is None else MonarchHMM
        return kind(initial, *factors, emission)

    def zeros(self) -> tuple[Tensor, ...]:
        """Return the transition's factors, empty."""
        if self.blocks is None:
            return (torch.zeros(self.num_hidden, self.num_hidden),)
        a, b = self.blocks
        return torch.zeros(a, b, b), torch.zeros(b, a, a)


def _too_few(num_hidden: int, eos_ids: tuple[int, ...]) -> InvalidParameterError:
    return InvalidParameterError(
        f"{num_hidden} hidden states are too few: {len(eos_ids)} are for the ends of texts"
    )


def _frequencies(tokens: Tensor, lengths: Tensor, layout: Layout) -> Tensor:
    """How often each token occurs, EOS apart, none of them never; (V,), sums to one."""
    counts = torch.bincount(
        tokens[inside(tokens, lengths)].long(), minlength=layout.vocab_size
    ).double()
    if len(counts) > layout.vocab_size:
        raise InvalidParameterError(
            f"the samples have the token {len(counts) - 1}, but there are {layout.vocab_size}"
        )
    counts[list(layout.eos_ids)] = 0
    even = torch.ones_like(counts)
    even[list(layout.eos_ids)] = 0
    even /= even.sum().clamp(min=1)
    total = counts.sum()
    share = 1.0 if total == 0 else _UNSEEN
    return ((1 - share) * counts / total.clamp(min=1) + share * even).float()


def _random(layout: Layout, frequencies: Tensor, seed: int) -> HiddenMarkovModel:
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.empty(shape).exponential_(generator=generator).clamp_(min=1e-6)

    initial = noise(layout.num_hidden)
    factors = [noise(*factor.shape) for factor in layout.zeros()]
    emission = noise(layout.num_hidden, layout.vocab_size).mul_(frequencies)
    return layout.model(initial, factors, emission)


def load_clustering() -> Any:
    """Return the module of scikit-learn that clusters."""
    return package("sklearn.cluster", 'initialising with method="lvd"')


def _clusters(states: Tensor, count: int, seed: int) -> Tensor:
    clustering = load_clustering()
    if len(states) < count:
        raise InvalidParameterError(
            f"{count} clusters need at least as many tokens, but the samples have {len(states)}; "
            "draw more samples, or take fewer hidden states"
        )
    scaled = (states - states.mean(0)) / states.std(0, unbiased=False).clamp(min=1e-6)
    means = clustering.MiniBatchKMeans(
        count, random_state=seed % 2**32, batch_size=4096, n_init=1, max_iter=50
    )
    return torch.from_numpy(means.fit_predict(scaled.numpy())).long()


def _from_paths(
    layout: Layout, tokens: Tensor, path: Tensor, frequencies: Tensor, smoothing: float
) -> HiddenMarkovModel:
    """Smoothed relative frequencies of hidden states that are known; -1 behind the end."""
    if not smoothing > 0:
        raise InvalidParameterError(f"smoothing must be positive, but is {smoothing:g}")
    num_hidden, vocab_size = layout.num_hidden, layout.vocab_size
    known = path >= 0
    shares = torch.bincount(path[known], minlength=num_hidden).float() + 1
    shares /= shares.sum()
    initial = torch.bincount(path[:, 0], minlength=num_hidden).float() + smoothing * shares
    both = known[:, 1:]
    before, after = path[:, :-1][both], path[:, 1:][both]
    factors = layout.zeros()
    if layout.blocks is None:
        _count(factors[0], before * num_hidden + after)
        factors[0].add_(smoothing * shares)
    else:
        # The most likely factors, given the path: left is p(l | i, j) and right is p(k | l, i).
        a, b = layout.blocks
        i, k, l = before // b, after // b, after % b
        _count(factors[0], before * b + l)
        _count(factors[1], (l * a + i) * a + k)
        table = shares.view(a, b)  # (k, l)
        factors[0].add_(smoothing * table.sum(0))
        factors[1].add_(smoothing * (table / table.sum(0)).T.unsqueeze(1))
    emission = (smoothing * frequencies).repeat(num_hidden, 1)
    _count(emission, path[known] * vocab_size + tokens[known])
    return layout.model(initial, factors, emission)


def _count(into: Tensor, places: Tensor) -> None:
    """Add one at each of these places of the flattened tensor."""
    into.view(-1).index_add_(0, places, torch.ones(len(places)))
