"""Other libraries, each in a process of an environment of its own that speaks JSON lines.

The workers are in the folder ``benchmarks`` of a checkout of this project. What is not installed
there is reported as missing.
"""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pcgcd
from pcgcd.errors import MissingDependencyError

if TYPE_CHECKING:
    from pcgcd.automata import Vocabulary
    from pcgcd.experiments.bias import Run
    from pcgcd.experiments.bias_worlds import World

WORKERS = Path(pcgcd.__file__).parent.parent / "benchmarks"


class Worker:
    """A process that answers each line of JSON with another.

    Attributes:
        hello: The first line that it sent.
    """

    def __init__(self, python: str, script: str, *arguments: str) -> None:
        """Start it.

        Raises:
            MissingDependencyError: The library is not installed there, or there is no worker.
        """
        path = WORKERS / script
        if not path.is_file():
            raise MissingDependencyError(
                f"the worker {script} comes with a checkout of the project, not with the package"
            )
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        try:
            self._process = subprocess.Popen(
                [python, str(path), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**environment, "OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise MissingDependencyError(
                f"the peers' Python could not be started ({error.strerror}); see --peers"
            ) from error
        self.hello: dict[str, Any] = self._read()

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line and wait for the answer.

        Raises:
            MissingDependencyError: The process has ended.
        """
        try:
            self._in.write(json.dumps(question) + "\n")
            self._in.flush()
        except BrokenPipeError:
            return self._read()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self._in.close()
        self._out.close()
        self._process.wait()

    def _read(self) -> dict[str, Any]:
        line = self._out.readline()
        if not line:
            code = self._process.wait()
            raise MissingDependencyError(
                f"{' '.join(map(str, self._process.args[1:3])).rpartition('/')[2]} ended with "  # type: ignore[index]
                f"status {code}: the library is not installed in the peers' environment, or failed"
            )
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise MissingDependencyError(str(answer["missing"]))
        return answer

    @property
    def _in(self) -> Any:
        return self._process.stdin

    @property
    def _out(self) -> Any:
        return self._process.stdout


class MaskEngine:
    """An engine for JSON schemas in another environment: it says which tokens may come next."""

    def __init__(
        self, python: str, engine: str, vocabulary: Vocabulary, definition: str, whitespace: str
    ) -> None:
        """Start it.

        Args:
            python: The Python of its environment.
            engine: Which one.
            vocabulary: The tokens of the language model.
            definition: How texts are usually cut into tokens, for the package tokenizers.
            whitespace: "compact", or anything else for free whitespace.
        """
        texts: list[str | None] = [None] * vocabulary.logits_size
        for i, data in enumerate(vocabulary.token_bytes):
            if data is not None and i not in vocabulary.eos_ids:
                texts[i] = base64.b64encode(data).decode()
        content = {
            "tokens": texts,
            "eos": vocabulary.eos_ids[0],
            "definition": definition,
            "whitespace": whitespace,
        }
        self._width = vocabulary.logits_size
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            self._worker = Worker(python, "budget_worker.py", engine, file.name)
        self.version: str = self._worker.hello["version"]

    def start(self, schema: Any, rows: int, budget: int | None = None) -> str | None:
        """Begin so many texts of a schema; why that is not possible, if it is not.

        Args:
            schema: The schema.
            rows: How many.
            budget: The most tokens, for the limit that the engine itself has.
        """
        answer = self._worker.ask({"schema": schema, "rows": rows, "budget": budget})
        error: str | None = answer.get("error")
        return error

    def masks(self, rows: Sequence[int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens may come next in each of these texts, (rows, V)."""
        answer = self._worker.ask({"masks": list(rows)})
        words = np.frombuffer(base64.b64decode(answer["masks"]), dtype=np.uint8)
        bits = np.unpackbits(words.reshape(len(rows), -1), axis=1, bitorder="little")
        return bits[:, : self._width].astype(bool)

    def advance(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        """Append a token to each of these texts."""
        self._worker.ask({"rows": list(rows), "tokens": list(tokens)})

    def close(self) -> None:
        """End the process."""
        self._worker.close()


@cache
def _genlm(python: str) -> Worker:
    """Return genlm-control's process, started once: importing it takes longer than most runs."""
    return Worker(python, "bias_genlm.py")


def genlm_runs(python: str, sampler: str, world: World, k: int, seed: int, runs: int) -> list[Run]:
    """Runs of genlm-control's SMC in a world that can be enumerated, with the same model and k."""
    from pcgcd.experiments.bias import Run

    vocabulary = world.lm.vocabulary
    ends = sorted(vocabulary.eos_ids)
    texts = [
        [i, base64.b64encode(data).decode()]
        for i, data in enumerate(vocabulary.token_bytes)
        if data is not None and i not in ends
    ]
    # A text that fills the budget ends there: in the table, with certainty.
    last = [float(i == ends[0]) for i in range(vocabulary.logits_size)]
    full = [[list(x), last] for x in world.posterior if x[-1] not in ends]
    content = {
        "tokens": texts,
        "eos": ends,
        "pattern": world.pattern,
        "rows": [[list(prefix), row.tolist()] for prefix, row in world.rows.items()] + full,
        "budget": world.budget + 1,
        "sampler": sampler,
        "particles": k,
        "runs": runs,
        "seed": seed,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        answers = _genlm(python).ask({"file": file.name})
    found = []
    for answer in answers["runs"]:
        posterior: dict[tuple[int, ...], float] = {}
        for sequence, weight in answer["posterior"]:
            for ended, share in _endings(world, tuple(sequence)):
                posterior[ended] = posterior.get(ended, 0.0) + weight * share
        evidence = answer["log_evidence"]
        found.append(Run(posterior, -math.inf if evidence is None else evidence))
    return found


def _endings(world: World, text: tuple[int, ...]) -> list[tuple[tuple[int, ...], float]]:
    """Return a text with each token that can end it, and how likely that is; in full, as it is."""
    if len(text) == world.budget:
        return [(text, 1.0)]
    row = world.rows[text]
    ends = world.lm.vocabulary.eos_ids
    total = sum(float(row[end]) for end in ends)
    return [((*text, end), float(row[end]) / total) for end in ends]
