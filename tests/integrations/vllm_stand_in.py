"""How vLLM's two model runners call a logits processor, without vLLM.

``V1Batch`` follows "How the vLLM engine builds the BatchUpdate data structure"; ``V2Batch`` has
slots that are never moved, buffers of tokens, and rows in a new order at every step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

MOVE, SWAP = SimpleNamespace(name="UNIDIRECTIONAL"), SimpleNamespace(name="SWAP")


@dataclass
class Params:
    """The attributes of ``SamplingParams`` that matter here."""

    max_tokens: int | None = 16
    extra_args: dict[str, Any] | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stop: list[str] = field(default_factory=list)
    stop_token_ids: list[int] = field(default_factory=list)
    bad_words: list[str] = field(default_factory=list)
    allowed_token_ids: list[int] | None = None
    structured_outputs: Any = None


@dataclass(eq=False)
class Request:
    params: Params
    prompt: list[int] = field(default_factory=lambda: [0, 1, 3])
    text: list[int] = field(default_factory=list)


def config(max_model_len: int = 64, **others: Any) -> Any:
    model = SimpleNamespace(max_model_len=max_model_len)
    return SimpleNamespace(model_config=model, speculative_config=None, **others)


class V1Batch:
    """The persistent batch of the V1 model runner."""

    def __init__(self, processor: Any, seed: int) -> None:
        self.processor, self.random = processor, random.Random(seed)
        self.rows: list[Request | None] = []

    @classmethod
    def make(cls, kind: type, seed: int, max_model_len: int = 64) -> V1Batch:
        return cls(kind(config(max_model_len), torch.device("cpu"), False), seed)

    def change(self, finished: list[Request], new: list[Request]) -> None:
        """Additions in the lowest free rows, removals, moves that close gaps, and swaps."""
        free = sorted(self.rows.index(request) for request in finished)
        for row in free:
            self.rows[row] = None
        added: list[tuple[int, Any, list[int] | None, list[int]]] = []
        moved: list[tuple[int, int, Any]] = []
        for request in new:
            row = free.pop(0) if free else len(self.rows)
            self.rows[row : row + 1] = [request]
            added.append((row, request.params, request.prompt, request.text))
        removed = sorted(free, reverse=True)
        for row in free:
            last = max((i for i, r in enumerate(self.rows) if r is not None), default=-1)
            if last > row:
                self.rows[row], self.rows[last] = self.rows[last], None
                moved.append((last, row, MOVE))
        self.rows = [request for request in self.rows if request is not None]
        for _ in range(self.random.randrange(3) if len(self.rows) > 1 else 0):
            i, j = self.random.sample(range(len(self.rows)), 2)
            self.rows[i], self.rows[j] = self.rows[j], self.rows[i]
            moved.append((i, j, SWAP))
        update = SimpleNamespace(removed=removed, added=added, moved=moved)
        self.processor.update_state(update if removed or added or moved else None)

    def requests(self) -> list[Request]:
        return [request for request in self.rows if request is not None]

    def apply(self, logits: Tensor) -> Tensor:
        result: Tensor = self.processor.apply(logits)
        return result


class V2Batch:
    """The slots and buffers of model runner V2."""

    def __init__(self, kind: type, seed: int, slots: int = 8, max_model_len: int = 64) -> None:
        self.random = random.Random(seed)
        self.tokens = torch.full((slots, max_model_len), -7)
        self.prompt_len = torch.zeros(slots, dtype=torch.int32)
        states = SimpleNamespace(
            device=torch.device("cpu"),
            max_num_reqs=slots,
            all_token_ids=SimpleNamespace(gpu=self.tokens),
            prompt_len=SimpleNamespace(np=self.prompt_len.numpy(), gpu=self.prompt_len),
        )
        self.processor: Any = kind(config(max_model_len), states)
        self.free = list(range(slots))
        self.slot: dict[Request, int] = {}
        self.order: list[Request] = []

    @classmethod
    def make(cls, kind: type, seed: int, max_model_len: int = 64) -> V2Batch:
        return cls(kind, seed, max_model_len=max_model_len)

    def change(self, finished: list[Request], new: list[Request]) -> None:
        for request in finished:
            self.free.append(self.slot.pop(request))
        putting_aside = [r for r in self.slot if self.random.random() < 0.1]
        for request in putting_aside:  # and take it up again, in another slot
            self.free.append(self.slot.pop(request))
        for request in [*new, *putting_aside]:
            slot = self.free.pop(self.random.randrange(len(self.free)))
            self.slot[request] = slot
            self.prompt_len[slot] = len(request.prompt)
            self._write(request)
            constrained = self.processor.add_request(slot, request.params)
            assert constrained == bool(request.params.extra_args)
        self.order = self.random.sample(list(self.slot), len(self.slot))

    def requests(self) -> list[Request]:
        return self.order

    def apply(self, logits: Tensor) -> Tensor:
        for request in self.order:
            self._write(request)
        slots = torch.tensor([self.slot[request] for request in self.order], dtype=torch.int32)
        whole = [[*request.prompt, *request.text] for request in self.order]
        context = SimpleNamespace(
            expanded_idx_mapping=slots,
            input_ids=torch.tensor([tokens[-1] for tokens in whole]),
            pos=torch.tensor([len(tokens) - 1 for tokens in whole]),
        )
        result: Tensor = self.processor.apply(logits, context)
        return result

    def _write(self, request: Request) -> None:
        tokens = torch.tensor([*request.prompt, *request.text])
        self.tokens[self.slot[request], : len(tokens)] = tokens
