"""Constraints inside vLLM: a logits processor that serves a batch of different requests.

``make test-vllm`` runs it inside vLLM on a CPU. It has not been run on a GPU; asynchronous
scheduling and model runner V2, which need one, were tested with a stand-in for vLLM's interface.

A processor is a class in a module of yours, which vLLM imports in each of its processes:

    # decoding.py
    from pcgcd.integrations.vllm import ConstrainedLogitsProcessor

    class Processor(ConstrainedLogitsProcessor):
        tokenizer = "HuggingFaceTB/SmolLM2-135M-Instruct"  # the model's own
        hmm = "folder/of/the/hmm"                          # leave it out for GCD alone

    llm = vllm.LLM(model, logits_processors=["decoding:Processor"])
    asked = SamplingParams(max_tokens=64, extra_args={"pcgcd_json_schema": schema})
    llm.generate(prompts, asked)

or ``vllm serve model --logits-processors decoding:Processor``, and in the body of a request
``"vllm_xargs": {"pcgcd_regex": "[a-z]+"}``. A request has one of

* ``pcgcd_regex``, ``pcgcd_grammar``: texts;
* ``pcgcd_json_schema``, ``pcgcd_tools`` (with ``pcgcd_style``: "json" or "python"),
  ``pcgcd_keywords``, ``pcgcd_choice``: JSON, or a text with it;
* ``pcgcd_constraint``: a name in the class attribute ``constraints``, for constraints that are
  composed in Python;

and may have ``pcgcd_method`` ("gcd" or "pgcd") and ``pcgcd_w``, the weight of the language model in
P-GCD. Requests without any of them are left alone. The budget is ``max_tokens``; a text that has
ended or filled it satisfies the constraint. P-GCD's distribution is that of temperature 1.

What is wrong with a request is said before generation (``validate_params``). Inside the engine an
error would stop the server; a text that cannot go on there, because its prompt leaves too little of
the context or because another processor excludes every allowed token, is ended, and the error goes
to the log. Speculative decoding is refused.

There is no entry point: vLLM loads those into every engine, whether it is wanted or not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.circuits import CircuitLike
from pcgcd.decoding.targets import Target, Wanted
from pcgcd.errors import InvalidParameterError, MissingDependencyError, PcgcdError
from pcgcd.hmm import load_hmm
from pcgcd.integrations.vllm_requests import Compiler, Task, read_wish

__all__ = ["ConstrainedLogitsProcessor", "RequestLogitsProcessor"]

_V1 = "vllm.v1.sample.logits_processor"
_V2 = "vllm.v1.worker.gpu.sample.logits_processor"
_PLACEHOLDER = -1

_log = logging.getLogger(__name__)


class _Running(NamedTuple):
    """A request in the batch. With the V1 runner the text is vLLM's own list, which grows."""

    task: Task | None
    text: list[int]
    prompt_length: int


