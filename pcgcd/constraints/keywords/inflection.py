"""The forms of English words: plural, tenses, comparison."""

from __future__ import annotations

import re
from typing import Any

from pcgcd.basics.packages import package
from pcgcd.constraints.keywords.phrases import (
    ACTIVITIES,
    FUNCTION_WORDS,
    NOUNS,
    NOUNS_IN_ING,
    VERBS_AND_ADJECTIVES,
)

# Plurals that lemminflect does not have.
_IRREGULAR = {"ox": ("oxen",), "person": ("people", "persons")}
_SINGULAR = {"oxen": "ox", "people": "person"}
# Endings before -y of nouns with a plural in -ies; others are taken for nouns in -ie (selfie).
_BEFORE_Y = ("r", "t", "g", "c", "ph", "m", "s")


def inflections(phrase: str) -> tuple[str, ...]:
    """Return the word or words, then the other forms in alphabetical order.

    Needs the package lemminflect. A form ("mice", "ran", "running") has the forms of its lemma, and
    a word that lemminflect does not know is inflected by its rules. Of several words, the first one
    is inflected as a verb ("looked up", "rode a bike") and the last one as a noun ("fire trucks"),
    as far as they can be these; where both can be, both are ("brushed teeth", "fired truck").
    """
    library = package(
        "lemminflect",
        "inflecting words",
        "give the forms yourself as a mapping from each concept to its forms, or pass "
        "inflect=False",
    )
    first, *rest = re.split("([ -])", phrase)
    if not rest:
        return (phrase, *sorted(_forms(library, phrase) - {phrase}))
    words = [first, *rest[1::2]]
    before, after = phrase[: -len(words[-1])], "".join(rest)
    forms = {form + after for form in _first_forms(library, words)}
    forms |= {before + form for form in _last_forms(library, words)}
    return (phrase, *sorted(forms - {phrase}))


def _forms(library: Any, word: str) -> set[str]:
    """The forms of one word."""
    lemma = _SINGULAR.get(word)
    if lemma is not None:
        return {word, lemma, *_forms(library, lemma)}
    forms = {word, *_IRREGULAR.get(word, ())}
    own = library.getAllInflections(word)
    lemmas = library.getAllLemmas(word)
    if own:
        forms |= _joined(own)
        for kind, lemma in _other_lemmas(library, word, lemmas):
            forms |= {lemma, *_joined(library.getAllInflections(lemma, kind))}
        return forms
    for lemma in {form for found in lemmas.values() for form in found}:
        forms |= {lemma, *_joined(library.getAllInflections(lemma))}
    if len(forms) > 1 or not word.isalpha() or word.lower() in FUNCTION_WORDS:
        return forms
    if lemma := _singular(library, word):
        return forms | _forms(library, lemma)
    if not word.endswith(("ed", "ing")):
        for kind in lemmas or ("NOUN", "VERB"):
            forms |= _joined(library.getAllInflectionsOOV(word, kind))
    return forms


def _other_lemmas(
    library: Any, word: str, lemmas: dict[str, tuple[str, ...]]
) -> set[tuple[str, str]]:
    """The words, by their part of speech, of which a word that has forms itself is a form.

    Not where it is more likely a word of its own: "saw", "rose", "dive", "cooler", "glasses".
    """
    own = library.getAllInflections
    result = set[tuple[str, str]]()
    for kind, found in lemmas.items():
        for lemma in set(found) - {word}:
            if kind == "VERB":
                gerund = word.endswith("ing") and word not in NOUNS_IN_ING
                wanted = word not in found and (gerund or not own(word, "NOUN"))
            elif kind == "NOUN":
                wanted = not word.endswith("s") and not own(word, "VERB")
            else:
                irregular = not word.startswith(lemma[:-1])
                alone = not own(word, "NOUN") and not own(word, "VERB")
                wanted = word not in found and (irregular or alone)
            if wanted and word in _joined(own(lemma, kind)):
                result.add((kind, lemma))
    return result


def _singular(library: Any, word: str) -> str | None:
    """The singular of a plural that lemminflect does not know; None if the word is none."""
    if not re.fullmatch("[a-z]{2,}(?<![suio])s", word) or library.getAllLemmas(word):
        return None
    if not word.endswith("ies"):
        return str(library.getAllLemmasOOV(word, "NOUN")["NOUN"][0])
    return word[:-3] + "y" if word[:-3].endswith(_BEFORE_Y) else word[:-1]


# -- phrases ----------------------------------------------------------------------------------


def _first_forms(library: Any, words: list[str]) -> set[str]:
    """The forms of the first word of a phrase, if it can be inflected."""
    first = words[0].lower()
    if first in FUNCTION_WORDS:
        return set()
    if words[1].lower() in FUNCTION_WORDS:
        return _forms_as(library, words[0], "VERB") | _forms_as(library, words[0], "NOUN")
    adjective = "JJR" in library.getAllInflections(first) and first not in VERBS_AND_ADJECTIVES
    if adjective or first in NOUNS or first not in library.getAllLemmas(first).get("VERB", ()):
        return set()
    return _forms_as(library, words[0], "VERB")


def _last_forms(library: Any, words: list[str]) -> set[str]:
    """The forms of the last word of a phrase, if it can be inflected."""
    last = words[-1]
    if last.lower() in FUNCTION_WORDS or words[1].lower() in FUNCTION_WORDS:
        return set()
    forms = _forms_as(library, last, "NOUN")
    if not library.getAllLemmas(last) and last.isalpha():
        forms = forms | _joined(library.getAllInflectionsOOV(last, "NOUN"))
    if last.lower() in ACTIVITIES and not _first_forms(library, words):
        forms = forms | _forms_as(library, last, "VERB")
    return forms


def _forms_as(library: Any, word: str, kind: str) -> set[str]:
    """The forms of a word as a noun or as a verb; none if it is not one."""
    forms: set[str] = set()
    for lemma in library.getAllLemmas(word).get(kind, ()):
        forms |= {lemma, *_joined(library.getAllInflections(lemma, kind))}
    return forms


def _joined(tagged: dict[str, tuple[str, ...]]) -> set[str]:
    return {form for found in tagged.values() for form in found}
