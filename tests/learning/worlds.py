"""Small language models to distil, and all their texts."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import torch

from pcgcd.automata import Vocabulary
from pcgcd.lm import LanguageModel, TableLM, TransformersLM
from tests.lm.examples import tiny_model, tiny_tokenizer

VOCABULARY = Vocabulary.from_bytes([b"a", b"b", b"ab", None, None], eos_ids=[3, 4])


def table(seed: int = 0) -> TableLM:
    return TableLM.random(VOCABULARY, seed=seed, order=2)


def texts(
    lm: LanguageModel, length: int, prompt: tuple[int, ...] = ()
) -> dict[tuple[int, ...], float]:
    """Every padded text of this length and its probability, by enumeration."""
    found: dict[tuple[int, ...], float] = {}
    ends = lm.vocabulary.eos_ids
    for text in itertools.product(range(lm.vocabulary.logits_size), repeat=length):
        total = 0.0
        for i, token in enumerate(text):
            if i and text[i - 1] in ends:
                total += 0.0 if token == text[i - 1] else -math.inf
            else:
                total += float(lm.log_probs([prompt + text[:i]])[0, token])
        if total > -math.inf:
            found[text] = math.exp(total)
    return found


def tiny_lm(chat: bool = False) -> TransformersLM:
    tokenizer = tiny_tokenizer(chat)
    return TransformersLM(tiny_model("llama", vocab_size=len(tokenizer)), tokenizer)


def tiny_folder(folder: Path) -> Path:
    """The same model as files."""
    lm = tiny_lm()
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)
    return folder


def frequencies(tokens: torch.Tensor) -> dict[tuple[int, ...], float]:
    rows, counts = tokens.unique(dim=0, return_counts=True)
    return {tuple(row): count / len(tokens) for row, count in zip(rows.tolist(), counts.tolist())}


def distance(found: dict[tuple[int, ...], float], true: dict[tuple[int, ...], float]) -> float:
    """Total variation."""
    return sum(abs(found.get(x, 0.0) - true.get(x, 0.0)) for x in found.keys() | true.keys()) / 2
