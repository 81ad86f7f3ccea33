"""What can be asked of an experiment, and the models and data that it then gets."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.harness.agreement import agreement
from pcgcd.experiments.harness.facts import MEASURED, described, described_hmm
from pcgcd.experiments.harness.methods import METHODS, methods_of
from pcgcd.experiments.tasks import data_folder
from pcgcd.hmm import HiddenMarkovModel, default_hmm, load_hmm
from pcgcd.hmm.default import DEFAULT_FOLDER
from pcgcd.lm import LanguageModel, LlamaCpp

Part: TypeAlias = Literal["test", "development"]
PARTS: tuple[Part, ...] = ("test", "development")
Engine: TypeAlias = Literal["transformers", "llamacpp", "fastest"]
ENGINES: tuple[Engine, ...] = ("transformers", "llamacpp", "fastest")
T = TypeVar("T")

_DEVELOPMENT_SHARE = 4  # one in so many


@dataclass(frozen=True)
class Options:
    """The options of ``pcgcd experiment``; None is what the experiment does by default.

    Attributes:
        model: A folder, a hub id or a GGUF file; the default model by default.
        engine: What computes the default model: "transformers", "llamacpp" or "fastest".
        hmm: Folders of HMMs; the default HMM by default.
        data: The data folder.
        particles: The numbers of particles k.
        limit: The most examples.
        seeds: How often everything is repeated.
        methods: Names of methods.
        budgets: Numbers of tokens; ``+4`` is four more than the shortest text has.
        w: The weight of the language model in P-GCD.
        part: The examples that settings are chosen on, or those that are reported.
        batch: How many examples share a batch of the language model.
        chat: Whether prompts are the messages of a chat, or one text.
        peers: The Python of an environment that has other libraries.
        lm: A language model, instead of ``model``.
        hmms: HMMs by name, instead of ``hmm``.
    """

    model: str | None = None
    engine: Engine = "transformers"
    hmm: tuple[str, ...] = ()
    data: Path | None = None
    particles: tuple[int, ...] | None = None
    limit: int | None = None
    seeds: int | None = None
    methods: tuple[str, ...] | None = None
    budgets: tuple[str, ...] | None = None
    w: float | None = None
    part: Part = "test"
    batch: int = 8
    chat: bool = True
    peers: str | None = None
    lm: LanguageModel | None = field(default=None, repr=False)
    hmms: Mapping[str, HiddenMarkovModel] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check what does not depend on the experiment."""
        for k in self.particles or ():
            check_whole_number("particles", k, 1)
        for name in ("limit", "seeds"):
            if getattr(self, name) is not None:
                check_whole_number(name, getattr(self, name), 1)
        check_whole_number("batch", self.batch, 1)
        check_one_of("part", self.part, *PARTS)
        check_one_of("engine", self.engine, *ENGINES)
        methods_of(self.methods or ())
        for budget in self.budgets or ():
            tokens_of(budget, 1)

    @cached_property
    def folder(self) -> Path:
        """The data folder."""
        return data_folder(self.data)

    @cached_property
    def language_model(self) -> LanguageModel:
        """The language model, loaded when it is first asked for."""
        if self.lm is not None:
            return self.lm
        from pcgcd.lm import default_model, load_model

        return default_model(engine=self.engine) if self.model is None else load_model(self.model)

    @cached_property
    def guides(self) -> dict[str, HiddenMarkovModel]:
        """The HMMs by name, made for the language model."""
        if self.hmms is not None:
            return dict(self.hmms)
        if self.hmm:
            vocabulary = self.language_model.vocabulary
            found = {Path(name).name: load_hmm(name, vocabulary=vocabulary) for name in self.hmm}
            if len(found) < len(self.hmm):
                raise InvalidParameterError("two HMMs have the same name; rename a folder")
            return found
        if self.model is not None or self.lm is not None:
            raise InvalidParameterError(
                "a model of your own needs an HMM that was distilled from it: give --hmm, or only "
                "methods that need none (--methods)"
            )
        return {"default": default_hmm()}

    @property
    def guide(self) -> tuple[str, HiddenMarkovModel]:
        """The one HMM of experiments that have one.

        Raises:
            InvalidParameterError: There are several.
        """
        if len(self.guides) != 1:
            raise InvalidParameterError(
                f"this experiment takes one HMM, but {len(self.guides)} were given (--hmm)"
            )
        return next(iter(self.guides.items()))

    def prompt(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """Return the tokens of a prompt: of a chat, or of the messages one below the other."""
        if self.chat:
            return self.language_model.encode(messages)
        return self.language_model.encode("\n".join(message["content"] for message in messages))

    def chosen(self, examples: Sequence[T]) -> list[T]:
        """Return the first ``limit`` examples."""
        return list(examples[: self.limit])

    def settings(self, **defaults: Any) -> dict[str, Any]:
        """Return the options that decide the rows, as plain data, defaults included."""
        names = ("particles", "seeds", "methods", "budgets", "w", "limit", "part", "batch", "chat")
        found = {name: getattr(self, name) for name in names}
        found |= {name: value for name, value in defaults.items() if found.get(name) is None}
        return {name: value for name, value in found.items() if value is not None}

    def models(self, *, guided: bool = True) -> dict[str, Any]:
        """Facts about the language model and the HMMs."""
        lm: Any = self.language_model
        facts: dict[str, Any] = {"model": {"name": "the default model", "class": type(lm).__name__}}
        if self.lm is not None:
            facts["model"]["name"] = repr(lm)
        elif self.model is not None:
            path = Path(self.model)
            facts["model"] |= described(path) if path.exists() else {"name": self.model}
        elif isinstance(lm, LlamaCpp):
            facts["model"] |= {"dtype": lm.dtype, MEASURED: self._agreement(lm)}
        if guided:
            paths = {Path(name).name: Path(name) for name in self.hmm}
            if not self.hmm and self.hmms is None:
                paths = {"default": DEFAULT_FOLDER}
            facts["hmms"] = {
                name: {"hidden": hmm.num_hidden, "copies": hmm.copying is not None}
                | (described_hmm(paths[name]) if name in paths and paths[name].exists() else {})
                for name, hmm in self.guides.items()
            }
        return facts

    @staticmethod
    def _agreement(lm: LanguageModel) -> dict[str, float]:
        """How far llama.cpp is from transformers in float32 here."""
        from pcgcd.lm import default_model

        found = agreement(default_model(), lm)
        return {name: float(f"{value:.3g}") for name, value in found._asdict().items()}


def needs_guide(names: Sequence[str]) -> bool:
    """Return whether one of the methods needs an HMM."""
    return any(METHODS[name].needs_guide for name in names)


def part_of(items: Sequence[T], names: Sequence[str], part: Part) -> list[T]:
    """Return the examples of a part in an order that depends on their names only.

    One in four is for choosing settings, the others are for the tables.
    """
    order = sorted(range(len(items)), key=lambda i: hashlib.sha256(names[i].encode()).digest())
    kept = [i for i in order if (_number(names[i]) % _DEVELOPMENT_SHARE == 0) == (part != "test")]
    return [items[i] for i in kept]


def _number(name: str) -> int:
    return random.Random(f"part {name}").getrandbits(32)


def tokens_of(budget: str, shortest: int) -> int:
    """Return a number of tokens: ``128``, or ``+4`` for four more than the shortest text has.

    Raises:
        InvalidParameterError: It is neither.

    >>> tokens_of("128", 20), tokens_of("+4", 20)
    (128, 24)
    """
    digits = budget.removeprefix("+")
    if not digits.isdecimal() or int(budget) + budget.startswith("+") < 1:
        raise InvalidParameterError(
            f"a budget must be a number of tokens such as 128, or +4 for four more than the "
            f"shortest text, but is {budget!r}"
        )
    return int(digits) + (shortest if budget.startswith("+") else 0)
