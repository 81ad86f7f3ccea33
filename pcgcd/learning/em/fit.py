"""Fitting an HMM to sequences: mini-batch EM."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor

from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm.model import HiddenMarkovModel
from pcgcd.hmm.walks import observed_tokens
from pcgcd.learning.em.fit_state import FitFolder, FitState
from pcgcd.learning.em.parameters import Parameters
from pcgcd.learning.em.pyjuice_em import PyjuiceEM
from pcgcd.learning.processes import Processes
from pcgcd.learning.results import Epoch, FitResult, Model, Progress
from pcgcd.learning.resuming import generator_of
from pcgcd.learning.sequences import Data, Sequences, inside, lengths_of

_LOGGER = logging.getLogger(__name__)

Schedule = Callable[[float], float]
EMEngine: TypeAlias = Literal["own", "pyjuice"]


def fit(
    hmm: Model,
    data: Data,
    *,
    epochs: int = 10,
    batch_size: int = 256,
    step_size: float | Schedule = 1.0,
    pseudocount: float = 0.1,
    dropout: float = 0.0,
    held_out: Data | None = None,
    patience: int | None = None,
    keep_last: bool = False,
    seed: int = 0,
    engine: EMEngine = "own",
    checkpoint_dir: str | Path | None = None,
    checkpoint_seconds: float = 300.0,
    progress: Callable[[Progress], None] | None = None,
) -> FitResult[Model]:
    """Fit a model to sequences by mini-batch EM (Baum-Welch).

    Each batch gives expected counts, and each distribution of the model moves towards them:

        theta <- (1 - step) theta + step * normalised(counts + pseudocount)

    Zeros of the model stay zero, so an absorbing EOS state stays absorbing. Where the model has
    one, padding behind a sequence's first EOS is certain: it is neither walked nor counted.

    With ``batch_size=len(data), step_size=lambda done: 1.0, pseudocount=0`` this is the textbook's
    EM, which never lowers the likelihood of the data.

    When ``torch.distributed`` is initialised, each process walks its part of each batch, and the
    counts are summed; all processes must be given the same arguments.

    Args:
        hmm: Where to start; it is not changed.
        data: Tokens (N, n), padded with EOS, or a list of such arrays (shards, which may be mapped
            from files); -1 where a position was not observed.
        epochs: Passes over the data.
        batch_size: Sequences per step.
        step_size: The first one, which then goes to zero linearly; or a function from the fraction
            of all steps that are done, in [0, 1), to a step size in [0, 1].
        pseudocount: Mass added to each distribution, spread evenly over what is possible there.
        dropout: The fraction of tokens that are hidden from each step.
        held_out: Sequences to measure likelihood on after each epoch; the best epoch's model wins.
        patience: Stop after this many epochs without a better one (the start does not count); by
            default never.
        keep_last: Also return the model of the last epoch, if another one wins.
        seed: Decides the order of batches and what is dropped.
        engine: "own", or "pyjuice": dense transitions, on a CUDA device, in one process, with a
            pseudocount; see :class:`~pcgcd.learning.em.pyjuice_em.PyjuiceEM`. Its sums on a GPU
            are not the same to the last bit each time.
        checkpoint_dir: A folder for the state of the fit. Interrupted at any moment, the same call
            resumes from it and ends with the same parameters, bit for bit.
        checkpoint_seconds: How often the state is written, besides after each epoch.
        progress: Called after each batch.

    Raises:
        ImpossibleEvidenceError: A sequence has probability zero under the model.
        CheckpointError: The folder holds another fit, or a damaged file.

    >>> from pcgcd import HMM
    >>> hmm = HMM.random(2, 3, generator=torch.Generator().manual_seed(0))
    >>> data = torch.tensor([[0, 1, 2], [0, 2, 2], [0, 1, 2]])
    >>> result = fit(hmm, data, epochs=20, batch_size=3, step_size=lambda done: 1.0, pseudocount=0)
    >>> result.history[-1].train > result.history[0].train
    True
    """
    schedule = step_size if callable(step_size) else _linear(float(step_size))
    plan = _Plan(epochs, batch_size, schedule, pseudocount, dropout, patience, seed, engine)
    device = hmm.emission.device
    training = Sequences(data, hmm.vocab_size, device)
    if not len(training):
        raise InvalidParameterError("there must be at least one sequence to learn from")
    measured = None if held_out is None else Sequences(held_out, hmm.vocab_size, device)
    if measured is not None and not len(measured):
        raise InvalidParameterError("held_out must have at least one sequence, or be None")
    with torch.no_grad():
        folder = None
        parameters = Parameters.copy_of(hmm)
        if checkpoint_dir is not None:
            settings = plan.settings(training, measured, parameters)
            folder = FitFolder(Path(checkpoint_dir), settings)
        run = _Run(
            plan,
            training,
            measured,
            parameters,
            hmm.ending_tokens,
            folder,
            checkpoint_seconds,
            progress,
        )
        return cast("FitResult[Model]", run.finish(keep_last))


def log_likelihood_per_token(
    hmm: HiddenMarkovModel, data: Data, *, batch_size: int = 1024, alone: bool = False
) -> float:
    """Nats per token of sequences under a model; padding behind the first EOS is not counted.

    Args:
        hmm: The model.
        data: The sequences; see :func:`fit`.
        batch_size: How many are walked at once.
        alone: Do not share the work with the other processes of ``torch.distributed``, which
            otherwise must call this too.
    """
    with torch.no_grad():
        sequences = Sequences(data, hmm.vocab_size, hmm.emission.device)
        parameters = Parameters.copy_of(hmm)
        processes = Processes(sequences.device, alone=alone)
        return _measure(parameters, sequences, batch_size, hmm.ending_tokens, processes)


def _linear(start: float) -> Schedule:
    if not 0 < start <= 1:
        raise InvalidParameterError(f"the step size must lie in (0, 1], but is {start:g}")
    return lambda done: start * (1 - done)


def check_fitting(settings: Any) -> None:
    """Check arguments of :func:`fit`, in an object that has them as attributes."""
    check_whole_number("epochs", settings.epochs)
    check_whole_number("batch_size", settings.batch_size, least=1)
    check_whole_number("patience", 1 if settings.patience is None else settings.patience, least=1)
    check_one_of("engine", settings.engine, "own", "pyjuice")
    if not 0 <= settings.pseudocount < math.inf:
        raise InvalidParameterError(
            f"pseudocount must be 0 or more, but is {settings.pseudocount:g}"
        )
    if not 0 <= settings.dropout < 1:
        raise InvalidParameterError(f"dropout must be in [0, 1), but is {settings.dropout:g}")


@dataclass(frozen=True)
class _Plan:
    """What decides the result of a fit, apart from data and start."""

    epochs: int
    batch_size: int
    schedule: Schedule
    pseudocount: float
    dropout: float
    patience: int | None
    seed: int
    engine: EMEngine

    def __post_init__(self) -> None:
        check_fitting(self)

    def batches(self, data: Sequences) -> int:
        return -(-len(data) // self.batch_size)

    def step_size(self, step: int, steps: int) -> float:
        size = float(self.schedule(step / steps))
        if not 0 <= size <= 1:
            raise InvalidParameterError(
                f"step sizes must lie in [0, 1], but the schedule gave {size:g} at step {step} of "
                f"{steps}"
            )
        return size

    def settings(
        self, data: Sequences, held_out: Sequences | None, start: Parameters
    ) -> dict[str, Any]:
        """Return what is the same for the same call, and different for most others."""
        own = {name: value for name, value in vars(self).items() if name != "schedule"}
        if self.engine == "own":
            del own["engine"]
        return {
            **own,
            "step_size": [round(float(self.schedule(k / 8)), 12) for k in range(8)],
            "data": data.fingerprint(),
            "held_out": None if held_out is None else held_out.fingerprint(),
            "start": _sample_hash(start),
        }


def _sample_hash(parameters: Parameters) -> str:
    digest = hashlib.sha256()
    for name, tensor in parameters.tensors().items():
        flat = tensor.view(-1)
        sample = flat[:: max(1, len(flat) // 4096)].cpu()
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(sample.contiguous().numpy().tobytes())
    return digest.hexdigest()


def batch_order(
    num_sequences: int, batch_size: int, *, seed: int, epoch: int
) -> tuple[Tensor, ...]:
    """Return the sequences of each batch of an epoch (from 0), which nothing else decides."""
    order = torch.randperm(num_sequences, generator=generator_of(seed, epoch))
    return tuple(order.split(batch_size))


def _measure(
    parameters: Parameters,
    data: Sequences,
    batch_size: int,
    ending: tuple[int, ...],
    processes: Processes,
) -> float:
    """Nats per token, over all processes."""
    likelihood, tokens = 0.0, 0
    for number, batch in enumerate(data.batches(batch_size)):
        if number % processes.count == processes.rank:
            lengths = lengths_of(batch, ending)
            likelihood += float(parameters.log_likelihoods(batch, lengths).sum())
            tokens += int(((batch >= 0) & inside(batch, lengths)).sum())
    likelihood, total = processes.total(likelihood, tokens)
    return likelihood / max(1.0, total)


@dataclass
class _Run:
    """One fit, from its start or from where it was interrupted."""

    plan: _Plan
    data: Sequences
    held_out: Sequences | None
    parameters: Parameters
    ending: tuple[int, ...]
    folder: FitFolder | None
    checkpoint_seconds: float
    progress: Callable[[Progress], None] | None
    state: FitState = field(default_factory=FitState)
    best: dict[str, Tensor] | None = None

    def __post_init__(self) -> None:
        self.processes = Processes(self.data.device)
        self.batches = self.plan.batches(self.data)
        self.started = self.saved = self.ticked = time.monotonic()
        self.walked = self.stepped = 0
        self.size = 0.0
        self.pyjuice: PyjuiceEM | None = None

    def finish(self, keep_last: bool) -> FitResult[Any]:
        """Do what is left to do."""
        self._resume()
        if self.plan.engine == "pyjuice" and not self.state.finished:
            self._start_pyjuice()
        while not self.state.finished:
            self._epoch()
        state, last = self.state, None
        if self.held_out is not None:
            if keep_last and state.best_epoch != state.epoch:
                last = self.parameters.to_hmm()
            self._restore_best()
        return FitResult(
            hmm=self.parameters.to_hmm(),
            history=tuple(state.history),
            best_epoch=state.best_epoch if self.held_out is not None else state.epoch,
            stopped_early=state.epoch < self.plan.epochs,
            steps=state.epoch * self.batches,
            start_held_out=state.start_held_out,
            last=last,
        )

    def _resume(self) -> None:
        folder = self.folder
        found = self.processes.do(lambda: folder.load(self.parameters) if folder else None)
        self.processes.agree(found.epoch * self.batches + found.batch if found else -1)
        if folder is not None and self.processes.is_first:
            folder.clean()
        if found is not None:
            self.state = found
            return
        self.state.finished = not self.plan.epochs
        self.state.start_held_out = self._measured()
        self._keep_if_best(self.state.start_held_out)

    def _start_pyjuice(self) -> None:
        if self.processes.count > 1:
            raise InvalidParameterError(
                f"pyjuice's EM runs in one process, but there are {self.processes.count}; take "
                "engine='own'"
            )
        self.pyjuice = PyjuiceEM(self.parameters, self.data.length, self.plan.pseudocount)

    def _measured(self) -> float | None:
        if self.held_out is None:
            return None
        size = self.plan.batch_size
        return _measure(self.parameters, self.held_out, size, self.ending, self.processes)

    def _epoch(self) -> None:
        """One pass over the data, or what is left of it."""
        state, plan = self.state, self.plan
        self.ticked = time.monotonic()
        parts = batch_order(len(self.data), plan.batch_size, seed=plan.seed, epoch=state.epoch)
        while state.batch < self.batches:
            self._step(self.data.rows(parts[state.batch]))
            now = time.monotonic()
            state.seconds += now - self.ticked
            self.ticked = now
            self._report()
            if state.batch < self.batches and now - self.saved >= self.checkpoint_seconds:
                self._collect()
                self._save()
        self._end_epoch()

    def _step(self, batch: Tensor) -> None:
        """The E step of a batch, shared among the processes, and the M step."""
        state, plan = self.state, self.plan
        number = state.epoch * self.batches + state.batch
        self.size = plan.step_size(number, plan.epochs * self.batches)
        lengths = lengths_of(batch, self.ending)
        if plan.dropout:
            hidden = torch.rand(batch.shape, generator=generator_of(plan.seed, number, 1))
            batch = batch.masked_fill((hidden < plan.dropout).to(batch.device), -1)
        num_tokens = int(((batch >= 0) & inside(batch, lengths)).sum())
        if self.pyjuice is not None:
            state.log_likelihood += self.pyjuice.step(batch, self.size)
        else:
            state.log_likelihood += self._own_step(batch, lengths)
        state.tokens += num_tokens
        self.walked += num_tokens
        self.stepped += 1
        state.batch += 1

    def _own_step(self, batch: Tensor, lengths: Tensor | None) -> float:
        """Do the step of this library; return the log-likelihood of the batch before it."""
        tokens = observed_tokens(batch)
        own = slice(self.processes.rank, None, self.processes.count)
        part = None if lengths is None else lengths[own]
        counts = self.processes.do(lambda: self.parameters.counts(batch[own], tokens, part))
        counts = counts.summed(self.processes)
        self.parameters.update(counts, self.size, self.plan.pseudocount)
        return counts.log_likelihood

    def _end_epoch(self) -> None:
        state, plan = self.state, self.plan
        self._collect()
        self.parameters.write_out()
        held_out = self._measured()
        seconds = state.seconds + time.monotonic() - self.ticked
        train = state.log_likelihood / max(1, state.tokens)
        state.epoch += 1
        state.history.append(Epoch(state.epoch, self.size, train, held_out, round(seconds, 3)))
        _LOGGER.info("epoch %d: %.4f in training, %s held out", state.epoch, train, held_out)
        self._keep_if_best(held_out)
        state.finished = state.epoch >= plan.epochs or (held_out is not None and self._is_tired())
        state.batch, state.tokens, state.log_likelihood, state.seconds = 0, 0, 0.0, 0.0
        self._save()

    def _is_tired(self) -> bool:
        """Whether no epoch was better than the ones before it for too long.

        The start does not count: the first steps forget a good one, and later ones make up for it.
        """
        state, patience = self.state, self.plan.patience
        best = max(
            state.history,
            key=lambda epoch: -math.inf if epoch.held_out is None else epoch.held_out,
        )
        return patience is not None and state.epoch - best.epoch >= patience

    def _keep_if_best(self, held_out: float | None) -> None:
        state = self.state
        if held_out is None or (state.best is not None and not held_out > state.best):
            return
        state.best, state.best_epoch = held_out, state.epoch
        if self.folder is None:
            self.best = {name: part.clone() for name, part in self.parameters.tensors().items()}
        elif self.processes.is_first:
            self.folder.save_best(self.parameters)

    def _restore_best(self) -> None:
        self.processes.wait()
        if self.folder is not None:
            self.folder.load_best(self.parameters)
        elif self.best is not None:
            self.parameters.assign(self.best)
            self.best = None

    def _collect(self) -> None:
        """The parameters as they are, where the engine has its own."""
        if self.pyjuice is not None:
            self.pyjuice.write_to(self.parameters)

    def _save(self) -> None:
        if self.folder is not None and self.processes.is_first:
            self.folder.save(self.state, self.parameters)
        self.saved = time.monotonic()

    def _report(self) -> None:
        if self.progress is None or not self.processes.is_first:
            return
        state, spent = self.state, time.monotonic() - self.started
        left = self.plan.epochs * self.batches - state.epoch * self.batches - state.batch
        self.progress(
            Progress(
                epoch=state.epoch + 1,
                epochs=self.plan.epochs,
                batch=state.batch,
                batches=self.batches,
                step_size=self.size,
                train=state.log_likelihood / max(1, state.tokens),
                tokens_per_second=self.walked / max(spent, 1e-9),
                seconds_left=left * spent / max(1, self.stepped),
            )
        )