class _ConstrainedLogitsProcessor:
    """What both interfaces of vLLM have in common, and the methods of both.

    The V1 model runner tells what is added to, removed from and moved in the batch, and hands over
    lists of tokens. Model runner V2 has slots, and the tokens in buffers on the device. vLLM takes
    the one for which the class is made of, so one class serves both.

    Attributes:
        tokenizer: The model's tokenizer: a folder or hub id, a tokenizer, or a vocabulary.
        hmm: What guides P-GCD: a folder or hub id of an HMM, an HMM, or another circuit; None for
            GCD alone.
        constraints: Constraints (or circuits such as ``hmm * fa``) that requests may ask for by
            name.
        cache: A folder in which token automata are kept between runs, where a guide needs them.
    """

    tokenizer: ClassVar[Any] = None
    hmm: ClassVar[str | Path | CircuitLike | None] = None
    constraints: ClassVar[Mapping[str, Wanted]] = {}
    cache: ClassVar[str | Path | None] = None

    def __init__(self, vllm_config: Any, *runner: Any) -> None:
        """Called by vLLM.

        Args:
            vllm_config: The engine's configuration.
            runner: ``device`` and ``is_pin_memory``, or model runner V2's request states.
        """
        if getattr(vllm_config, "speculative_config", None) is not None:
            raise InvalidParameterError(
                "pcgcd's logits processor does not support speculative decoding; leave "
                "speculative_config out"
            )
        self._states = runner[0] if len(runner) == 1 else None
        device = runner[0] if self._states is None else self._states.device
        self._context = int(vllm_config.model_config.max_model_len)
        kind: Any = type(self)
        self._compiler = _compiler(kind, str(device))
        self._running: dict[int, _Running] = {}

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that cannot be fulfilled, before it is queued.

        Raises:
            InvalidParameterError: It says why. (vLLM asks for a ``ValueError``.)
        """
        kind: Any = cls  # to mypy, methods of instances keep a class from being hashable
        try:
            wish = read_wish(sampling_params)
            if wish is not None:
                _compiler(kind, "cpu").check(wish)
        except InvalidParameterError:
            raise
        except PcgcdError as error:
            raise InvalidParameterError(str(error)) from error

    def is_argmax_invariant(self) -> bool:
        """False: it also matters when the most probable token is taken."""
        return False

    @classmethod
    def needs_output_token_ids(cls) -> bool:
        """True: vLLM must not leave placeholders where tokens should be."""
        return True

    # -- model runner V1 ----------------------------------------------------------------------

    def update_state(self, batch_update: Any = None) -> None:
        """Follow the rows of the batch: removed, added, moved, in this order."""
        if batch_update is None:
            return
        running = self._running
        for row in batch_update.removed:
            running.pop(row, None)
        for row, params, prompt, text in batch_update.added:
            self._add(row, params, len(prompt or ()), text)
        for first, second, direction in batch_update.moved:
            from_first, from_second = running.pop(first, None), running.pop(second, None)
            if from_first is not None:
                running[second] = from_first
            if direction.name == "SWAP" and from_second is not None:
                running[first] = from_second

    # -- model runner V2 ----------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Take a slot, whatever was in it. Whether the request has a constraint."""
        states: Any = self._states
        return self._add(req_idx, sampling_params, int(states.prompt_len.np[req_idx]), [])

    def _read_slots(self, context: Any) -> dict[int, _Running]:
        """The requests of the rows, with their texts brought up to date."""
        states: Any = self._states
        slots, lengths = context.expanded_idx_mapping.tolist(), (context.pos + 1).tolist()
        last = context.input_ids.tolist()
        found = {}
        for row, slot in enumerate(slots):
            running = self._running.get(slot)
            if running is None:
                continue
            start = running.prompt_length
            if lengths[row] - start == len(running.text) + 1:
                running.text.append(last[row])
            elif lengths[row] - start != len(running.text):
                # Resumed after it was put aside, or a prompt that is read in parts.
                running.text[:] = states.all_token_ids.gpu[slot, start : lengths[row]].tolist()
            found[row] = running
        return found

    # -- both ---------------------------------------------------------------------------------

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """Change the logits of constrained requests, in place."""
        rows = self._running if ctx is None else self._read_slots(ctx)
        tasks: dict[Task, list[tuple[int, tuple[int, ...]]]] = {}
        for row, running in rows.items():
            if _PLACEHOLDER in running.text:
                raise InvalidParameterError(
                    "vLLM has not told the tokens generated so far (asynchronous scheduling); give "
                    "the processor in logits_processors, or use async_scheduling=False"
                )
            if running.task is None or running.task.has_ended(running.text):
                self._end(logits, row)
            else:
                tasks.setdefault(running.task, []).append((row, tuple(running.text)))
        for task, members in tasks.items():
            self._score(logits, task, members)
        return logits

    def _add(self, place: int, params: Any, prompt_length: int, text: list[int]) -> bool:
        self._running.pop(place, None)
        task = None
        try:
            wish = read_wish(params)
            if wish is None:
                return False
            budget = min(wish.budget, self._context - prompt_length)
            task = self._compiler.task(wish, budget)
        except PcgcdError as error:
            _log.error("a request gets an empty text: %s", error)
        self._running[place] = _Running(task, text, prompt_length)
        return True

    def _score(
        self, logits: Tensor, task: Task, members: Sequence[tuple[int, tuple[int, ...]]]
    ) -> None:
        rows = [row for row, _ in members]
        try:
            logits[rows] = task.score([text for _, text in members], logits[rows])
        except PcgcdError as error:
            if len(members) > 1:
                for member in members:
                    self._score(logits, task, [member])
                return
            _log.error("a text is ended before it is complete: %s", error)
            self._end(logits, rows[0])

    def _end(self, logits: Tensor, row: int) -> None:
        logits[row] = -torch.inf
        logits[row, self._compiler.vocabulary.eos_ids[0]] = 0.0


