"""Sampling from a language model, to be learnt from: in shards, and resumable."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from pcgcd.basics.numbers import check_whole_number, draw_at
from pcgcd.decoding import SMC, Generator, Randomness, Request, Target, systematic
from pcgcd.errors import DeadEndError, EmptyLanguageError, InvalidParameterError
from pcgcd.learning.distillation.prompts import Source, constraint_of, fingerprint, sources_of
from pcgcd.learning.distillation.settings import Sampling
from pcgcd.learning.distillation.shards import Manifest, SampleSet, Shard, ShardFolder
from pcgcd.learning.processes import Processes
from pcgcd.learning.resuming import seed_of
from pcgcd.learning.sequences import num_tokens
from pcgcd.lm.llamacpp import LlamaCpp

if TYPE_CHECKING:
    from pcgcd.automata import FiniteAutomaton
    from pcgcd.lm import LanguageModel, Prompt

_LOGGER = logging.getLogger(__name__)

_KEPT_AUTOMATA = 64


class Engine(Protocol):
    """What answers prompts without constraints."""

    @property
    def name(self) -> str:
        """What the manifest says; answers of one engine are not mixed with those of another."""

    def answer(
        self, prompts: Sequence[tuple[int, ...]], length: int, uniform: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """One answer to each prompt, drawn from the model at temperature 1.

        Args:
            prompts: The tokens of each prompt; those that are equal stand together.
            length: The largest number of tokens n of an answer.
            uniform: Numbers in [0, 1) that decide the draws, (rows, n), float64.
            seed: A seed, for engines that draw in their own way.

        Returns:
            The answers, (rows, n) int32, padded with EOS; their log-probabilities, (rows,).
        """


def sample(
    lm: LanguageModel,
    prompts: Iterable[Prompt | Source] | None,
    *,
    samples: int,
    length: int,
    folder: str | Path,
    batch_size: int = 64,
    shard_size: int = 256,
    group: int = 1,
    seed: int = 0,
    engine: Engine | None = None,
    shards: range | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SampleSet:
    """Draw samples of a language model at temperature 1 into a folder.

    The samples are a function of the model, the prompts, the seed and the sizes: interrupted at any
    moment, the same call goes on where it was. A call that asks for more samples adds to the
    folder. When ``torch.distributed`` is initialised, each process draws some of the shards.

    A prompt with a constraint is answered by sequential Monte Carlo, with guaranteed constrained
    decoding as the proposal and ``group`` particles, whose final weights decide which of them are
    kept: such samples approach p_lm(x | C) as the group grows.

    Args:
        lm: The language model.
        prompts: Texts, chats, token ids or sources, answered in turn; None for samples
            without a prompt.
        samples: How many.
        length: The number of tokens n of each: cut there, and padded with EOS behind its EOS.
        folder: Where the shards and the manifest are written.
        batch_size: How many are drawn at once.
        shard_size: How many there are in each file.
        group: How many samples in a row answer one prompt, which then is read once.
        seed: Decides the samples.
        engine: What answers prompts; by default the language model here. An engine that draws in
            its own way leaves prompts with a constraint to the language model.
        shards: The numbers of the shards that this call draws, for several machines that share a
            folder; by default all. What is drawn does not depend on who draws it.
        progress: Called with samples and tokens that are new, after each batch; samples that were
            there are reported with no tokens.

    Returns:
        All samples; with ``shards``, those that are complete.

    Raises:
        CheckpointError: The folder holds samples of another kind.
        InvalidParameterError: The shards are not among those of so many samples.
        EmptyLanguageError: No prompt of a shard has a valid answer of this length. (If some have
            one, the others are answered without their constraints, and a warning is logged.)
    """
    sources = sources_of(prompts, lm)
    Sampling(samples, length, batch_size, shard_size, group)  # checks them
    check_whole_number("seed", seed)
    answering: Engine = SessionEngine(lm) if engine is None else engine
    vocabulary = lm.vocabulary
    manifest = Manifest(
        model=model_name(lm),
        vocabulary=vocabulary.fingerprint,
        vocab_size=vocabulary.logits_size,
        eos_ids=tuple(vocabulary.eos_ids),
        prompts=fingerprint(sources),
        num_prompts=len(sources),
        seed=seed,
        length=length,
        shard_size=shard_size,
        group=group,
        engine=answering.name,
        samples=samples,
    )
    numbers = range(manifest.num_shards) if shards is None else shards
    if not len(numbers) or not 0 <= numbers[0] <= numbers[-1] < manifest.num_shards:
        raise InvalidParameterError(
            f"{samples} samples have the shards 0..{manifest.num_shards - 1}, but {shards} were "
            "asked for"
        )
    files = ShardFolder(Path(folder), manifest)
    processes = Processes()
    processes.do_first(files.open)
    drawing = _Drawing(lm, sources, manifest, answering, batch_size, progress)

    def draw_own() -> None:
        for number in numbers[processes.rank :: processes.count]:
            if files.has(number):
                drawing.report(len(manifest.rows_of(number)), 0)
            else:
                files.write(number, drawing.shard(number))
                _LOGGER.info("shard %d of %d is written", number + 1, manifest.num_shards)

    processes.do(draw_own)
    return SampleSet.load(folder, partial=shards is not None)


def model_name(lm: LanguageModel) -> str:
    """Return a name of a language model, and a hash of some of its weights if it has any."""
    if isinstance(lm, LlamaCpp):
        return f"{lm.path.name} {lm.fingerprint}"
    model: Any = getattr(lm, "model", None)
    if model is None or not hasattr(model, "named_parameters"):
        return type(lm).__name__
    digest = hashlib.sha256()
    for name, weights in model.named_parameters():
        flat = weights.detach().view(-1)
        taken = flat[:: max(1, len(flat) // 1024)].float().cpu()
        digest.update(f"{name} {tuple(weights.shape)}".encode() + taken.numpy().tobytes())
    path = str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
    return f"{Path(path).name} {digest.hexdigest()[:16]}"


@dataclass
class _Drawing:
    """Draws shards."""

    lm: LanguageModel
    sources: Sequence[Source]
    manifest: Manifest
    engine: Engine
    batch_size: int
    progress: Callable[[int, int], None] | None
    automata: dict[str, FiniteAutomaton] = field(default_factory=dict)
    # Why the constraints of some prompts cannot be met in so many tokens.
    too_long: dict[int, EmptyLanguageError] = field(default_factory=dict)

    def shard(self, number: int) -> Shard:
        """One shard. What is drawn depends on its number only, not on other shards."""
        manifest = self.manifest
        rows = manifest.rows_of(number)
        eos = manifest.eos_ids[0]
        tokens = torch.full((len(rows), manifest.length), eos, dtype=torch.int32)
        log_probs = torch.zeros(len(rows))
        seed = seed_of(manifest.seed, "shard", number)
        # All numbers of a whole shard, so that a short one is the beginning of a long one.
        shape, generator = (manifest.shard_size, manifest.length), torch.Generator()
        uniform = torch.rand(shape, generator=generator.manual_seed(seed), dtype=torch.float64)
        prompts = [manifest.prompt_of(row) for row in rows]
        ids = {p: self.lm.encode(self.sources[p].prompt) for p in set(prompts)}
        # Prompts of similar length share a batch, so that little is padded.
        by_length = sorted(range(len(rows)), key=lambda row: len(ids[prompts[row]]))
        bound: set[int] = set()
        for first in self._constrained_batches(by_length, prompts):
            self._constrained(first, prompts, ids, seed, tokens, log_probs)
            bound.update(prompts[row] for row in first)
        if all(p in self.too_long for p in prompts):
            raise self.too_long[prompts[0]]
        constrained = torch.tensor([p in bound for p in prompts])
        free = [row for row in by_length if prompts[row] not in bound]
        for start in range(0, len(free), self.batch_size):
            batch = free[start : start + self.batch_size]
            tokens[batch], log_probs[batch] = self.engine.answer(
                [ids[prompts[row]] for row in batch],
                manifest.length,
                uniform[batch],
                seed_of(seed, "batch", start),
            )
            self._report_new(tokens[batch])
        return Shard(tokens, log_probs, constrained)

    def _constrained_batches(
        self, rows: Iterable[int], prompts: Sequence[int]
    ) -> Iterator[list[int]]:
        """The first rows of groups whose answers are constrained, as many as are drawn at once."""
        batch: list[int] = []
        for row in rows:
            if row % self.manifest.group == 0 and self._is_bound(prompts[row]):
                batch.append(row)
                if len(batch) == max(1, self.batch_size // self.manifest.group):
                    yield batch
                    batch = []
        if batch:
            yield batch

    def _constrained(
        self,
        first: Sequence[int],
        prompts: Sequence[int],
        ids: dict[int, tuple[int, ...]],
        seed: int,
        tokens: Tensor,
        log_probs: Tensor,
    ) -> None:
        """Answer the prompts of some groups, each named by its first row."""
        group, length = self.manifest.group, self.manifest.length
        requests = [
            Request(self._automaton(prompts[row]), ids[prompts[row]], length) for row in first
        ]
        rng = seed_of(seed, "constrained", first[0])
        lm = self.engine.lm if isinstance(self.engine, SessionEngine) else self.lm
        generator = Generator(lm, method="gcd", smc=SMC(group))
        results = generator.run(requests, seed=rng)
        for row, result in zip(first, results, strict=True):
            if isinstance(result.error, DeadEndError):
                raise DeadEndError(f"prompt {prompts[row]}: {result.error}") from result.error
            if result.error is not None:
                raise result.error
            chosen = systematic(
                torch.tensor(result.weights, dtype=torch.float64), Randomness(seed_of(rng, row))
            ).tolist()
            rows = range(row, min(row + group, len(tokens)))
            for place, particle in zip(rows, chosen):
                text = result.token_ids[particle]
                tokens[place, : len(text)] = torch.tensor(text, dtype=torch.int32)
                if text[-1] in self.manifest.eos_ids:
                    tokens[place, len(text) :] = text[-1]
                log_probs[place] = result.log_probs[particle]
            self._report_new(tokens[list(rows)])

    def _is_bound(self, prompt: int) -> bool:
        """Whether the answer to a prompt is constrained.

        Where no valid answer is short enough it is drawn freely, and that is reported once.
        """
        if self.sources[prompt].constraint is None or prompt in self.too_long:
            return False
        try:
            Target(self._automaton(prompt)).engine().check(self.manifest.length)
        except EmptyLanguageError as error:
            if error.shortest_length is None:
                raise
            self.too_long[prompt] = error
            _LOGGER.warning("prompt %d is answered without its constraint: %s", prompt, error)
            return False
        return True

    def _automaton(self, prompt: int) -> FiniteAutomaton:
        described = self.sources[prompt].constraint
        if described is None:
            raise InvalidParameterError(f"prompt {prompt} has no constraint")
        key = Source("", described).to_json()  # prompts may share a constraint
        if key not in self.automata:
            if len(self.automata) >= _KEPT_AUTOMATA:
                self.automata.clear()
            try:
                self.automata[key] = constraint_of(described).compile(self.lm.vocabulary)
            except EmptyLanguageError as error:
                raise EmptyLanguageError(f"prompt {prompt}: {error}") from error
        return self.automata[key]

    def _report_new(self, tokens: Tensor) -> None:
        self.report(len(tokens), int(num_tokens(tokens, self.manifest.eos_ids).sum()))

    def report(self, samples: int, tokens: int) -> None:
        if self.progress is not None:
            self.progress(samples, tokens)


@dataclass(frozen=True, eq=False)
class SessionEngine:
    """Draws with the sessions of a language model.

    Equal prefixes are computed once, and rows that have ended are dropped.

    Attributes:
        lm: The language model.
    """

    lm: LanguageModel
    name: str = "pcgcd"

    def answer(
        self, prompts: Sequence[tuple[int, ...]], length: int, uniform: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """See :class:`Engine`."""
        eos_ids = self.lm.vocabulary.eos_ids
        tokens = torch.full((len(prompts), length), eos_ids[0], dtype=torch.int32)
        log_probs = torch.zeros(len(prompts), dtype=torch.float64)
        session = self.lm.start(prompts)
        going = torch.arange(len(prompts))
        ends = torch.tensor(eos_ids)
        for step in range(length):
            rows = session.log_probs()
            chosen = _draw(rows, uniform[going, step])
            taken = rows.gather(1, chosen.unsqueeze(1)).squeeze(1)
            log_probs[going] += taken.double().cpu()
            chosen = chosen.cpu()
            tokens[going, step] = chosen.int()
            ended = torch.isin(chosen, ends)
            # Behind its EOS a text repeats that EOS, whichever of several it was.
            tokens[going[ended], step:] = chosen[ended].int().unsqueeze(1)
            kept = (~ended).nonzero().flatten()
            if not len(kept) or step + 1 == length:
                break
            if len(kept) < len(going):
                session.reindex(kept)
            going = going[kept]
            session.advance(chosen[kept])
        return tokens, log_probs.float()


def _draw(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Return the token of each row at which the distribution function passes a number, (k,)."""
    weights = log_probs.exp()
    total = weights.sum(-1, dtype=torch.float64)
    if not bool(torch.isfinite(total).all()) or bool((total <= 0).any()):
        raise InvalidParameterError(
            "the language model's log-probabilities are not those of a distribution: a row sums to "
            f"{math.nan if total.isnan().any() else float(total.min()):g}"
        )
    return draw_at(weights, uniform.to(weights.device))
