"""genlm-control's SMC on languages that can be enumerated.

    python benchmarks/bias_genlm.py

Used by ``pcgcd experiment bias --peers PYTHON``. Each line of the input names a file, and is
answered by the runs that the file asks for. The language model is the table in the file; the
constraint is genlm's own automaton of the same regular expression, coerced to tokens. The samplers
are AWRS and the exact product ``llm * fsa``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

ESS_THRESHOLD = 0.5


def potential(content: dict[str, Any]) -> Any:
    """The table as a language model of genlm."""
    from genlm.backend.tokenization import Token
    from genlm.control import Potential

    rows = {tuple(prefix): np.array(row) for prefix, row in content["rows"]}
    numbers = [i for i, _ in content["tokens"]]
    width = len(numbers)

    class Table(Potential):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__([Token(i, base64.b64decode(text)) for i, text in content["tokens"]])

        def row(self, context: Any) -> Any:
            """Log-probabilities of the tokens, and of the end; nothing follows what is unknown."""
            found = rows.get(tuple(token.token_id for token in context))
            if found is None:
                return np.full(width + 1, -np.inf)
            with np.errstate(divide="ignore"):
                return np.log(np.append(found[numbers], found[content["eos"]].sum()))

        async def logw_next(self, context: Any) -> Any:
            return self.make_lazy_weights(self.row(context))

        async def prefix(self, context: Any) -> float:
            logs = [self.row(context[:t])[self.lookup[token]] for t, token in enumerate(context)]
            return float(np.sum(logs))

        async def complete(self, context: Any) -> float:
            return await self.prefix(context) + float(self.row(context)[-1])

    return Table()


async def run(sampler: Any, content: dict[str, Any]) -> dict[str, Any]:
    """One run: the tokens of the texts that ended, without the end, and their weights."""
    from genlm.control.constant import EndOfSequence

    result = await sampler.smc(
        n_particles=content["particles"],
        ess_threshold=ESS_THRESHOLD,
        max_tokens=content["budget"],
    )
    found: dict[tuple[int, ...], float] = {}
    for context, weight in zip(result.contexts, result.log_weights, strict=True):
        if not context or not isinstance(context[-1], EndOfSequence) or not weight > -math.inf:
            continue
        ids = tuple(token.token_id for token in context[:-1])
        found[ids] = found.get(ids, 0.0) + math.exp(float(weight))
    total = sum(found.values())
    if not total:
        return {"posterior": [], "log_evidence": None}
    evidence = math.log(total / content["particles"])
    posterior = [[list(ids), weight / total] for ids, weight in found.items()]
    return {"posterior": posterior, "log_evidence": evidence}


def runs(path: str) -> list[dict[str, Any]]:
    """All runs that a file asks for."""
    from genlm.control import AWRS, BoolFSA, direct_token_sampler

    content = json.loads(Path(path).read_text(encoding="utf-8"))
    random.seed(content["seed"])
    np.random.seed(content["seed"])  # noqa: NPY002 - what genlm draws from
    model = potential(content)
    condition = BoolFSA.from_regex(content["pattern"]).coerce(model, f=b"".join)
    if content["sampler"] == "AWRS":
        sampler = AWRS(model, condition, seed=content["seed"])
    else:
        sampler = direct_token_sampler(model * condition)
    return [asyncio.run(run(sampler, content)) for _ in range(content["runs"])]


def main() -> None:
    try:
        import genlm.control  # noqa: F401 - whether it is there
    except ImportError as error:
        print(json.dumps({"missing": f"genlm-control is not installed ({error})"}), flush=True)
        return
    print(json.dumps({}), flush=True)
    for line in sys.stdin:
        print(json.dumps({"runs": runs(json.loads(line)["file"])}), flush=True)


if __name__ == "__main__":
    main()
