"""``pcgcd distill``: an HMM from samples of a language model.

Several processes distil together: ``torchrun --nproc-per-node 2 -m pcgcd distill ...``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcgcd.learning.distillation.pipeline import Distilled
    from pcgcd.learning.distillation.sampling import Engine
    from pcgcd.lm import LanguageModel

# The options that have the names of settings of Fitting.
_OF_FITTING = (
    *("epochs", "step_size", "pseudocount", "dropout", "patience", "held_out", "smooth"),
    *("smooth_samples", "checkpoint_seconds"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    add = parser.add_argument
    add("--out", type=Path, required=True, help="the folder of the HMM")
    add("--model", help="a model's folder or hub id; without it, the default model")
    add("--seed", type=int, default=0, help="decides everything (%(default)s)")
    add("--quiet", action="store_true", help="no progress bars")

    add = parser.add_argument_group("samples").add_argument
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help="a prompt on each line, or JSON lines with prompt or messages, and maybe a constraint "
        "(file.jsonl); without it, samples follow the beginning of a text",
    )
    add("--samples", type=int, default=10_000, help="(%(default)s)")
    add("--length", type=int, default=32, help="tokens of each (%(default)s)")
    add("--sample-batch", type=int, default=64, help="at once (%(default)s)")
    add("--shard", type=int, default=256, help="samples per file (%(default)s)")
    add("--group", type=int, default=1, help="samples in a row for one prompt (%(default)s)")
    add(
        "--engine",
        choices=["auto", "transformers", "llamacpp", "vllm", "endpoint"],
        default="auto",
        help="what answers prompts: auto takes vLLM where it is installed and there is a GPU, else "
        "the model itself; llamacpp computes in bfloat16; vllm and endpoint leave prompts with "
        "constraints to the model (%(default)s)",
    )
    add("--endpoint", metavar="URL", help="a server with OpenAI's interface: http://host:8000/v1")
    add("--served-model", metavar="NAME", help="the model's name at the endpoint")
    add(
        "--shards",
        type=_shard_range,
        metavar="FIRST:STOP",
        help="draw only these shards and do not fit: for several machines that share --out",
    )

    add = parser.add_argument_group("start").add_argument
    add("--hidden", type=int, default=256, help="hidden states (%(default)s)")
    add("--transition", choices=["dense", "monarch"], default="dense", help="(%(default)s)")
    add(
        "--init",
        choices=["random", "lvd"],
        default="random",
        help="random, or clusters of the model's hidden states (%(default)s)",
    )
    add("--init-samples", type=int, default=2048, help="samples to cluster (%(default)s)")

    add = parser.add_argument_group("fit").add_argument
    add("--epochs", type=int, default=20, help="(%(default)s)")
    add("--batch", type=int, default=256, help="sequences per step (%(default)s)")
    add("--step-size", type=float, default=1.0, help="the first (%(default)s)")
    add("--pseudocount", type=float, default=0.1, help="(%(default)s)")
    add("--dropout", type=float, default=0.0, help="(%(default)s)")
    add("--patience", type=int, default=3, help="epochs without a better one (%(default)s)")
    add(
        "--em-engine",
        choices=["own", "pyjuice"],
        default="own",
        help="whose EM; pyjuice's needs a CUDA device (%(default)s)",
    )
    add("--held-out", type=float, default=0.1, help="share (%(default)s)")
    add(
        "--smooth",
        action="store_true",
        help="smooth emissions with the model's predictions: good where samples are few",
    )
    add(
        "--smooth-samples",
        type=int,
        default=4096,
        help="samples that smoothing reads, at most (%(default)s)",
    )
    add(
        "--no-copy",
        action="store_true",
        help="do not learn how answers repeat words of their prompts",
    )
    add("--checkpoint-seconds", type=float, default=300.0, help="between saves (%(default)s)")
    add(
        "--store",
        choices=["float32", "float16", "bfloat16", "int8"],
        default="float32",
        help="how emissions are stored (%(default)s)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Distil, and print how good the HMM is."""
    from pcgcd.learning.processes import together

    with together():
        _distill(arguments)


