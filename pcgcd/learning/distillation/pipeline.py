"""From a language model to an HMM: sample, initialise, fit, save. Each step can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from pcgcd.basics.files import remove_leftovers
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import HiddenMarkovModel
from pcgcd.hmm.files.checkpoints import load_hmm, read_info, save_hmm
from pcgcd.hmm.files.storage import StorageError, as_stored, dtype_name, storage_error
from pcgcd.learning.distillation.copying import cross_fitted_log_likelihood, learn_copying
from pcgcd.learning.distillation.embeddings import model_of, spread
from pcgcd.learning.distillation.prompts import Source, sources_of
from pcgcd.learning.distillation.sampling import Engine, sample
from pcgcd.learning.distillation.settings import Fitting, Sampling, Start
from pcgcd.learning.distillation.shards import SampleSet
from pcgcd.learning.distillation.smoothing import predictions, smooth
from pcgcd.learning.distillation.starts import Layout, initialise, load_clustering
from pcgcd.learning.em.fit import fit
from pcgcd.learning.em.pyjuice_em import cuda_device
from pcgcd.learning.processes import Processes
from pcgcd.learning.report import compare, versions, write_report
from pcgcd.learning.results import FitResult, Progress
from pcgcd.learning.resuming import check_same

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel, Prompt

Reading: TypeAlias = "Callable[[int, int], None] | None"


_OTHER = "another distillation"
_WRITTEN = ("start", "smooth", "model.safetensors", "config.json", "report.json", "curve.png")


@dataclass(frozen=True)
class Distilled:
    """An HMM, and how good it is.

    Attributes:
        hmm: The HMM.
        result: The fit; its ``hmm`` is the same before smoothing.
        bits: Held-out bits per token of the HMM, of the language model, and of a bigram model, by
            name; also by whether the samples were drawn under a constraint, if some were.
        folder: Where it was saved.
        epoch: The epoch of the fit that it is from: with the most likely held-out samples, after
            smoothing if there was any.
        strength: That of smoothing, if there was any.
        storage: What the stored emissions cost, if they are not stored as they are.
    """

    hmm: HiddenMarkovModel
    result: FitResult[Any] = field(repr=False)
    bits: Mapping[str, float]
    folder: Path
    epoch: int
    strength: float | None = None
    storage: StorageError | None = None


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
    notes: Mapping[str, Any] | None = None,
    on_sample: Callable[[int, int], None] | None = None,
    on_read: Callable[[int, int], None] | None = None,
    on_fit: Callable[[Progress], None] | None = None,
) -> Distilled:
    """Distil an HMM from a language model into a folder.

    The folder gets ``samples/``, ``start/`` (the model before fitting), ``fit/`` (the state of the
    fit), and in the end the HMM itself with ``report.json`` and ``curve.png``. Interrupted at any
    moment, the same call goes on from there and ends with the same parameters. When
    ``torch.distributed`` is initialised, the processes share the work.

    Args:
        lm: The language model.
        prompts: What it answers; see :func:`~pcgcd.learning.distillation.sampling.sample`.
        out: The folder.
        sampling: How samples are drawn.
        start: Where fitting starts.
        fitting: How the model is fitted; on a CUDA device where there is one.
        seed: Decides everything that is random.
        engine: What answers prompts; by default the language model here.
        emission_dtype: How emissions are stored; see :func:`pcgcd.hmm.files.checkpoints.save_hmm`.
        notes: More entries for the report, such as the command line.
        on_sample: Called after each batch of samples with their number and that of their tokens.
        on_read: Called where the language model reads samples again, for "lvd" and smoothing, with
            how many it has read since the last call and how many there are.
        on_fit: Called after each batch of the fit.

    Raises:
        CheckpointError: The folder belongs to another distillation; says what differs.
        InvalidParameterError: A setting cannot be; before anything is drawn.
    """
    folder = Path(out)
    sampling, start, fitting = sampling or Sampling(), start or Start(), fitting or Fitting()
    sources = sources_of(prompts, lm)
    _check(lm, sampling, start, fitting, emission_dtype, seed, folder)
    samples = sample(
        lm,
        sources,
        **asdict(sampling),
        folder=folder / "samples",
        seed=seed,
        engine=engine,
        progress=on_sample,
    )
    run = _Distillation(lm, sources, samples, start, fitting, seed, folder)
    run.processes.do_first(lambda: run.begin(on_read))
    result = run.fit(on_fit)
    return run.finish(result, on_read, emission_dtype, notes or {})


def _check(
    lm: LanguageModel,
    sampling: Sampling,
    start: Start,
    fitting: Fitting,
    emission_dtype: str | None,
    seed: int,
    folder: Path,
) -> None:
    """Find out now what would fail after hours."""
    vocabulary = lm.vocabulary
    Layout.of(start.num_hidden, vocabulary.logits_size, tuple(vocabulary.eos_ids), start.transition)
    dtype_name(emission_dtype, torch.float32)
    if start.method == "lvd":
        load_clustering()
    if start.method == "lvd" or fitting.smooth:
        model_of(lm)
    if fitting.engine == "pyjuice":
        cuda_device(torch.device("cpu"))
    if (folder / "start").exists():
        there = read_info(folder / "start").facts
        count = there.get("samples", {}).get("samples")
        here = {**asdict(start), "seed": seed, "samples": sampling.samples}
        check_same({**there, "samples": count}, here, folder, _OTHER)


@dataclass(eq=False)
class _Distillation:
    """What comes after sampling; each part is done once, and read back when it was there."""

    lm: LanguageModel
    sources: tuple[Source, ...]
    samples: SampleSet
    start: Start
    fitting: Fitting
    seed: int
    folder: Path

    def __post_init__(self) -> None:
        self.processes = Processes()
        self.training, self.held_out = self.samples.split(self.fitting.held_out)
        if not len(self.training):
            raise InvalidParameterError(
                f"of {len(self.samples)} samples none is left to learn from; draw more, or hold "
                "out less"
            )
        if self.fitting.smooth and not len(self.held_out):
            raise InvalidParameterError(
                f"smoothing needs held-out samples, but of {len(self.samples)} none is; draw more, "
                "or hold out more"
            )

    def facts(self) -> dict[str, Any]:
        """What decides the HMM."""
        return {
            "samples": self.samples.facts(),
            "start": asdict(self.start),
            "fitting": asdict(self.fitting),
            "seed": self.seed,
        }

    def begin(self, on_read: Reading) -> None:
        """Make the model that fitting starts from, unless it is there."""
        for name in _WRITTEN:
            remove_leftovers(self.folder / name)
        start, samples, folder = self.start, self.samples, self.folder / "start"
        facts = {
            **asdict(start),
            "seed": self.seed,
            "samples": samples.facts(),
            "learnt": len(self.training),
        }
        facts = json.loads(json.dumps(facts))
        if folder.exists():
            check_same(read_info(folder).facts, facts, self.folder, _OTHER)
            return
        hmm = initialise(
            samples.tokens[self.training],
            **asdict(start),
            vocab_size=samples.manifest.vocab_size,
            eos_ids=samples.manifest.eos_ids,
            lm=self.lm,
            prompts=self._prompts(self.training) if start.method == "lvd" else None,
            seed=self.seed,
            progress=_told(on_read, len(spread(self.training, start.max_samples))),
        )
        save_hmm(hmm, folder, vocabulary=self.lm.vocabulary, facts=facts)

    def fit(self, progress: Callable[[Progress], None] | None) -> FitResult[Any]:
        """Fit; the result is on the CPU."""
        first = load_hmm(self.folder / "start", vocabulary=self.lm.vocabulary)
        tokens, settings = self.samples.tokens, asdict(self.fitting)
        settings["keep_last"] = settings.pop("smooth")
        settings["held_out"] = tokens[self.held_out] if len(self.held_out) else None
        settings["patience"] = settings["patience"] if len(self.held_out) else None
        del settings["copy"], settings["smooth_samples"]
        result = fit(
            first.to("cuda") if torch.cuda.is_available() else first,
            tokens[self.training],
            **settings,
            seed=self.seed,
            checkpoint_dir=self.folder / "fit",
            progress=progress,
        )
        last = None if result.last is None else result.last.to("cpu")
        return replace(result, hmm=result.hmm.to("cpu"), last=last)

    def smoothed(
        self, result: FitResult[Any], on_read: Reading
    ) -> tuple[HiddenMarkovModel, float, int]:
        """Smooth the fitted model, unless that is done; the model, the strength and its epoch.

        An epoch that is too late by itself can be better when smoothed, so the best epoch and the
        last one are both tried.
        """
        folder = self.folder / "smooth"

        def work() -> None:
            facts = json.loads(json.dumps({**self.facts(), "fitted_epoch": result.best_epoch}))
            if folder.exists():
                there = read_info(folder).facts
                if all(there.get(name) == value for name, value in facts.items()):
                    return
            tokens, eos_ids = self.samples.tokens, self.samples.manifest.eos_ids
            models = {result.best_epoch: result.hmm}
            if result.last is not None:
                models[len(result.history)] = result.last
            read = spread(self.training, self.fitting.smooth_samples)
            predicted = predictions(
                [*models.values()],
                self.lm,
                self._prompts(read),
                tokens[read],
                eos_ids,
                progress=_told(on_read, len(read)),
            )
            scale = len(self.training) / len(read)
            tried = {
                epoch: smooth(model, given.scaled(scale), tokens[self.held_out])
                for (epoch, model), given in zip(models.items(), predicted)
            }
            epoch, best = max(tried.items(), key=lambda item: item[1].held_out)
            save_hmm(best.hmm, folder, facts={**facts, "strength": best.strength, "epoch": epoch})

        self.processes.do_first(work)
        found = read_info(folder).facts
        return load_hmm(folder), float(found["strength"]), int(found["epoch"])

    def copying(self, hmm: HiddenMarkovModel) -> tuple[HiddenMarkovModel, dict[str, float]]:
        """Return the model with what it copies, and the bits per token given the prompt.

        Copying is learnt from all held-out samples. The bits are those of each half of their
        prompts with what was learnt from the other half.
        """
        rows, eos_ids = self.held_out, self.samples.manifest.eos_ids
        prompts, tokens = self._prompts(rows), self.samples.tokens[rows]
        if not any(prompts):
            return hmm, {}
        numbers = self.samples.prompts[rows]
        found = learn_copying(hmm, tokens, prompts, eos_ids)
        hmm = hmm.with_emission(hmm.emission, found)
        value = cross_fitted_log_likelihood(hmm, tokens, prompts, numbers, eos_ids)
        return hmm, {} if value is None else {"hmm, given the prompt": -value / math.log(2)}

    def finish(
        self,
        result: FitResult[Any],
        on_read: Reading,
        emission_dtype: str | None,
        notes: Mapping[str, Any],
    ) -> Distilled:
        """Smooth, learn what is copied, measure and save."""
        facts, epoch, strength = self.facts(), result.best_epoch, None
        hmm, bits = result.hmm, self._bits(result.hmm)
        if self.fitting.smooth:
            hmm, strength, epoch = self.smoothed(result, on_read)
            facts["strength"] = strength
            own = [name for name in bits if name.startswith("hmm")]
            bits = {**self._bits(hmm), **{f"{name}, not smoothed": bits[name] for name in own}}
        if self.fitting.copy:
            hmm, given = self.copying(hmm)
            bits |= given
        storage: StorageError | None = None
        stored = dtype_name(emission_dtype, hmm.emission.dtype)
        if stored != dtype_name(None, hmm.emission.dtype):
            storage = storage_error(hmm, stored)
            facts["storage"] = asdict(storage)
            again = self._bits(as_stored(hmm, stored))
            bits |= {f"hmm, stored as {stored}": again["hmm"]} if again else {}
        if self.processes.is_first:
            facts |= {"best_epoch": epoch, "bits_per_token": dict(bits), "versions": versions()}
            vocabulary = self.lm.vocabulary
            save_hmm(hmm, self.folder, emission_dtype=stored, vocabulary=vocabulary, facts=facts)
            write_report(self.folder, {**notes, **facts}, result, bits)
        self.processes.wait()
        return Distilled(hmm, result, bits, self.folder, epoch, strength, storage)

    def _bits(self, hmm: HiddenMarkovModel) -> dict[str, float]:
        return compare(hmm, self.samples, self.training, self.held_out)

    def _prompts(self, rows: Tensor) -> list[tuple[int, ...]]:
        """Return the tokens of the prompt of each of these samples."""
        numbers = self.samples.prompts[rows].tolist()
        ids = {number: self.lm.encode(self.sources[number].prompt) for number in set(numbers)}
        return [ids[number] for number in numbers]


def _told(on_read: Reading, total: int) -> Callable[[int], None] | None:
    return None if on_read is None else lambda count: on_read(count, total)
