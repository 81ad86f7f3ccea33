"""Texts in which all of some concepts are mentioned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Literal
from unicodedata import normalize

from pcgcd.basics.choices import check_one_of
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.base import Constraint
from pcgcd.constraints.checks import at_most, is_range, literal_text
from pcgcd.constraints.keywords.automaton import KeywordBuilder
from pcgcd.constraints.keywords.inflection import inflections
from pcgcd.constraints.keywords.requirement import Requirement
from pcgcd.constraints.keywords.word_trie import WordTrie
from pcgcd.errors import AutomatonTooLargeError, EmptyLanguageError, InvalidParameterError

_MAX_ENDS = 1000
# What stands for a space or an apostrophe of a concept in texts.
_VARIANTS = {" ": (" ", "-"), "'": ("'", "\u2019")}
_PLAIN = str.maketrans("-\u2019", " '")
Case = Literal["any", "capitalised", "exact"]


def keywords(
    concepts: Sequence[str] | Mapping[str, Iterable[str]],
    *,
    inflect: bool = True,
    case: Case = "any",
    order: Literal["any", "given"] = "any",
    ends_with: str | None = None,
    bans: Iterable[str] = (),
    counts: Mapping[str, tuple[int, int | None] | int] | None = None,
    alphabet: Literal["unicode", "ascii"] = "unicode",
    state_limit: int = 200_000,
) -> Constraint:
    """Accept texts in which every concept occurs, in any of its forms, as a whole word.

    A form is a whole word where no letter stands before or after it, so "dog" occurs in "dog's",
    "dog-tired" and "dog2" but not in "dogma". Letters are those of ASCII and the accented, Greek,
    Cyrillic, Hebrew and Arabic ones (:func:`~pcgcd.constraints.keywords.letters.is_letter`); if any
    word has a digit, digits too, so that "100" does not occur in "1000". Accents may be composed or
    not, apostrophes straight or typographic, and a concept of several words ("ice cream") occurs
    with one space or one hyphen between them.

    No word counts for two concepts. A form that is itself another concept counts for that one only,
    an inflection of several concepts for the first of them, and where forms overlap, there must be
    enough occurrences that share no words: with the concepts "dog" and "hot dog", "a hot dog" has
    one of them, and "a dog and a hot dog" has both. In a mapping, a form that is given to two
    concepts counts for both.

    Args:
        concepts: The concepts, or a mapping from each concept to its forms. A concept that is given
            twice counts once; ``counts`` can ask for more.
        inflect: Take all inflections of each concept (needs the package lemminflect; see
            :func:`~pcgcd.constraints.keywords.inflection.inflections`). With a mapping the forms
            are as given, also if they are those of two concepts, and this has no effect.
        case: ``"any"``: each letter in either case. ``"capitalised"``: as given, or with a capital
            first letter. ``"exact"``: as given.
        order: Whether the concepts may occur in any order, or must be found one after the other
            in the given order (further occurrences are free).
        ends_with: Characters (1,000 at most) of which one must end the text, for example ``".!?"``.
        bans: Words that must not occur as whole words; they are not inflected.
        counts: How often concepts occur: ``{"dog": (1, 2)}``, ``{"dog": 2}``, ``{"dog": (2,
            None)}``; otherwise at least once. Occurrences are distinguished by where they end; one
            that lies within another that is taken ("dog" within "hot dog") does not count towards
            what there may be at most.
        alphabet: Any text in UTF-8, or printable ASCII only (a smaller automaton).
        state_limit: Raise rather than build an automaton with more states. The states grow with
            the product of the counts, so as 2 ** (number of concepts), and faster for concepts
            whose forms overlap.

    Raises:
        EmptyLanguageError: If no text would do, for example because of the bans.
        AutomatonTooLargeError: If there are too many concepts.

    >>> snowy = keywords({"dog": ["dog", "dogs"], "run": ["run", "runs", "ran"]}, ends_with=".")
    >>> (*map(snowy.matches, ("Dogs ran.", "A dog runs", "The dogma ran.")),)
    (True, False, False)
    """
    forms = _forms(concepts, inflect)
    banned = _words("ban", bans)
    check_one_of("case", case, "any", "capitalised", "exact")
    check_one_of("order", order, "any", "given")
    check_one_of("alphabet", alphabet, "unicode", "ascii")
    if ends_with is not None:
        literal_text(ends_with, "ends_with")
        if not 1 <= len(ends_with) <= _MAX_ENDS:
            raise InvalidParameterError(
                f"ends_with must be 1 to {_MAX_ENDS} characters such as '.!?', or None for any "
                f"end, but there are {len(ends_with)}"
            )
    check_whole_number("state_limit", state_limit, least=1)
    requirements = _requirements(forms, counts or {})
    letters = sum(len(word) for words in (*forms.values(), banned) for word in words)
    if letters > state_limit:
        raise AutomatonTooLargeError(
            f"the words have {letters:,} letters, and there may be {state_limit:,} states; use "
            f"shorter words, or raise state_limit"
        )
    trie = WordTrie()
    for bit, words in enumerate([*forms.values(), banned]):
        for word in chain.from_iterable(_spellings(word, case) for word in words):
            trie.insert(word, bit)
    _check_bans(forms, requirements, banned, case)
    ordered = [i for i, name in enumerate(forms) if order == "given" and requirements[name].least]
    tracked = [
        # What the order demands need not be counted as well.
        Requirement(0, None) if i in ordered and wanted == (1, None) else wanted
        for i, wanted in enumerate(requirements.values())
    ]
    combinations = prod(wanted.highest + 1 for wanted in tracked) * (len(ordered) + 1)
    if combinations > state_limit:
        raise AutomatonTooLargeError(
            f"these {len(forms)} concepts and counts can be met in {combinations} combinations, "
            f"each of which is at least one state, and the limit is {state_limit}; use fewer "
            f"concepts or lower counts, or raise state_limit"
        )
    characters = {character for node in trie.children for character in node}
    builder = KeywordBuilder(
        trie,
        tracked,
        variants={character: _variants(character, case) for character in characters},
        order=ordered,
        ends_with=ends_with,
        ascii_only=alphabet == "ascii",
        state_limit=state_limit,
        digits=any(character.isdecimal() for character in characters),
    )
    return Constraint.from_automaton(builder.build(), f"keywords({', '.join(forms)})")


def _forms(
    concepts: Sequence[str] | Mapping[str, Iterable[str]], inflect: bool
) -> dict[str, tuple[str, ...]]:
    """The forms of each concept, without those that are other concepts."""
    if isinstance(concepts, str):
        raise InvalidParameterError(
            f"concepts must be several words, such as [{concepts!r}], but one string was given"
        )
    names = tuple(dict.fromkeys(_words("concept", concepts)))
    if not names:
        raise InvalidParameterError("there must be at least one concept, but none was given")
    forms: dict[str, tuple[str, ...]] = {}
    taken: set[str] = set()
    for name in names:
        if isinstance(concepts, Mapping):
            given = _words(f"form of {name!r}", concepts[name])
            if not given:
                raise InvalidParameterError(
                    f"concept {name!r} has no forms; give it at least one, such as itself"
                )
        else:
            given = inflections(name) if inflect else (name,)
        kept = tuple(
            form for form in given if form == name or (form not in names and form not in taken)
        )
        if not isinstance(concepts, Mapping):
            taken.update(kept)
        if not kept:
            raise InvalidParameterError(
                f"every form of concept {name!r} is itself another concept; give it a form of "
                f"its own"
            )
        forms[name] = kept
    return forms


def _words(what: str, words: Iterable[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        words = (words,)
    if not isinstance(words, Iterable):
        raise InvalidParameterError(
            f"every {what} must be a word or a list of words, but {words!r} was given"
        )
    result = at_most(words, f"words as {what}")
    for word in result:
        if not isinstance(word, str) or not word.strip() or word != word.strip():
            raise InvalidParameterError(
                f"a {what} must be a word or words without spaces around them, but {word!r} was "
                f"given"
            )
        literal_text(word, f"a {what}")
    return result


def _requirements(
    forms: Mapping[str, object], counts: Mapping[str, tuple[int, int | None] | int]
) -> dict[str, Requirement]:
    result = dict.fromkeys(forms, Requirement(1, None))
    if not isinstance(counts, Mapping):
        raise InvalidParameterError(
            f"counts must be a mapping from concepts to how often they occur, but it is {counts!r}"
        )
    for name, given in counts.items():
        if name not in forms:
            raise InvalidParameterError(
                f"counts names {name!r}, which is not a concept; the concepts are {list(forms)}"
            )
        pair = (given, given) if isinstance(given, int) else given
        if not is_range(pair):
            raise InvalidParameterError(
                f"the count of {name!r} must be a number, or (least, most) with 0 <= least <= "
                f"most, but it is {given!r}"
            )
        result[name] = Requirement(*pair)
    return result


def _check_bans(
    forms: Mapping[str, tuple[str, ...]],
    requirements: Mapping[str, Requirement],
    banned: tuple[str, ...],
    case: Case,
) -> None:
    gone = set(chain.from_iterable(_spellings(word, case) for word in banned))
    for name, words in forms.items():
        spellings = set(chain.from_iterable(_spellings(word, case) for word in words))
        if requirements[name].least and spellings <= gone:
            raise EmptyLanguageError(
                f"concept {name!r} must occur, but each of its forms {list(words)} is banned; "
                f"lift a ban or drop the concept"
            )


def _spellings(word: str, case: Case) -> list[str]:
    """How a word stands in the trie: with accents composed and not."""
    plain = word.translate(_PLAIN)
    spellings = dict.fromkeys(normalize(form, plain) for form in ("NFC", "NFD"))
    if case == "any":
        return ["".join(_lower(each) for each in spelling) for spelling in spellings]
    if case == "capitalised":
        for spelling in list(spellings):
            first = spelling[0].upper()
            if len(first) == 1:
                spellings[first + spelling[1:]] = None
    return list(spellings)


def _lower(character: str) -> str:
    return low if len(low := character.lower()) == 1 else character


def _variants(character: str, case: Case) -> tuple[str, ...]:
    """The characters of a text that stand for a character of the trie."""
    if character in _VARIANTS:
        return _VARIANTS[character]
    upper = character.upper()
    if case == "any" and len(upper) == 1 and upper != character and upper.lower() == character:
        return character, upper
    return (character,)
