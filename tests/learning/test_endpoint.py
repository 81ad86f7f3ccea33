"""Samples of a server, and of several machines that share the work."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from pcgcd.cli import main
from pcgcd.errors import InvalidParameterError, PcgcdError
from pcgcd.learning import SampleSet, sample
from pcgcd.learning.distillation import endpoint_engine
from pcgcd.learning.distillation.endpoint_engine import EndpointEngine
from tests.learning.worlds import distance, frequencies, table, texts

EOS = (3, 4)


class Server:
    """Answers as OpenAI's interface does, with tokens of a table; ``fault`` spoils the answers."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.fault = ""
        lm = table()

        def rows(prefix: list[int]) -> list[float]:
            return [float(p) for p in lm.log_probs([tuple(prefix)])[0].exp()]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                again = any(body["seed"] == asked["seed"] for asked in self.requests)
                self.requests.append(body)
                self.keys.append(handler.headers.get("Authorization"))
                if self.fault == "busy" and not again:
                    handler.send_error(503)
                    return
                if self.fault == "refused" or handler.path != "/v1/completions":
                    handler.send_error(400, "no such model")
                    return
                choose, ids = random.Random(body["seed"]), list[int]()
                scores = []
                while len(ids) < body["max_tokens"] and not (ids and ids[-1] in EOS):
                    weights = rows([*body["prompt"], *ids])
                    ids += choose.choices(range(len(weights)), weights)
                    scores.append(float(torch.tensor(weights[ids[-1]]).log()))
                answer: dict[str, Any] = {
                    "logprobs": {
                        "token_logprobs": scores,
                        "tokens": [f"token_id:{token}" for token in ids],
                    },
                }
                if self.fault == "texts":
                    answer["logprobs"]["tokens"] = ["a" for _ in ids]
                if self.fault == "no scores":
                    answer["logprobs"] = None
                if self.fault == "no end":
                    kept = [i for i, token in enumerate(ids) if token not in EOS]
                    answer["logprobs"] = {
                        key: [values[i] for i in kept] for key, values in answer["logprobs"].items()
                    }
                data = json.dumps({"choices": [answer]}).encode()
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(data)))
                handler.end_headers()
                handler.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        class Listening(ThreadingHTTPServer):
            request_queue_size = 256

        self._server = Listening(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(endpoint_engine.time, "sleep", lambda seconds: None)
    running = Server()
    yield running
    running.close()


def draw(server: Server, folder: Path, **options: Any) -> SampleSet:
    settings: dict[str, Any] = {"samples": 30, "length": 3, "shard_size": 10, "seed": 1} | options
    engine = EndpointEngine(table(), server.url, "some/model", key=settings.pop("key", None))
    return sample(table(), [(0,), (1,)], folder=folder, engine=engine, **settings)


def test_samples_of_a_server_have_the_distribution_of_its_model(
    server: Server, tmp_path: Path
) -> None:
    lm, count = table(), 600
    engine = EndpointEngine(lm, server.url, "some/model")
    samples = sample(
        lm, [(1,)], samples=count, length=3, shard_size=count, batch_size=count, folder=tmp_path,
        engine=engine,
    )  # fmt: skip
    true = texts(lm, 3, prompt=(1,))
    spread = sum((p * (1 - p) / count) ** 0.5 for p in true.values()) / 2
    assert distance(frequencies(samples.tokens), true) < 2 * spread
    assert len({request["seed"] for request in server.requests}) == count
    first = server.requests[0]
    assert (first["temperature"], first["top_p"], first["prompt"]) == (1.0, 1.0, [1])
    assert samples.manifest.engine == "endpoint some/model"


def test_log_probabilities_are_those_of_the_server(server: Server, tmp_path: Path) -> None:
    samples, lm = draw(server, tmp_path, key="secret"), table()
    assert set(server.keys) == {"Bearer secret"}
    for row, text in enumerate(samples.tokens.tolist()):
        length = int(samples.num_tokens[row])
        prompt = (row % 2,)
        expected = sum(
            float(lm.log_probs([(*prompt, *text[:i])])[0, text[i]]) for i in range(length)
        )
        assert float(samples.log_probs[row]) == pytest.approx(expected, rel=1e-5)
        assert all(token == text[length - 1] for token in text[length:])


def test_a_server_that_is_busy_is_asked_again(server: Server, tmp_path: Path) -> None:
    expected = draw(server, tmp_path / "a")
    server.requests.clear()
    server.fault = "busy"
    assert torch.equal(draw(server, tmp_path / "b").tokens, expected.tokens)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("refused", PcgcdError, r"(?s)400 no such model.*run the same command again"),
        ("texts", InvalidParameterError, "without the ids of the tokens"),
        ("no scores", InvalidParameterError, "without log-probabilities"),
        ("no end", InvalidParameterError, "does it return the token that ends a text"),
    ],
)
def test_answers_of_no_use_are_errors(
    server: Server, tmp_path: Path, fault: str, error: type[Exception], message: str
) -> None:
    server.fault = fault
    with pytest.raises(error, match=message):
        draw(server, tmp_path)


