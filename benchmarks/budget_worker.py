"""An engine for JSON schemas that answers over a pipe: which tokens may come next.

    python benchmarks/budget_worker.py <engine> <vocabulary file>

Used by ``pcgcd experiment budget --peers PYTHON``. Each line of the input is answered by one:
``{"schema", "rows", "budget"}`` begins texts, the budget for an engine with a limit of its own,
else null; ``{"masks": rows}`` returns packed masks, and ``{"rows", "tokens"}`` appends tokens.
"""

from __future__ import annotations

import base64
import json
import signal
import sys
from pathlib import Path
from typing import Any

from budget_truncproof import TruncProof
from engines_peers import ENGINES as PEERS

ENGINES = {**PEERS, "truncproof": TruncProof}
_SECONDS = 60  # for one schema


class _TooSlow(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooSlow


def main(name: str, path: str) -> None:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    tokens = [None if text is None else base64.b64decode(text) for text in content["tokens"]]
    try:
        engine: Any = ENGINES[name](
            tokens, content["eos"], content["whitespace"], content["definition"]
        )
    except ImportError as error:
        print(json.dumps({"missing": f"{name} is not installed ({error})"}), flush=True)
        return
    print(json.dumps({"version": engine.version}), flush=True)
    matchers: list[Any] = []
    signal.signal(signal.SIGALRM, _stop)
    for line in sys.stdin:
        question = json.loads(line)
        answer: dict[str, Any] = {}
        if "schema" in question:
            signal.alarm(_SECONDS)
            try:
                schema, budget = question["schema"], question.get("budget")
                compiled = (
                    engine.compile(schema)
                    if budget is None
                    else engine.compile_within(schema, budget)
                )
                matchers = [engine.matcher(compiled) for _ in range(question["rows"])]
            except _TooSlow:
                answer["error"] = f"took more than {_SECONDS} seconds"
            except Exception as error:  # every engine has errors of its own
                answer["error"] = f"{type(error).__name__}: {error}"[:300]
            finally:
                signal.alarm(0)
        elif "masks" in question:
            rows = []
            for row in question["masks"]:
                engine.bits.words[:] = 0
                engine.mask(matchers[row], 1)
                rows.append(engine.bits.words.tobytes())
            answer["masks"] = base64.b64encode(b"".join(rows)).decode()
        else:
            for row, token in zip(question["rows"], question["tokens"], strict=True):
                engine.advance(matchers[row], token)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