if TYPE_CHECKING:
    ConstrainedLogitsProcessor = _ConstrainedLogitsProcessor


def __getattr__(name: str) -> Any:
    if name == "ConstrainedLogitsProcessor":
        return _with_bases()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _with_bases() -> type:
    """The class, derived from those of vLLM's base classes that this vLLM has."""
    bases, problem = [], ""
    for module, sign in ((_V1, "BatchUpdate"), (_V2, "LogitsContext")):
        try:
            found: Any = import_module(module)
        except ImportError as error:
            problem = problem or str(error)
            continue
        if hasattr(found, sign):
            bases.append(found.LogitsProcessor)
    if not bases:
        raise MissingDependencyError(
            f"this needs vLLM with custom logits processors, which cannot be imported ({problem}); "
            "run pip install 'vllm>=0.10.1'"
        )
    name = "ConstrainedLogitsProcessor"
    about = {"__module__": __name__, "__qualname__": name, "__doc__": __doc__}
    made: type = type(bases[0])(name, (_ConstrainedLogitsProcessor, *bases), about)
    return made


@cache
def _compiler(cls: Any, device: str) -> Compiler:
    """The compiler of a processor class, with what it names loaded."""
    if cls.tokenizer is None:
        raise InvalidParameterError(
            f"{cls.__name__} does not know the model's tokenizer; derive a class from "
            "ConstrainedLogitsProcessor, and set its attribute tokenizer to a folder or hub id"
        )
    hmm = load_hmm(cls.hmm, device=device) if isinstance(cls.hmm, str | Path) else cls.hmm
    width = None if hmm is None else hmm.vocab_size
    return Compiler(_vocabulary(cls.tokenizer, width), hmm, cls.constraints, cls.cache)


def _vocabulary(tokenizer: Any, width: int | None) -> Vocabulary:
    if isinstance(tokenizer, Vocabulary):
        return tokenizer
    settings = None
    if isinstance(tokenizer, str | Path):
        transformers: Any = import_module("transformers")
        try:  # where the model's further ends of texts are
            settings = transformers.GenerationConfig.from_pretrained(tokenizer)
        except OSError:
            settings = None
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer)
    return Vocabulary.from_tokenizer(tokenizer, logits_size=width, generation_config=settings)


class RequestLogitsProcessor:
    """One constraint as a function of the tokens so far and a row of logits.

    For vLLM before its version 1 (``SamplingParams(logits_processors=[...])``), and for what
    ``new_req_logits_processor`` of an ``AdapterLogitsProcessor`` of your own returns. Where
    possible use :data:`ConstrainedLogitsProcessor`, which treats the rows of a batch together.

    >>> from pcgcd.constraints import regex
    >>> vocabulary = Vocabulary.from_bytes([b"a", b"b", None], eos_ids=2)
    >>> process = RequestLogitsProcessor(regex("a*b"), vocabulary, budget=2)
    >>> process((), torch.tensor([1.0, 2.0, 3.0])), process([0], torch.tensor([1.0, 2.0, 3.0]))
    (tensor([1., 2., -inf]), tensor([-inf, 2., -inf]))
    """

    def __init__(
        self,
        target: Wanted,
        vocabulary: Vocabulary | Any,
        budget: int,
        hmm: CircuitLike | None = None,
        w: float = 0.7,
    ) -> None:
        """GCD, or P-GCD with a guide.

        Args:
            target: A constraint, an automaton over the tokens, or a circuit such as ``hmm * fa``.
            vocabulary: The vocabulary, or the tokenizer.
            budget: The request's ``max_tokens``.
            hmm: What guides: an HMM distilled from the language model, or another circuit.
            w: The weight of the language model in P-GCD.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        vocabulary = _vocabulary(vocabulary, None if hmm is None else hmm.vocab_size)
        self.task = Task.make(Target.of(target, vocabulary, hmm), vocabulary, budget, w)

    def __call__(self, token_ids: Sequence[int], logits: Tensor) -> Tensor:
        """The logits of the next token, (V,).

        Raises:
            DeadEndError: All allowed tokens have the logit -inf.
            InvalidParameterError: The text cannot be completed any more.
        """
        text = tuple(token_ids)
        if self.task.has_ended(text):
            result = torch.full_like(logits, -torch.inf)
            result[self.task.vocabulary.eos_ids[0]] = 0.0
            return result
        return self.task.score([text], logits.unsqueeze(0))[0]