def test_a_server_that_is_not_there_is_an_error(server: Server, tmp_path: Path) -> None:
    server.close()
    with pytest.raises(PcgcdError, match="did not answer"):
        draw(server, tmp_path)
    with pytest.raises(InvalidParameterError, match="must begin with http"):
        EndpointEngine(table(), "localhost:8000", "some/model")


# -- several machines ----------------------------------------------------------------------------


def test_shards_of_several_calls_are_those_of_one(tmp_path: Path) -> None:
    options: dict[str, Any] = {"samples": 45, "length": 4, "shard_size": 10, "seed": 3}
    whole = sample(table(), [(0,), (1,)], folder=tmp_path / "whole", **options)
    for shards in (range(3, 5), range(1), range(1, 3)):
        part = sample(table(), [(0,), (1,)], folder=tmp_path / "parts", shards=shards, **options)
    assert torch.equal(part.tokens, whole.tokens)
    assert torch.equal(SampleSet.load(tmp_path / "parts").log_probs, whole.log_probs)
    early = sample(table(), [(0,), (1,)], folder=tmp_path / "one", shards=range(3, 5), **options)
    assert early.numbers.tolist() == list(range(30, 45))
    assert torch.equal(early.tokens, whole.tokens[30:])
    for wrong in (range(3, 6), range(-1, 2), range(2, 2)):
        with pytest.raises(InvalidParameterError, match=r"the shards 0\.\.4, but range"):
            sample(table(), [(0,)], folder=tmp_path / "no", shards=wrong, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "endpoint"], "--engine endpoint and --endpoint URL belong together"),
        (["--endpoint", "http://localhost/v1"], "belong together"),
        (["--engine", "endpoint", "--endpoint", "http://localhost/v1"], "needs --served-model"),
    ],
)
def test_the_command_line_explains_what_is_missing(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("pcgcd.lm.default.load_model", lambda name: table())
    assert main(["distill", "--out", str(tmp_path), *options]) != 0
    assert message in capsys.readouterr().err


def test_the_command_line_draws_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pcgcd.lm.default.load_model", lambda name: table())
    (tmp_path / "prompts.txt").write_text("a\nb\n")
    common = [
        "distill",
        "--quiet",
        "--out",
        str(tmp_path / "out"),
        "--samples",
        "20",
        "--shard",
        "8",
    ]
    common += ["--length", "3", "--prompts", str(tmp_path / "prompts.txt")]
    main([*common, "--shards", "1:3"])
    assert "12 of 20 samples are in" in capsys.readouterr().out
    main([*common, "--shards", "0:1"])
    assert len(SampleSet.load(tmp_path / "out" / "samples")) == 20
    with pytest.raises(SystemExit):
        main([*common, "--shards", "3"])
    assert "expected FIRST:STOP, such as 0:16, but found '3'" in capsys.readouterr().err
