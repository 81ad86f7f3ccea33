"""The inflected forms of English words."""

from __future__ import annotations

from importlib import import_module

from pcgcd.errors import MissingDependencyError

__all__ = ["inflections"]


def inflections(word: str) -> tuple[str, ...]:
    """The word, then its other forms (plural, tenses, comparison) in alphabetical order.

    Needs the package lemminflect. Of several words ("ice cream") the last one is inflected. A word
    that lemminflect does not know has no other forms.
    """
    try:
        library = import_module("lemminflect")
    except ImportError as error:
        raise MissingDependencyError(
            "inflected forms come from the package lemminflect, which is not installed: "
            "run 'pip install lemminflect', or give the forms yourself as a mapping from each "
            "concept to its forms, or pass inflect=False"
        ) from error
    *before, last = word.split(" ")
    found = library.getAllInflections(last)
    forms = {" ".join([*before, form]) for tagged in found.values() for form in tagged}
    return (word, *sorted(forms - {word}))
