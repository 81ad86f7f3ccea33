"""vLLM's OpenAI server over HTTP, with the logits processor, and as an endpoint to sample from."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytest.importorskip("vllm")
openai = pytest.importorskip("openai")

from pcgcd.cli import main  # noqa: E402
from pcgcd.learning.distillation.endpoint_engine import EndpointEngine  # noqa: E402
from pcgcd.lm import TransformersLM  # noqa: E402
from tests.vllm.conftest import PROCESSOR  # noqa: E402
from tests.vllm.test_batches import SCHEMA  # noqa: E402
from tests.vllm.test_distillation import check_answers  # noqa: E402

ROOT = Path(__file__).parents[2]
MESSAGES: Any = [{"role": "user", "content": "Describe a person as JSON."}]
SECONDS_TO_START = 400


@pytest.fixture(scope="module")
def url(folder: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the default model, in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", folder]
    command += ["--served-model-name", "smol", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "256"]
    command += ["--max-num-seqs", "8", "--logits-processors", PROCESSOR]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    settings = {**os.environ, "PYTHONPATH": path, "PCGCD_TEST_MODEL": folder}
    settings.pop("VLLM_ENABLE_V1_MULTIPROCESSING", None)  # the server's engine is another process
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as written:
        server = subprocess.Popen(command, env=settings, stdout=written, stderr=written, cwd=ROOT)
    try:
        for _ in range(SECONDS_TO_START):
            if server.poll() is not None:
                break
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(1)
        assert server.poll() is None, log.read_text()[-3000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0)


def ask(client: Any, max_tokens: int, xargs: dict[str, Any], **others: Any) -> Any:
    body = {"vllm_xargs": xargs, **others.pop("extra_body", {})}
    return client.chat.completions.create(
        model="smol", messages=MESSAGES, max_tokens=max_tokens, extra_body=body, **others
    )


@pytest.mark.parametrize("method", ["gcd", "pgcd"])
def test_chat_answers_with_the_schema_given_as_text(client: Any, method: str) -> None:
    xargs = {"pcgcd_json_schema": json.dumps(SCHEMA), "pcgcd_method": method}
    answer = ask(client, 24, xargs, n=3, seed=1)
    assert len(answer.choices) == 3
    for choice in answer.choices:
        jsonschema.validate(json.loads(choice.message.content), SCHEMA)
    assert answer.usage.completion_tokens <= 3 * 24


def test_chat_answers_are_streamed(client: Any) -> None:
    pattern = "[A-Z][a-z]{2,6} is [0-9]{2} years old\\."
    parts = [
        chunk.choices[0].delta.content or ""
        for chunk in ask(client, 16, {"pcgcd_regex": pattern}, stream=True, seed=2)
        if chunk.choices
    ]
    assert len([part for part in parts if part]) > 3
    assert re.fullmatch(pattern, "".join(parts))


def test_requests_that_cannot_be_fulfilled_are_answered_with_400_and_our_words(client: Any) -> None:
    for xargs, words in (
        ({"pcgcd_regex": "[a-z]{300}"}, "smallest budget that works is"),
        ({"pcgcd_json_schema": "{"}, "pcgcd_json_schema is not valid JSON"),
        ({"pcgcd_regex": "a", "pcgcd_choice": "a,b"}, "exactly one constraint"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(client, 4, xargs)
        assert refused.value.status_code == 400
        assert words in str(refused.value)
    answer = ask(client, 4, {"pcgcd_choice": "yes,no"})
    assert answer.choices[0].message.content in ("yes", "no")


def test_clients_that_hang_up_do_not_disturb_the_others(client: Any) -> None:
    found: list[str] = []

    def hang_up() -> None:
        stream = ask(client, 200, {"pcgcd_regex": "([a-z]+ )*[a-z]+\\."}, stream=True)
        next(iter(stream))
        stream.close()

    def stay(seed: int) -> None:
        answer = ask(client, 12, {"pcgcd_regex": "[0-9]{3}-[0-9]{4}"}, seed=seed)
        found.append(answer.choices[0].message.content)

    threads = [threading.Thread(target=hang_up) for _ in range(4)]
    threads += [threading.Thread(target=stay, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(found) == 6
    assert all(re.fullmatch("[0-9]{3}-[0-9]{4}", text) for text in found), found


def test_the_server_answers_prompts_for_distillation(url: str, reference: TransformersLM) -> None:
    check_answers(EndpointEngine(reference, url, "smol", at_once=4), reference)


def test_the_command_distils_from_the_server(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["distill", "--out", str(tmp_path / "hmm"), "--engine", "endpoint", "--endpoint", url]
    asked += ["--served-model", "smol", "--samples", "24", "--length", "8", "--shard", "8"]
    asked += ["--hidden", "4", "--epochs", "1", "--quiet", "--no-copy"]
    assert main(asked) == 0
    manifest = [json.loads(path.read_text()) for path in tmp_path.rglob("manifest.json")]
    assert [found["engine"] for found in manifest] == ["endpoint smol"]
    assert "perplexity" in capsys.readouterr().out or (tmp_path / "hmm").is_dir()
