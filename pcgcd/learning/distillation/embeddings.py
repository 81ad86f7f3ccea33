"""What a language model thinks at each token of its samples: its last hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pcgcd.errors import InvalidParameterError

if TYPE_CHECKING:
    from pcgcd.lm import LanguageModel


_RUN = 16


class TokenStates(NamedTuple):
    """The states of the last layer around each token, (number of tokens, d) float32 each."""

    before: Tensor  # from which the token was predicted
    after: Tensor  # when it had been read


def spread(numbers: Tensor, limit: int) -> Tensor:
    """Return at most ``limit`` of the numbers, evenly spread.

    They come in runs, since neighbouring samples often share a prompt, which is then read once.
    """
    if len(numbers) <= limit:
        return numbers
    run = min(_RUN, limit)
    starts = torch.linspace(0, len(numbers) - run, limit // run, dtype=torch.float64).long()
    return numbers[(starts.unsqueeze(1) + torch.arange(run)).flatten()]


def token_states(
    lm: LanguageModel,
    prompts: Sequence[tuple[int, ...]],
    tokens: Tensor,
    lengths: Tensor,
    *,
    batch_size: int = 64,
    progress: Callable[[int], None] | None = None,
) -> TokenStates:
    """Return the states around each token of each sample, one sample after the other.

    Each different prompt is read once, and so is each different sample of a prompt.

    Args:
        lm: A model of transformers.
        prompts: The tokens of the prompt of each sample, at least one.
        tokens: The samples, (N, n).
        lengths: How many tokens of each count, (N,).
        batch_size: How many samples are read at once.
        progress: Called with the number of samples that were read, again and again.
    """
    model = model_of(lm)
    if not all(map(len, prompts)):
        raise InvalidParameterError(
            "a language model of transformers needs at least one token to start from, but a "
            "prompt is empty"
        )
    rows_of: dict[tuple[int, ...], dict[tuple[int, ...], list[int]]] = {}
    for row, (prompt, text) in enumerate(zip(prompts, tokens.tolist(), strict=True)):
        same = rows_of.setdefault(tuple(prompt), {})
        same.setdefault(tuple(text[: int(lengths[row])]), []).append(row)
    states: list[Tensor] = [torch.empty(0)] * len(prompts)
    for prompt, samples in rows_of.items():
        texts = sorted((text for text in samples if text), key=len)
        for start in range(0, len(texts), batch_size):
            batch = texts[start : start + batch_size]
            for text, found in zip(batch, _read(model, prompt, batch)):
                for row in samples[text]:
                    states[row] = found[: len(text) + 1]
            if progress is not None:
                progress(sum(len(samples[text]) for text in batch))
    there = [part for part in states if len(part)]
    return TokenStates(
        torch.cat([part[:-1] for part in there]), torch.cat([part[1:] for part in there])
    )


def next_token_probabilities(lm: LanguageModel, before: Tensor) -> Tensor:
    """What the model predicts from its states, (number, V) float32."""
    model = model_of(lm)
    head = model.get_output_embeddings()
    with torch.inference_mode():
        logits = head(before.to(device=model.device, dtype=head.weight.dtype)).float()
        found: Tensor = torch.softmax(logits, -1).cpu()
    return found


def model_of(lm: LanguageModel) -> Any:
    """Return the model of transformers that a language model wraps."""
    model: Any = getattr(lm, "model", None)
    if model is None or not hasattr(model, "base_model"):
        raise InvalidParameterError(
            "hidden states can be read from models of transformers only, but the language model "
            f'is a {type(lm).__name__}; initialise with method="random", and do not smooth'
        )
    return model


@torch.inference_mode()
def _read(model: Any, prompt: tuple[int, ...], texts: Sequence[tuple[int, ...]]) -> Tensor:
    """(k, longest + 1, d). What stands behind a text's end disturbs nothing before it."""
    device, length = model.device, max(map(len, texts))
    padded = torch.tensor([text + text[-1:] * (length - len(text)) for text in texts])
    first = model.base_model(input_ids=torch.tensor([prompt], device=device), use_cache=True)
    cache = first.past_key_values
    cache.batch_repeat_interleave(len(texts))
    output = model.base_model(input_ids=padded.to(device), past_key_values=cache, use_cache=True)
    start = first.last_hidden_state[:, -1:].expand(len(texts), -1, -1)
    found: Tensor = torch.cat([start, output.last_hidden_state], 1).float().cpu()
    return found
