"""The forms of English words: plural, tenses, comparison."""

from __future__ import annotations

import re
from typing import Any

from pcgcd.basics.packages import package

# Plurals that lemminflect does not have.
_IRREGULAR = {"ox": ("oxen",), "person": ("people", "persons")}
_SINGULAR = {"oxen": "ox", "people": "person"}
# After a verb these make a phrase of which the verb is inflected: look up, looked up.
_PARTICLES = frozenset(
    [
        "about",
        "across",
        "after",
        "along",
        "apart",
        "around",
        "aside",
        "at",
        "away",
        "back",
        "by",
        "down",
        "for",
        "forward",
        "from",
        "in",
        "into",
        "of",
        "off",
        "on",
        "onto",
        "out",
        "over",
        "past",
        "through",
        "to",
        "together",
        "up",
        "upon",
        "with",
        "without",
    ]
)


def inflections(phrase: str) -> tuple[str, ...]:
    """The word or words, then the other forms in alphabetical order.

    Needs the package lemminflect. Of several words ("ice cream") the last one is inflected, of a
    verb with particles ("look up") the first one. A form ("mice", "ran") has the forms of its
    lemma, and a word that lemminflect does not know is inflected by its rules.
    """
    library = package(
        "lemminflect",
        "inflecting words",
        "give the forms yourself as a mapping from each concept to its forms, or pass "
        "inflect=False",
    )
    parts = re.split("([ -])", phrase)
    words = parts[::2]
    place = 0 if all(word.lower() in _PARTICLES for word in words[1:]) else len(words) - 1
    before, after = "".join(parts[: 2 * place]), "".join(parts[2 * place + 1 :])
    forms = {before + form + after for form in _forms(library, words[place])}
    return (phrase, *sorted(forms - {phrase}))


def _forms(library: Any, word: str) -> set[str]:
    lemma = _SINGULAR.get(word)
    if lemma is not None:
        return {word, lemma, *_forms(library, lemma)}
    forms = {word, *_IRREGULAR.get(word, ())}
    known = library.getAllInflections(word)
    if known:
        return forms | _joined(known)
    for lemma in {form for found in library.getAllLemmas(word).values() for form in found}:
        forms |= {lemma, *_joined(library.getAllInflections(lemma))}
    if len(forms) == 1 and word.isalpha():
        for kind in ("NOUN", "VERB"):
            forms |= _joined(library.getAllInflectionsOOV(word, kind))
    return forms


def _joined(tagged: dict[str, tuple[str, ...]]) -> set[str]:
    return {form for found in tagged.values() for form in found}
