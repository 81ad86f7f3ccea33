"""From a language model to an HMM: sample, initialise, fit, save. Each step can be resumed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from pcgcd.distillation.prompts import Source, sources_of
from pcgcd.distillation.sampling import Engine, sample
from pcgcd.distillation.shards import SampleSet
from pcgcd.distillation.smoothing import predictions, smooth
from pcgcd.distillation.starts import Method, Transition, initialise
from pcgcd.errors import CheckpointError, InvalidParameterError, PcgcdError
from pcgcd.hmm import HMM, MonarchHMM
from pcgcd.hmm.checkpoints import load_hmm, read_info, save_hmm
from pcgcd.hmm.fit import fit, log_likelihood_per_token
from pcgcd.hmm.fit_result import FitResult, Model, Progress
from pcgcd.hmm.ngrams import ngram_log_likelihood
from pcgcd.hmm.reduction import Processes
from pcgcd.hmm.tensor_files import remove_leftovers, write_whole

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel, Prompt

__all__ = ["Distilled", "Fitting", "Sampling", "Start", "distill"]


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn; see :func:`~pcgcd.distillation.sampling.sample`."""

    samples: int = 10_000
    length: int = 32
    batch_size: int = 64
    shard_size: int = 256
    group: int = 1


@dataclass(frozen=True)
class Start:
    """Where fitting starts; see :func:`~pcgcd.distillation.starts.initialise`."""

    num_hidden: int = 256
    transition: Transition = "dense"
    method: Method = "random"
    max_samples: int = 2048


@dataclass(frozen=True)
class Fitting:
    """How the model is fitted; see :func:`pcgcd.hmm.fit.fit`.

    Attributes:
        held_out: The share of prompts (or samples) that fitting never sees.
        smooth: Smooth the emissions in the end with what the language model predicts; it reads all
            samples once more. See :func:`~pcgcd.distillation.smoothing.smooth`.
    """

    epochs: int = 20
    batch_size: int = 256
    step_size: float = 1.0
    pseudocount: float = 0.1
    dropout: float = 0.0
    patience: int | None = 3
    held_out: float = 0.1
    smooth: bool = False
    checkpoint_seconds: float = 300.0


@dataclass(frozen=True)
class Distilled:
    """An HMM, and how good it is.

    Attributes:
        hmm: The HMM.
        result: The fit; its ``hmm`` is the same before smoothing.
        bits: Held-out bits per token of the HMM, of the language model, and of a bigram model, by
            name; also by whether the samples were drawn under a constraint, if some were.
        folder: Where it was saved.
    """

    hmm: HMM | MonarchHMM
    result: FitResult[Any] = field(repr=False)
    bits: Mapping[str, float]
    folder: Path


def distill(
    lm: LanguageModel,
    prompts: Iterable[Prompt | Source] | None,
    out: str | Path,
    *,
    sampling: Sampling | None = None,
    start: Start | None = None,
    fitting: Fitting | None = None,
    seed: int = 0,
    engine: Engine | None = None,
    emission_dtype: str | None = None,
    on_sample: Callable[[int, int], None] | None = None,
    on_fit: Callable[[Progress], None] | None = None,
) -> Distilled:
    """Distil an HMM from a language model into a folder.

    The folder gets ``samples/``, ``start/`` (the model before fitting), ``fit/`` (the state of the
    fit), and in the end the HMM itself with ``report.json`` and ``curve.png``. Interrupted at any
    moment, the same call goes on from there and ends with the same parameters. When
    ``torch.distributed`` is initialised, the processes share the work.

    Args:
        lm: The language model.
        prompts: What it answers; see :func:`~pcgcd.distillation.sampling.sample`.
        out: The folder.
        sampling: How samples are drawn.
        start: Where fitting starts.
        fitting: How the model is fitted.
        seed: Decides everything that is random.
        engine: What answers prompts; by default the language model here.
        emission_dtype: How emissions are stored; see :func:`pcgcd.hmm.checkpoints.save_hmm`.
        on_sample: Called after each batch of samples with their number and that of their tokens.
        on_fit: Called after each batch of the fit.

    Raises:
        CheckpointError: The folder belongs to another distillation; says what differs.
    """
    folder = Path(out)
    sampling, start, fitting = sampling or Sampling(), start or Start(), fitting or Fitting()
    sources = sources_of(prompts)
    samples = sample(
        lm,
        sources,
        **asdict(sampling),
        folder=folder / "samples",
        seed=seed,
        engine=engine,
        progress=on_sample,
    )
    processes = Processes(torch.device("cpu"))
    training, held_out = samples.split(fitting.held_out)
    if not len(training):
        raise InvalidParameterError(
            f"of {len(samples)} samples none is left to learn from; draw more, or hold out less"
        )
    error: PcgcdError | None = None
    try:
        if processes.is_first:
            _clean(folder)
            _begin(lm, sources, samples, training, start, seed, folder / "start")
    except PcgcdError as problem:
        error = problem
    processes.total(0.0, error=error)
    first: Any = load_hmm(folder / "start", vocabulary=lm.vocabulary)
    tokens = samples.tokens
    result = fit(
        first,
        tokens[training],
        held_out=tokens[held_out] if len(held_out) else None,
        epochs=fitting.epochs,
        batch_size=fitting.batch_size,
        step_size=fitting.step_size,
        pseudocount=fitting.pseudocount,
        dropout=fitting.dropout,
        patience=fitting.patience if len(held_out) else None,
        seed=seed,
        checkpoint_dir=folder / "fit",
        checkpoint_seconds=fitting.checkpoint_seconds,
        progress=on_fit,
    )
    facts = {
        "samples": samples.facts(),
        "start": asdict(start),
        "fitting": asdict(fitting),
        "seed": seed,
        "best_epoch": result.best_epoch,
    }
    hmm, bits = result.hmm, compare(result.hmm, samples, training, held_out)
    if fitting.smooth:
        error = None
        try:
            if processes.is_first:
                hmm, facts["strength"] = _smoothed(
                    result.hmm, lm, sources, samples, training, held_out
                )
                save_hmm(hmm, folder / "smooth")
        except PcgcdError as problem:
            error = problem
        processes.total(0.0, error=error)
        hmm = cast("Any", load_hmm(folder / "smooth"))
        bits = {f"{name}, not smoothed": value for name, value in bits.items() if "hmm" in name}
        bits = {**compare(hmm, samples, training, held_out), **bits}
    if processes.is_first:
        facts["bits_per_token"] = dict(bits)
        save_hmm(hmm, folder, emission_dtype=emission_dtype, vocabulary=lm.vocabulary, facts=facts)
        _write_report(folder, facts, result, bits)
    processes.wait()
    return Distilled(hmm, result, bits, folder)


