"""Sampling from a server with OpenAI's interface for completions."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError, PcgcdError
from pcgcd.learning.distillation.answers import padded_answer, row_seed

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel

_TRIES = 4
_SECONDS = 600.0
_ID = "token_id:"


class EndpointEngine:
    """Answers prompts with a server: vLLM's, or any that returns token ids and log-probabilities.

    Each row is a request with a seed of its own; many are under way at once. The draws are the
    server's.

    Attributes:
        name: What the manifest says.
    """

    def __init__(
        self,
        lm: LanguageModel,
        url: str,
        model: str,
        *,
        key: str | None = None,
        at_once: int = 64,
    ) -> None:
        """Say where the server is.

        Args:
            lm: The same model here, or one with its tokenizer: its vocabulary says what ends a
                text.
            url: Where the interface begins, for example ``http://localhost:8000/v1``.
            model: The name under which the server has the model.
            key: The key that the server wants; by default ``OPENAI_API_KEY``, if that is set.
            at_once: How many requests are under way at once.
        """
        if not url.startswith(("http://", "https://")):
            raise InvalidParameterError(
                f"the endpoint must begin with http:// or https://, but is {url!r}; for example "
                "http://localhost:8000/v1"
            )
        self.name = f"endpoint {model}"
        self._url = url.rstrip("/") + "/completions"
        self._model, self._at_once = model, at_once
        key = os.environ.get("OPENAI_API_KEY") if key is None else key
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._eos_ids = lm.vocabulary.eos_ids
        self._width = lm.vocabulary.logits_size

    def answer(
        self, prompts: Sequence[tuple[int, ...]], length: int, uniform: Tensor, seed: int
    ) -> tuple[Tensor, Tensor]:
        """See :class:`~pcgcd.learning.distillation.sampling.Engine`."""
        tokens = torch.empty(len(prompts), length, dtype=torch.int32)
        log_probs = torch.zeros(len(prompts))

        def ask(row: int) -> tuple[list[int], float]:
            return self._ask(prompts[row], length, row_seed(seed, row) % 2**31)

        with ThreadPoolExecutor(self._at_once) as threads:
            for row, (ids, log_prob) in enumerate(threads.map(ask, range(len(prompts)))):
                tokens[row] = padded_answer(ids, length, self._eos_ids, self._width, "the server")
                log_probs[row] = log_prob
        return tokens, log_probs

    def _ask(self, prompt: Sequence[int], length: int, seed: int) -> tuple[list[int], float]:
        found = self._post(
            {
                "model": self._model,
                "prompt": list(prompt),
                "max_tokens": length,
                "temperature": 1.0,
                "top_p": 1.0,
                "seed": seed,
                "logprobs": 1,
                # Beyond OpenAI's interface, as vLLM has it: all of the distribution, and ids.
                "top_k": -1,
                "ignore_eos": True,
                "stop_token_ids": list(self._eos_ids),
                "return_token_ids": True,
                "return_tokens_as_token_ids": True,
            }
        )
        try:
            choice = found["choices"][0]
            scores = choice["logprobs"]["token_logprobs"]
            ids = _token_ids(choice)
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidParameterError(
                f"{self._url} answered without log-probabilities ({error!r}); use a server that "
                "returns them, such as vLLM's"
            ) from error
        if ids is None or len(ids) != len(scores) or any(score is None for score in scores):
            raise InvalidParameterError(
                f"{self._url} answered without the ids of the tokens; use a server that returns "
                "them, such as vLLM's (--return-tokens-as-token-ids)"
            )
        return ids, float(sum(scores))

    def _post(self, body: Mapping[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self._url, data, self._headers)
        for attempt in range(_TRIES):
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                said = error.read(500).decode("utf-8", "replace")
                problem = f"{error.code} {error.reason}: {said}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, ValueError) as error:
                problem = str(error)
            if attempt + 1 < _TRIES:
                time.sleep(2.0**attempt)
        raise PcgcdError(
            f"{self._url} did not answer ({problem}); see that the server is there and has the "
            f"model {self._model!r}, and run the same command again: it goes on"
        )


def _token_ids(choice: Mapping[str, Any]) -> list[int] | None:
    """Return the ids of an answer, where a server has put them; None if nowhere."""
    if choice.get("token_ids") is not None:
        return [int(token) for token in choice["token_ids"]]
    tokens = choice["logprobs"]["tokens"]
    if all(isinstance(token, str) and token.startswith(_ID) for token in tokens):
        return [int(token.removeprefix(_ID)) for token in tokens]
    return None
