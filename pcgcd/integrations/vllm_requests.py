"""What requests to vLLM ask for, and the compiled form of it.

Nothing here imports vLLM: a request is any object with the attributes of its ``SamplingParams``.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from pcgcd.automata import Vocabulary
from pcgcd.basics.numbers import is_whole_number
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint, choice, function_call, grammar, json_schema, regex
from pcgcd.constraints import keywords as all_of
from pcgcd.decoding.proposals import GCD, PGCD
from pcgcd.decoding.targets import Target, Wanted
from pcgcd.errors import InvalidParameterError, VocabularyMismatchError
from pcgcd.integrations.histories import Histories
from pcgcd.integrations.scores import ScoreRule

Kept = TypeVar("Kept")

_PREFIX = "pcgcd_"
_CAPACITY = 64
_SETTINGS = ("method", "style", "w")


@dataclass(frozen=True)
class Wish:
    """The part of a request that is meant for pcgcd.

    Attributes:
        kind: How the constraint is written: "regex", "json_schema", ...
        text: The constraint in that notation.
        budget: The request's ``max_tokens``.
        method: "gcd" or "pgcd"; None for P-GCD where there is an HMM.
        style: How function calls are written.
        w: The weight of the language model in P-GCD.
        stops: The request's ``stop_token_ids``.
    """

    kind: str
    text: str
    budget: int
    method: str | None = None
    style: str = "json"
    w: float = 0.7
    stops: tuple[int, ...] = ()


def read_wish(params: Any) -> Wish | None:
    """What a request asks of pcgcd in its ``extra_args``; None if nothing.

    Raises:
        InvalidParameterError: It is not understood, or cannot be kept with the other parameters.
    """
    given = {
        str(name).removeprefix(_PREFIX): value
        for name, value in (getattr(params, "extra_args", None) or {}).items()
        if str(name).startswith(_PREFIX)
    }
    if not given:
        return None
    unknown = sorted(set(given) - {*_NOTATIONS, "constraint", *_SETTINGS})
    if unknown:
        known = ", ".join(_PREFIX + name for name in ("constraint", *_NOTATIONS, *_SETTINGS))
        raise InvalidParameterError(
            f"{_PREFIX}{unknown[0]} is no argument of pcgcd; there are {known}"
        )
    kinds = [name for name in given if name not in _SETTINGS]
    if len(kinds) != 1:
        raise InvalidParameterError(
            "a request must have exactly one constraint, but has "
            f"{' and '.join(_PREFIX + kind for kind in kinds) or 'none'}"
        )
    value = given[kinds[0]]
    text = value if isinstance(value, str) else _json_text(kinds[0], value)
    budget = getattr(params, "max_tokens", None)
    if not is_whole_number(budget) or budget < 1:
        raise InvalidParameterError(
            "a constrained request needs max_tokens, the number of tokens in which the text must "
            f"be complete, but it is {budget!r}"
        )
    _check_settings(given)
    _check_others(params)
    settings = {name: given[name] for name in _SETTINGS if name in given}
    stops = tuple(getattr(params, "stop_token_ids", None) or ())
    return Wish(kinds[0], text, budget, **settings, stops=stops)


def _json_text(kind: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameterError(
            f"{_PREFIX}{kind} must be a text, or lists and dicts that JSON can hold, but is a "
            f"{type(value).__name__} ({error})"
        ) from error


def _check_settings(given: Mapping[str, Any]) -> None:
    for name, known in (("method", ("gcd", "pgcd")), ("style", ("json", "python"))):
        if name in given and given[name] not in known:
            raise InvalidParameterError(
                f"{_PREFIX}{name} must be {known[0]!r} or {known[1]!r}, but is {given[name]!r}"
            )
    w = given.get("w", 0.5)
    if isinstance(w, bool) or not isinstance(w, int | float) or not 0 <= w <= 1:
        raise InvalidParameterError(f"{_PREFIX}w must be between 0 and 1, but is {w!r}")


def _check_others(params: Any) -> None:
    """Refuse what would end a text early, keep it from ending, or take allowed tokens away."""
    reasons = {
        "min_tokens": "can forbid the only token that the constraint allows",
        "ignore_eos": "keeps texts from ending",
        "stop": "can end a text before it is complete",
        "bad_words": "can forbid the only token that the constraint allows",
        "allowed_token_ids": "can forbid the only token that the constraint allows",
        "structured_outputs": "is a second constraint",
        "guided_decoding": "is a second constraint",
        "thinking_token_budget": "puts tokens into the text",
    }
    for name, reason in reasons.items():
        if getattr(params, name, None):
            raise InvalidParameterError(
                f"{name} {reason}; leave it out of constrained requests, and say it in the "
                "constraint"
            )


def _loaded(kind: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameterError(f"{_PREFIX}{kind} is not valid JSON: {error}") from error


def _words(kind: str, text: str) -> list[str]:
    words = _loaded(kind, text) if text.lstrip().startswith("[") else text.split(",")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InvalidParameterError(f"{_PREFIX}{kind} must be a list of texts, but is {text!r}")
    return [word.strip() for word in words] if kind == "keywords" else words


_NOTATIONS: dict[str, Callable[[Wish], Constraint]] = {
    "regex": lambda wish: regex(wish.text),
    "json_schema": lambda wish: json_schema(_loaded("json_schema", wish.text)),
    "tools": lambda wish: function_call(
        _loaded("tools", wish.text), style="python" if wish.style == "python" else "json"
    ),
    "keywords": lambda wish: all_of(_words("keywords", wish.text)),
    "choice": lambda wish: choice(_words("choice", wish.text)),
    "grammar": lambda wish: grammar(wish.text),
}


@dataclass(frozen=True, eq=False)
class Task:
    """A constraint with a budget, and what is known of the texts so far.

    Attributes:
        histories: The states of the texts.
        rule: What happens to scores.
        budget: The largest number of tokens.
        vocabulary: The tokens.
    """

    histories: Histories
    rule: ScoreRule
    budget: int
    vocabulary: Vocabulary

    @classmethod
    def make(cls, target: Target, vocabulary: Vocabulary, budget: int, w: float = 0.7) -> Task:
        """GCD, or P-GCD where the target has a guide.

        Raises:
            EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        """
        rule = ScoreRule(GCD()) if target.guide is None else ScoreRule(PGCD(w), normalised=True)
        histories = Histories(target.engine().start([budget]))
        return cls(histories, rule, budget, vocabulary)

    def has_ended(self, text: Sequence[int]) -> bool:
        """Return whether nothing is to come that counts: vLLM may ask for a token too many."""
        return len(text) >= self.budget or any(end in text for end in self.vocabulary.eos_ids)

    def score(self, texts: Sequence[tuple[int, ...]], scores: Tensor) -> Tensor:
        """The scores of what follows each of k texts that have not ended, (k, V).

        Raises:
            PcgcdError: One of them cannot go on.
        """
        width = self.vocabulary.logits_size
        if scores.shape[1] < width:
            raise VocabularyMismatchError(
                f"the model's logits are {scores.shape[1]} wide, but the tokenizer (or the HMM) "
                f"has {width} tokens; are they of this model?"
            )
        result = torch.full_like(scores, -torch.inf)
        for state, places in self.histories.find([(0, text) for text in texts]):
            viable = state.viable().tolist()
            if not all(viable):
                place = places[viable.index(False)]
                raise InvalidParameterError(
                    f"a text cannot be completed any more, after {len(texts[place])} tokens; was a "
                    "token chosen that this processor had excluded?"
                )
            result[places, :width] = self.rule.weigh(state, scores[places, :width], places)
        return result


class Compiler:
    """Turns wishes into tasks, and keeps the last ones.

    Attributes:
        vocabulary: The tokens.
        hmm: What guides P-GCD, if there is a guide.
        named: The constraints (or circuits) that requests can ask for by name.
        cache: A folder in which token automata are kept, where a guide needs them.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        hmm: CircuitLike | None = None,
        named: Mapping[str, Wanted] | None = None,
        cache: Path | str | None = None,
    ) -> None:
        if hmm is not None and hmm.vocab_size != vocabulary.logits_size:
            raise VocabularyMismatchError(
                f"the HMM has {hmm.vocab_size} tokens, but the vocabulary {vocabulary.logits_size}"
                "; make both for one model"
            )
        self.vocabulary, self.hmm = vocabulary, hmm
        self.named, self.cache = dict(named or {}), cache
        self._targets: OrderedDict[Hashable, Target] = OrderedDict()
        self._tasks: OrderedDict[Hashable, Task] = OrderedDict()

    def target(self, wish: Wish) -> Target:
        """Return what a wish allows, and what guides towards it."""
        key = (wish.kind, wish.text, wish.style)
        target = _kept(self._targets, key, lambda: self._compile(wish))
        guide = self.hmm if target.guide is None else target.guide
        if wish.method == "pgcd" and guide is None:
            raise InvalidParameterError(
                "the request asks for P-GCD, but the processor has no HMM; set its class "
                "attribute hmm, or ask for gcd"
            )
        return replace(target, guide=None if wish.method == "gcd" else guide)

    def check(self, wish: Wish) -> None:
        """Refuse what cannot be fulfilled.

        Raises:
            PcgcdError: It says why.
        """
        strange = sorted(set(wish.stops) - set(self.vocabulary.eos_ids))
        if strange:
            raise InvalidParameterError(
                f"the tokens {strange} in stop_token_ids can end a text before it is complete; "
                f"constrained texts end with {list(self.vocabulary.eos_ids)}"
            )
        self.target(wish).engine(guided=False).check(wish.budget)

    def task(self, wish: Wish, budget: int) -> Task:
        """The task of a wish; equal ones share what is known of their texts."""
        target = self.target(wish)
        key = (wish.kind, wish.text, wish.style, budget, target.guide is None, wish.w)
        return _kept(self._tasks, key, lambda: Task.make(target, self.vocabulary, budget, wish.w))

    def _compile(self, wish: Wish) -> Target:
        wanted: Wanted
        if wish.kind != "constraint":
            wanted = _NOTATIONS[wish.kind](wish)
        elif wish.text in self.named:
            wanted = self.named[wish.text]
        else:
            raise InvalidParameterError(
                f"there is no constraint {wish.text!r}; there are {sorted(self.named)}"
            )
        return Target.of(wanted, self.vocabulary, cache=self.cache)


def _kept(store: OrderedDict[Hashable, Kept], key: Hashable, make: Callable[[], Kept]) -> Kept:
    """The value of a key, made if it is new; those not asked for longest are forgotten."""
    if key not in store:
        store[key] = make()
        while len(store) > _CAPACITY:
            store.popitem(last=False)
    store.move_to_end(key)
    return store[key]
