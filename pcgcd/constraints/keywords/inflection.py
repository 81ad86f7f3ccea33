"""The inflected forms of English words."""

from __future__ import annotations

from pcgcd.basics.packages import package

__all__ = ["inflections"]


def inflections(word: str) -> tuple[str, ...]:
    """The word, then its other forms (plural, tenses, comparison) in alphabetical order.

    Needs the package lemminflect. Of several words ("ice cream") the last one is inflected. A word
    that lemminflect does not know has no other forms.
    """
    library = package(
        "lemminflect",
        "inflecting words",
        "give the forms yourself as a mapping from each concept to its forms, or pass "
        "inflect=False",
    )
    *before, last = word.split(" ")
    found = library.getAllInflections(last)
    forms = {" ".join([*before, form]) for tagged in found.values() for form in tagged}
    return (word, *sorted(forms - {word}))