def _smoothed(
    hmm: Any,
    lm: LanguageModel,
    sources: tuple[Source, ...],
    samples: SampleSet,
    training: Tensor,
    held_out: Tensor,
) -> tuple[Any, float]:
    tokens, eos_ids = samples.tokens, samples.manifest.eos_ids
    prompts = _prompts_of(lm, sources, samples, training)
    predicted = predictions(hmm, lm, prompts, tokens[training], eos_ids)
    return smooth(hmm, predicted, tokens[held_out])


def _prompts_of(
    lm: LanguageModel, sources: tuple[Source, ...], samples: SampleSet, rows: Tensor
) -> list[tuple[int, ...]]:
    """The tokens of the prompt of each of these samples."""
    numbers = samples.prompts[rows].tolist()
    ids = {number: lm.encode(sources[number].prompt) for number in set(numbers)}
    return [ids[number] for number in numbers]


def _clean(folder: Path) -> None:
    """Remove what interrupted writes left behind."""
    for left in (*folder.glob(".start-*"), *folder.glob(".smooth-*")):
        shutil.rmtree(left, ignore_errors=True)
    for name in ("model.safetensors", "config.json", "report.json"):
        remove_leftovers(folder / name)
    for left in folder.glob(".curve-*.png"):
        left.unlink(missing_ok=True)


def _begin(
    lm: LanguageModel,
    sources: tuple[Source, ...],
    samples: SampleSet,
    training: Tensor,
    start: Start,
    seed: int,
    folder: Path,
) -> None:
    """Make the model that fitting starts from, unless it is there."""
    facts = {**asdict(start), "seed": seed, "samples": samples.facts(), "learnt": len(training)}
    facts = json.loads(json.dumps(facts))
    if folder.exists():
        there = read_info(folder).facts
        differing = sorted(name for name in facts if facts[name] != there.get(name))
        if differing:
            shown = ", ".join(f"{n} (there {there.get(n)}, here {facts[n]})" for n in differing)
            raise CheckpointError(
                f"{folder} holds the start of another fit: {shown}; give another folder, or the "
                "same settings to go on with it"
            )
        return
    prompts = _prompts_of(lm, sources, samples, training) if start.method == "lvd" else None
    hmm = initialise(
        samples.tokens[training],
        start.num_hidden,
        vocab_size=samples.manifest.vocab_size,
        eos_ids=samples.manifest.eos_ids,
        method=start.method,
        lm=lm,
        prompts=prompts,
        max_samples=start.max_samples,
        seed=seed,
        transition=start.transition,
    )
    save_hmm(hmm, folder, vocabulary=lm.vocabulary, facts=facts)


def compare(hmm: Model, samples: SampleSet, training: Tensor, held_out: Tensor) -> dict[str, float]:
    """Held-out bits per token of the HMM, the language model and a bigram model.

    The language model's are its entropy where the samples are its own. Samples under a constraint
    come from another distribution, so for these it is only what the model alone thinks of them.
    """
    if not len(held_out):
        return {}
    tokens, constrained = samples.tokens, samples.constrained
    parts = {"": held_out}
    if bool(constrained[held_out].any()) and not bool(constrained[held_out].all()):
        parts |= {
            " (unconstrained)": held_out[~constrained[held_out]],
            " (constrained)": held_out[constrained[held_out]],
        }
    eos_ids = samples.manifest.eos_ids
    bits: dict[str, float] = {}
    for name, rows in parts.items():
        nats = {
            "hmm": -log_likelihood_per_token(hmm, tokens[rows]),
            "language model": samples.nats_per_token(rows),
            "bigram": -ngram_log_likelihood(
                tokens[training], tokens[rows], hmm.vocab_size, order=2, eos_ids=eos_ids
            ),
        }
        bits |= {who + name: value / math.log(2) for who, value in nats.items()}
    return bits


def _write_report(
    folder: Path, facts: Mapping[str, Any], result: FitResult[Any], bits: Mapping[str, float]
) -> None:
    history = [asdict(entry) for entry in result.history]
    text = json.dumps({**facts, "history": history}, indent=2, default=str) + "\n"
    write_whole(folder / "report.json", [text.encode()])
    if not result.history:
        return
    from pcgcd.viz import save

    references = {name: bits[name] for name in ("language model", "bigram") if name in bits}
    save(result.plot(references), folder / "curve.png")
