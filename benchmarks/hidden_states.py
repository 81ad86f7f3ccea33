"""What are more hidden states worth? Held-out bits per token at H = 64, 256 and 1024.

Needs the samples of a distillation (``pcgcd distill`` leaves them in its folder) and its prompts:

    python benchmarks/hidden_states.py --samples my_hmm/samples --prompts prompts.jsonl

All models learn from the same samples, and are measured on the same held-out prompts. The model,
the epoch and the strength of smoothing are chosen on these too, so smoothed figures are a little
too good; those given the prompt come from two halves, each with what was learnt from the other.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

from common import machine, rounded, write_json
from distilled_samples import given_samples
from rich.console import Console
from rich.table import Table

from pcgcd.hmm import HMM
from pcgcd.learning import fit, initialise
from pcgcd.learning.distillation.copying import cross_fitted_log_likelihood
from pcgcd.learning.distillation.embeddings import spread
from pcgcd.learning.distillation.smoothing import predictions, smooth
from pcgcd.learning.em.fit import log_likelihood_per_token
from pcgcd.learning.report import compare

NAME = "hidden_states"
SIZES = (64, 256, 1024)
EPOCHS = 12
# The language model reads this many of the samples again, for the start and for smoothing.
CLUSTERED, READ = 512, 1536


def main(argv: list[str] | None = None) -> int:
    lm, samples, prompts, out = given_samples(argv, __doc__.splitlines()[0])
    training, held_out = samples.split(0.1)
    tokens, eos_ids = samples.tokens, samples.manifest.eos_ids
    results: dict[str, Any] = {
        "benchmark": NAME,
        "command": "python benchmarks/hidden_states.py --samples ... --prompts ...",
        "machine": machine(),
        "samples": len(samples),
        "learnt": len(training),
        "held_out": len(held_out),
        "clustered": CLUSTERED,
        "read_for_smoothing": READ,
        "rows": [],
    }
    models: list[HMM] = []
    first, read = spread(training, CLUSTERED), spread(training, READ)
    for num_hidden in SIZES:
        clock = time.process_time()
        start = initialise(
            tokens[first],
            num_hidden,
            vocab_size=samples.manifest.vocab_size,
            eos_ids=eos_ids,
            method="lvd",
            lm=lm,
            prompts=[prompts[i] for i in first.tolist()],
        )
        started = time.process_time()
        fitted = fit(
            start,
            tokens[training],
            held_out=tokens[held_out],
            epochs=EPOCHS,
            batch_size=256,
            patience=3,
            pseudocount=0.1,
        )
        models.append(fitted.hmm)
        row = {
            "hidden": num_hidden,
            "best_epoch": fitted.best_epoch,
            "start_cpu_s": started - clock,
            "fit_cpu_s": time.process_time() - started,
            "bits": -log_likelihood_per_token(fitted.hmm, tokens[held_out]) / math.log(2),
        }
        results["rows"].append(row)
        print(rounded(row), flush=True)
    clock = time.process_time()
    found = predictions(models, lm, [prompts[i] for i in read.tolist()], tokens[read], eos_ids)
    results["reading_cpu_s"] = time.process_time() - clock
    for row, model, predicted in zip(results["rows"], models, found, strict=True):
        best = smooth(model, predicted.scaled(len(training) / len(read)), tokens[held_out])
        row["strength"], row["smoothed"] = best.strength, -best.held_out / math.log(2)
        given = cross_fitted_log_likelihood(
            best.hmm,
            tokens[held_out],
            [prompts[i] for i in held_out.tolist()],
            samples.prompts[held_out],
            eos_ids,
        )
        row["given_the_prompt"] = None if given is None else -given / math.log(2)
        print(rounded(row), flush=True)
    others = compare(models[0], samples, training, held_out)
    results["bigram"], results["language_model"] = others["bigram"], others["language model"]
    for part in tables(results):
        Console().print(part)
    write_json(rounded(results), out / f"{NAME}.json")
    return 0


def tables(results: dict[str, Any]) -> list[Table | str]:
    made = Table(title="held-out bits per token", title_justify="left")
    for column in ("H", "fitted", "smoothed", "given the prompt", "epoch", "fit, CPU s"):
        made.add_column(column, justify="right")
    for row in results["rows"]:
        made.add_row(
            f"{row['hidden']:,}",
            *(f"{row[name]:.2f}" for name in ("bits", "smoothed", "given_the_prompt")),
            str(row["best_epoch"]),
            f"{row['fit_cpu_s']:.0f}",
        )
    others = f"bigram {results['bigram']:.2f}, the language model {results['language_model']:.2f}"
    return [made, f"For comparison: {others}."]


if __name__ == "__main__":
    sys.exit(main())
