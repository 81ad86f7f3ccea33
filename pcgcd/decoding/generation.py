"""``generate``: texts of a language model that satisfy a constraint within a budget."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np
from torch import Tensor

from pcgcd.basics.keeping import kept_with
from pcgcd.circuits import CircuitLike
from pcgcd.constraints import Constraint, constraint_of, of_response_format, of_tool_choice
from pcgcd.constraints import regex as pattern_of
from pcgcd.decoding.generator import Generator
from pcgcd.decoding.potentials import Potential
from pcgcd.decoding.proposals import Proposal
from pcgcd.decoding.requests import Request
from pcgcd.decoding.results import Generation
from pcgcd.decoding.smc import SMC, Step
from pcgcd.decoding.targets import Wanted
from pcgcd.decoding.transforms import Sharpening
from pcgcd.errors import InvalidParameterError
from pcgcd.hmm import load_hmm
from pcgcd.lm.coercion import language_model_of

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from pcgcd.decoding.resampling import Resampler
    from pcgcd.lm import LanguageModel, Prompt


# What the budget is called elsewhere.
_BUDGETS = ("max_tokens", "max_new_tokens", "max_length", "max_completion_tokens", "num_tokens")


class Options(TypedDict, total=False):
    """The options of :func:`generate`, for type checkers."""

    chat: bool | None
    budget: int | None
    particles: int
    method: str | Proposal | None
    hmm: CircuitLike | str | PathLike[str] | None
    w: float | None
    gcd_share: float | None
    adapt: int
    spelling: bool | None
    potential: str | Potential | None
    smc: bool
    resampling: str | Resampler
    ess_threshold: float
    temperature: float
    top_k: int | None
    top_p: float | None
    truncate: str
    stop: str | Sequence[str] | Callable[[bytes], bool] | None
    max_attempts: int
    seed: int | None
    on_step: Callable[[Step], None] | None
    progress: bool
    cache: Path | str | None
    tools: Any
    tool_choice: Any
    response_format: Any
    regex: str | None
    tokenizer: Any


@overload
def generate(
    lm: Any, target: Any = None, *, prompt: Prompt = "", **options: Unpack[Options]
) -> Generation: ...
@overload
def generate(
    lm: Any, target: Any = None, *, prompt: Sequence[Prompt], **options: Unpack[Options]
) -> list[Generation]: ...


def generate(
    lm: Any,
    target: Any = None,
    *,
    prompt: Prompt | Sequence[Prompt] = "",
    chat: bool | None = None,
    budget: int | None = None,
    particles: int = 8,
    method: str | Proposal | None = None,
    hmm: CircuitLike | str | PathLike[str] | None = None,
    w: float | None = None,
    gcd_share: float | None = None,
    adapt: int = 0,
    spelling: bool | None = None,
    potential: str | Potential | None = None,
    smc: bool = True,
    resampling: str | Resampler = "systematic",
    ess_threshold: float = 0.5,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    truncate: str = "allowed",
    stop: str | Sequence[str] | Callable[[bytes], bool] | None = None,
    max_attempts: int = 1000,
    seed: int | None = None,
    on_step: Callable[[Step], None] | None = None,
    progress: bool = False,
    cache: Path | str | None = None,
    tools: Any = None,
    tool_choice: Any = None,
    response_format: Any = None,
    regex: str | None = None,
    tokenizer: Any = None,
    **unknown: Any,
) -> Generation | list[Generation]:
    """Generate texts that satisfy a constraint, with weights that aim at p_lm(x | C).

    With the methods "gcd", "pgcd" and "twisted" every text that ends satisfies the constraint
    within the budget, whatever the language model says.

    The automata among the factors of a circuit are the constraint: ``hmm * fa`` is guided by that
    product, ``hmm * fa1 * fa2`` satisfies both, ``(0.3 * hmm_a + 0.7 * hmm_b) * fa`` is guided by
    a mixture. What is left guides, and changes no target. With a weighted automaton f the target
    is p_lm(x) f(x), up to its sum.

    Args:
        lm: The language model: one of :mod:`pcgcd.lm`, a causal model of transformers, or a folder
            or hub id.
        target: A constraint, an automaton over the model's tokens, or a circuit; a JSON schema as a
            dict; a type (a pydantic model, a dataclass, a ``Literal``); a list of texts to choose
            from. It may be left out where ``tools``, ``response_format`` or ``regex`` says it.
        prompt: A text, token ids, or the messages of a chat; or a list of prompts, which gives a
            list of results, in which :attr:`Generation.error` says why one has none.
        chat: True sends a text as a message of the user, False continues it as it stands. By
            default it is a message where the model has a chat template. A text that is continued
            is taken back to where its last word begins if a token could span the edge; see
            :mod:`pcgcd.decoding.edges`.
        budget: The largest number of tokens; by default 128, or the length of a circuit of one
            length. The token that ends a text counts, but a text that fills the budget needs none.
        particles: The number of texts k.
        method: "pgcd", "twisted", "gcd", "lcd", "unconstrained", "rejection", or a proposal of
            your own. By default "twisted" where there is a guide, else "gcd".
        hmm: The guide of P-GCD and of "twisted": an HMM distilled from the language model, its
            folder or hub id, or any other circuit. An HMM that has learnt to copy from prompts is
            conditioned on this one.
        w: How far the language model is trusted rather than the guide, from 0 to 1, which is GCD;
            by default 0.7 for P-GCD and 0.5 for "twisted".
        gcd_share: The share of the texts that methods which look ahead draw from GCD, so that a
            guide which is wrong cannot hide a text; by default a tenth at first, but at least one
            text of several, and then what the weights say at each resampling. Resampling is hedged
            with the same share. At 0 the look-ahead is trusted alone.
        adapt: First draw so many continuations of the prompt from the language model alone, and
            adapt the HMMs of the guide to them. The texts do not depend on these, so the result
            stays unbiased; they cost as much as so many particles.
        spelling: Avoid tokens after which the model could not spell what must follow as it always
            does; see :mod:`pcgcd.decoding.spelling`. No target changes. By default with "twisted",
            and where no method is named, if the model has a tokenizer.
        potential: "pgcd" (look ahead with the guide), "prefix" (the text still fits in the budget),
            "local" (some text of any length is left), "terminal" (nothing before the end), or a
            potential of your own. By default the one that goes with the method.
        smc: Resample. Without it the texts are independent samples of the proposal; their
            importance weights are reported all the same.
        resampling: "systematic", "stratified", "residual", "multinomial", or a function.
        ess_threshold: Resample when the effective sample size is at most this share of k.
        temperature: 0 gives one answer: the most probable text that a beam of k particles finds,
            and with one particle the most probable token at each step. The weights are then the
            model's probabilities of the texts found. Others change the target: the model at this
            temperature, given the constraint.
        top_k: Changes the target: the k most likely of the tokens that the constraint allows.
        top_p: Changes the target: the most likely of the allowed tokens that together have this
            share of the probability of all allowed ones; see :mod:`pcgcd.decoding.transforms`.
        truncate: "allowed": the mask comes first, then top-k and top-p. "model": top-k and top-p
            change the model before it meets the constraint, which may leave nothing.
        stop: Texts, or a rule over bytes: a text that satisfies the constraint ends where it
            contains one of them, without an end-of-sequence token. Changes the target.
        max_attempts: The cap of rejection sampling.
        seed: The same seed gives the same result.
        on_step: Called after each token.
        progress: Show a progress bar on the error stream.
        cache: A folder in which token automata are kept, where a guide needs them; masks alone
            need none.
        tools: Functions that the model is shown, through its chat template or in a system message:
            Python functions, or descriptions as of OpenAI, Anthropic or MCP. Without a target, a
            call of one of them is generated.
        tool_choice: OpenAI's: "required" (without a target the default), "auto", "none", or which
            tool; see :func:`pcgcd.constraints.of_tool_choice`.
        response_format: OpenAI's, or a type.
        regex: A regular expression that the whole text matches.
        tokenizer: That of a model of transformers, if it is not where the model came from.
        unknown: There are no other options: a name that is none of these is an error.

    Raises:
        EmptyLanguageError: No text fits in the budget; it names the smallest that works.
        DeadEndError: The language model gives probability zero to everything that is allowed.
    """
    _check_names(unknown)
    wanted = _wanted(target, tools, tool_choice, response_format, regex)
    model = language_model_of(lm, tokenizer)
    generator = Generator(
        model,
        method=method,
        hmm=_guide(hmm, model),
        w=w,
        gcd_share=gcd_share,
        adapt=adapt,
        spelling=spelling,
        potential=potential,
        smc=SMC(
            particles,
            resampling if smc else None,
            ess_threshold,
            Sharpening(temperature, top_k, top_p, truncate),
        ),
        stop=stop,
        max_attempts=max_attempts,
        cache=cache,
    )
    many = _is_many(prompt)
    prompts: Any = prompt if many else [prompt]
    requests = [Request(wanted, one, budget, tools or (), chat) for one in prompts]
    results = generator.run(requests, seed=seed, on_step=on_step, progress=progress)
    if many:
        for place, result in enumerate(results):
            if result.error is not None:
                result.error.args = (f"prompt {place}: {result.error}",)
        return results
    if results[0].error is not None:
        raise results[0].error
    return results[0]


@overload
async def agenerate(
    lm: Any, target: Any = None, *, prompt: Prompt = "", **options: Unpack[Options]
) -> Generation: ...
@overload
async def agenerate(
    lm: Any, target: Any = None, *, prompt: Sequence[Prompt], **options: Unpack[Options]
) -> list[Generation]: ...


async def agenerate(lm: Any, target: Any = None, **options: Any) -> Generation | list[Generation]:
    """Do what :func:`generate` does in a thread, so that a server's event loop goes on.

    Calls for one language model wait for each other: to use its batches, give several prompts in
    one call.
    """

    def run() -> Any:
        model = language_model_of(lm, options.pop("tokenizer", None))
        with kept_with(model, "_pcgcd_lock", threading.Lock):
            return generate(model, target, **options)

    result: Generation | list[Generation] = await asyncio.to_thread(run)
    return result


def _wanted(
    target: Any, tools: Any, tool_choice: Any, response_format: Any, pattern: str | None
) -> Wanted:
    """What to generate, of the several ways to say it."""
    said = {"target": target, "response_format": response_format, "regex": pattern}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1 or (tool_choice is not None and (given or not tools)):
        raise InvalidParameterError(
            "what to generate must be said once, but was given as "
            f"{', '.join(given + ['tool_choice'] * (tool_choice is not None))}"
            + ("; tool_choice chooses from tools=" if not tools else "")
        )
    if pattern is not None:
        return pattern_of(pattern)
    if response_format is not None:
        return of_response_format(response_format)
    if target is None and tools:
        return of_tool_choice(tools, "required" if tool_choice is None else tool_choice)
    if target is None:
        raise InvalidParameterError(
            "what to generate is missing: give a constraint, a circuit, a schema, a type or a list "
            "of options as the second argument, or tools=, response_format= or regex="
        )
    return target if isinstance(target, Constraint | CircuitLike) else constraint_of(target)


def _check_names(unknown: Iterable[str]) -> None:
    """Refuse options that there are not, and name what was probably meant."""
    options = Options.__annotations__
    for name in unknown:
        near = ["budget"] if name in _BUDGETS else get_close_matches(name, options, 1)
        hint = f"did you mean {near[0]}=?" if near else f"it has {', '.join(options)}"
        raise InvalidParameterError(f"generate has no option {name!r}; {hint}")


def _guide(hmm: Any, lm: LanguageModel) -> CircuitLike | None:
    """The guide, read from a folder or the hub if it is not there yet."""
    if isinstance(hmm, str | PathLike):
        return load_hmm(hmm, vocabulary=lm.vocabulary)
    if hmm is None or isinstance(hmm, CircuitLike):
        return hmm
    raise InvalidParameterError(
        "hmm= must be an HMM, another circuit, or the folder or hub id of an HMM, but is "
        f"{type(hmm).__name__} {hmm!r:.60}"
    )


def _is_many(prompt: Any) -> bool:
    """Say whether these are several prompts: a list that holds a text, a chat or token ids.

    The items of one prompt are messages or whole numbers.
    """
    kinds = str, list, tuple, Tensor, np.ndarray
    return isinstance(prompt, list | tuple) and any(isinstance(one, kinds) for one in prompt)
