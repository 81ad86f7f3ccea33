"""One engine of lm_engines.py, in a process of its own with one thread."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import nullcontext
from typing import Any

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1")
os.environ.update(VLLM_CPU_OMP_THREADS_BIND="nobind", VLLM_LOGGING_LEVEL="ERROR")

import numpy as np
import torch
from common import THREADS

import pcgcd
from pcgcd.demo.generation import scenes
from pcgcd.hmm import default_hmm
from pcgcd.lm import VLLM, LanguageModel, LlamaCpp, default_model
from pcgcd.lm.default import packaged_file

METHODS = ("gcd", "pgcd")
# Those whose evidence is estimated; vLLM's is compared by the tests.
COMPARED = ("transformers", "llamacpp f16", "llamacpp bf16")


def load(engine: str) -> LanguageModel:
    """The default model in an engine; ``plain`` is transformers as it comes."""
    if engine.startswith("llamacpp"):
        return LlamaCpp(packaged_file() or "", dtype=engine.split()[1], eos_ids=2)
    lm = default_model()
    if engine == "vllm":
        folder = str(lm.model.config._name_or_path)
        options: Any = {"dtype": "float32", "enforce_eager": True, "max_num_seqs": 64}
        return VLLM(folder, max_model_len=512, distributed_executor_backend="uni", **options)
    if engine == "plain":
        lm._packed = nullcontext()  # type: ignore[assignment]
        lm._shares = False
    return lm


def step_ms(lm: LanguageModel, prompt: tuple[int, ...], rows: int, steps: int) -> dict[str, float]:
    """CPU milliseconds of a step with so many different rows, the prompt's step left out."""
    random = np.random.default_rng(0)
    session = lm.start([prompt] * rows)
    session.log_probs()
    found = []
    for _ in range(steps + 1):
        session.advance(random.choice(20_000, rows, replace=False).tolist())
        started = time.process_time()
        session.log_probs()
        found.append(1e3 * (time.process_time() - started))
    kept = sorted(found[1:])  # the first makes room for the rows
    return {"best": kept[0], "median": kept[len(kept) // 2]}


def evidence(lm: LanguageModel, particles: int, budget: int, seeds: int) -> dict[str, list[float]]:
    """Estimates of log p(constraint) for the function call of the demo, by seed."""
    scene, hmm = scenes()[0], default_hmm()
    return {
        method: [
            float(
                pcgcd.generate(
                    lm,
                    scene.constraint,
                    prompt=lm.encode(scene.messages),
                    hmm=hmm if method == "pgcd" else None,
                    method=method,
                    budget=budget,
                    particles=particles,
                    seed=seed,
                ).log_evidence
            )
            for seed in range(seeds)
        ]
        for method in METHODS
    }


def main(engine: str, given: dict[str, Any]) -> dict[str, Any]:
    lm = load(engine)
    text = tuple(lm.encode(given["text"]))
    rows = lm.log_probs([text[:length] for length in given["lengths"]])
    np.save(given["rows"], rows.numpy())
    steps = {
        str(length): {
            str(k): step_ms(lm, (text * length)[:length], k, given["steps"])
            for k in given["particles"]
        }
        for length in given["prompts"]
    }
    found: dict[str, Any] = {"step_cpu_ms": steps}
    if engine in COMPARED and given["seeds"]:
        found["log_evidence"] = evidence(lm, 16, given["budget"], given["seeds"])
    return found


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    print(json.dumps(main(*json.loads(sys.argv[1]))))
