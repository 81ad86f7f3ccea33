"""Language models in the ways in which programs have them."""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from typing import Any

from pcgcd.basics.keeping import kept_with
from pcgcd.basics.packages import package
from pcgcd.errors import InvalidParameterError
from pcgcd.lm.base import LanguageModel


def language_model_of(thing: Any, tokenizer: Any = None) -> LanguageModel:
    """Return the language model that a model object, a folder or a hub id stands for.

    Args:
        thing: A language model of pcgcd's; a causal model of transformers, whose tokenizer is
            loaded from where the model came from unless it is given; a pair of both; or a folder
            or hub id, which is loaded once and kept until another one is asked for.
        tokenizer: The tokenizer of a model of transformers.

    Raises:
        InvalidParameterError: There is no such model, or no tokenizer for it.
    """
    if isinstance(thing, tuple) and len(thing) == 2 and tokenizer is None:
        thing, tokenizer = thing
    if isinstance(thing, str | PathLike):
        return _loaded(str(thing))
    if callable(getattr(thing, "log_probs", None)) or not hasattr(thing, "get_output_embeddings"):
        return thing  # type: ignore[no-any-return]  # generation says what it misses
    from pcgcd.lm.transformers_lm import TransformersLM

    if tokenizer is None:
        tokenizer = kept_with(thing, "_pcgcd_tokenizer", lambda: _tokenizer_of(thing))
    kept = kept_with(thing, "_pcgcd_lm", lambda: TransformersLM(thing, tokenizer))
    return kept if kept.tokenizer is tokenizer else TransformersLM(thing, tokenizer)


@lru_cache(maxsize=1)
def _loaded(name: str) -> LanguageModel:
    from pcgcd.lm.default import load_model

    return load_model(name)


def _tokenizer_of(model: Any) -> Any:
    name = getattr(model, "name_or_path", "") or getattr(model.config, "_name_or_path", "")
    try:
        if not name:
            raise ValueError("the model has no name")
        return package("transformers", "a tokenizer").AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise InvalidParameterError(
            f"no tokenizer was found for this {type(model).__name__} "
            f"({str(error).splitlines()[0]}); give tokenizer=, or the pair (model, tokenizer)"
        ) from error