def _distill(given: argparse.Namespace) -> None:
    from pcgcd.basics.numbers import check_whole_number
    from pcgcd.learning.distillation.bars import bars
    from pcgcd.learning.distillation.pipeline import distill
    from pcgcd.learning.distillation.prompts import read_prompts
    from pcgcd.learning.distillation.sampling import sample
    from pcgcd.learning.distillation.settings import Fitting, Sampling, Start
    from pcgcd.learning.processes import Processes
    from pcgcd.lm import load_model

    sampling = Sampling(given.samples, given.length, given.sample_batch, given.shard, given.group)
    start = Start(given.hidden, given.transition, given.init, given.init_samples)
    fitting = Fitting(
        batch_size=given.batch,
        copy=not given.no_copy,
        engine=given.em_engine,
        **{name: getattr(given, name) for name in _OF_FITTING},
    )
    check_whole_number("seed", given.seed)
    prompts = None if given.prompts is None else read_prompts(given.prompts)
    lm = load_model(given.model)
    engine = _engine(given, lm)
    is_first = Processes().is_first
    if given.shards is not None:
        with bars(len(given.shards) * given.shard, wanted=is_first and not given.quiet) as told:
            found = sample(
                lm,
                prompts,
                **asdict(sampling),
                folder=given.out / "samples",
                seed=given.seed,
                engine=engine,
                shards=given.shards,
                progress=told.on_sample,
            )
        if is_first:
            print(f"{len(found)} of {given.samples} samples are in {given.out}.")
        return
    with bars(given.samples, wanted=is_first and not given.quiet) as told:
        distilled = distill(
            lm,
            prompts,
            given.out,
            sampling=sampling,
            start=start,
            fitting=fitting,
            seed=given.seed,
            engine=engine,
            emission_dtype=given.store,
            notes={"options": _options(given)},
            on_sample=told.on_sample,
            on_read=told.on_read,
            on_fit=told.on_fit,
        )
    if is_first:
        _print(distilled)


def _shard_range(text: str) -> range:
    first, _, stop = text.partition(":")
    try:
        found = range(int(first), int(stop))
    except ValueError:
        found = range(0)
    if not found:
        raise argparse.ArgumentTypeError(f"expected FIRST:STOP, such as 0:16, but found {text!r}")
    return found


def _engine(given: argparse.Namespace, lm: LanguageModel) -> Engine | None:
    import torch

    from pcgcd.errors import InvalidParameterError
    from pcgcd.learning.distillation.endpoint_engine import EndpointEngine
    from pcgcd.learning.distillation.sampling import SessionEngine
    from pcgcd.learning.distillation.vllm_engine import VLLMEngine, is_installed
    from pcgcd.lm import LlamaCpp
    from pcgcd.lm.default import packaged_file

    name = given.engine
    if (name == "endpoint") != (given.endpoint is not None):
        raise InvalidParameterError("--engine endpoint and --endpoint URL belong together")
    if name == "endpoint":
        if given.served_model is None:
            raise InvalidParameterError(
                "--engine endpoint needs --served-model, the model's name at the endpoint"
            )
        return EndpointEngine(lm, given.endpoint, given.served_model)
    if name == "vllm" or (name == "auto" and is_installed() and torch.cuda.is_available()):
        return VLLMEngine(lm)
    if name == "llamacpp" and not isinstance(lm, LlamaCpp):
        file = packaged_file() if given.model is None else None
        if file is None:
            raise InvalidParameterError(
                "--engine llamacpp needs a GGUF file: give one with --model, or leave out --model "
                "for the default model"
            )
        fast = LlamaCpp(file, dtype="bf16", eos_ids=lm.vocabulary.eos_ids)
        return SessionEngine(fast, name="llama.cpp bf16")
    return None


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """All options, those by default among them, as plain data."""
    plain = bool | int | float | str | None
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in sorted(vars(arguments).items())
        if isinstance(value, plain | Path)
    }


def _print(distilled: Distilled) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if distilled.bits:
        table = Table(title="held-out bits per token", title_justify="left")
        table.add_column("model")
        table.add_column("bits", justify="right")
        for name, bits in distilled.bits.items():
            table.add_row(name, f"{bits:.3f}")
        console.print(table)
    best = f"epoch {distilled.epoch} of {len(distilled.result.history)} was best"
    if distilled.strength is not None:
        best += f", smoothed with the strength {distilled.strength:g}"
    lines = [f"The HMM is in {distilled.folder} ({best})."]
    if distilled.storage is not None:
        error = distilled.storage
        lines.append(
            f"Its emissions take {error.num_bytes / 1e6:.1f} MB as {error.dtype}; stored rows "
            f"differ from the true ones by {error.mean_kl:.2g} nats on average (KL)."
        )
    hint = _advice(distilled.bits)
    lines += [hint] if hint else []
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _advice(bits: Mapping[str, float]) -> str:
    """What to do about an HMM that predicts worse than a bigram model; nothing for a better one.

    >>> _advice({"hmm": 7.6, "bigram": 8.2})
    ''
    """
    own, bigram = bits.get("hmm"), bits.get("bigram")
    if own is None or bigram is None or own <= bigram:
        return ""
    return (
        f"It predicts worse than a bigram model ({own:.3f} against {bigram:.3f} bits a token): it "
        "will hardly guide. Use more samples (--samples), more hidden states (--hidden), "
        "more epochs (--epochs), --smooth, or prompts like those that it will be used with "
        "(--prompts)."
    )
