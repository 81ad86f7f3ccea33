"""keywords() against an oracle of look-arounds, which knows nothing of tries and states."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcgcd.automata import FiniteAutomaton
from pcgcd.constraints.keywords import keywords
from pcgcd.constraints.keywords.letters import is_letter
from pcgcd.errors import (
    AutomatonTooLargeError,
    EmptyLanguageError,
    InvalidParameterError,
    MissingDependencyError,
)

DATA = Path(os.environ.get("PCGCD_DATA", "../shared/data")) / "commongen" / "dev.jsonl"
LETTERS = "a-zA-Zªµº\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u07ff\u1e00-\u1fff"


class Texts:
    """An automaton with its transitions in a table, to accept many texts quickly."""

    def __init__(self, automaton: FiniteAutomaton) -> None:
        assert automaton.is_deterministic
        self.start = int(automaton.initial_mask.nonzero()[0][0])
        self.accepting = automaton.accepting_mask
        self.table: dict[tuple[int, int], int] = {}
        for source, target, label in zip(automaton.source, automaton.target, automaton.label):
            for byte in automaton.labels.tokens(label):
                self.table[int(source), int(byte)] = int(target)

    def __contains__(self, text: str | bytes) -> bool:
        state: int | None = self.start
        for byte in text.encode() if isinstance(text, str) else text:
            state = self.table.get((state, byte)) if state is not None else None
        return state is not None and bool(self.accepting[state])


def accepted(concepts: Any, **options: Any) -> Texts:
    return Texts(keywords(concepts, **options).automaton)


def occurrences(text: str, form: str, case: str, letters: str = LETTERS) -> list[tuple[int, int]]:
    """Where a form starts and ends in the text as a whole word."""

    def one(c: str, either: bool) -> str:
        if c in " -":
            return "[ -]"
        return f"[{re.escape(c.lower() + c.upper())}]" if either else re.escape(c)

    either = [case == "any" or (case == "capitalised" and i == 0) for i in range(len(form))]
    spelled = "".join(map(one, form, either))
    pattern = re.compile(f"(?<![{letters}])(?:{spelled})(?![{letters}])", re.ASCII)
    matches = (pattern.match(text, i) for i in range(len(text)))
    return [match.span() for match in matches if match]


Found = tuple[int, int, frozenset[str]]  # start, end, and the concepts


def disjoint(found: Sequence[Found]) -> Iterator[list[Found]]:
    """All choices of occurrences that do not overlap; those found are sorted by their start."""
    if not found:
        yield []
        return
    yield from disjoint(found[1:])
    for others in disjoint([other for other in found[1:] if other[0] >= found[0][1]]):
        yield [found[0], *others]


def expected(
    text: str,
    forms: Mapping[str, Sequence[str]],
    *,
    case: str = "any",
    order: str = "any",
    ends_with: str | None = None,
    bans: Sequence[str] = (),
    counts: Mapping[str, tuple[int, int | None]] | None = None,
) -> bool:
    """Try every choice of occurrences."""
    if ends_with is not None and (not text or text[-1] not in ends_with):
        return False
    every = "".join([*bans, *(word for words in forms.values() for word in words)])
    letters = LETTERS + ("0-9" if re.search("[0-9]", every) else "")
    if any(occurrences(text, word, case, letters) for word in bans):
        return False
    concepts: dict[tuple[int, int], set[str]] = {}
    for name, words in forms.items():
        for word in words:
            if word == name or word not in forms:
                for span in occurrences(text, word, case, letters):
                    concepts.setdefault(span, set()).add(name)
    found = [(*span, frozenset(names)) for span, names in sorted(concepts.items())]
    wanted = {name: (counts or {}).get(name, (1, None)) for name in forms}

    def is_enough(taken: list[Found]) -> bool:
        for name, (least, most) in wanted.items():
            # In the given order it is enough that there is one in its place.
            in_order = order == "given" and (least, most) == (1, None)
            if not in_order and sum(name in names for _, _, names in taken) < least:
                return False
            outside = {
                end
                for start, end, names in found
                if name in names
                and not any(s <= start and end <= e and (s, e) != (start, end) for s, e, _ in taken)
            }
            if most is not None and len(outside) > most:
                return False
        if order == "given":
            rest = [name for name, (least, _) in wanted.items() if least]
            for _, _, names in taken:
                if rest and rest[0] in names:
                    rest.pop(0)
            return not rest
        return True

    return any(map(is_enough, disjoint(found)))


PIECES = [
    "a",
    "b",
    "ab",
    "ba",
    "aa",
    "A",
    "é",
    "É",
    " ",
    "-",
    "'",
    ".",
    "1",
    "—",
    "×",
    "β",
    "日",
    "😀",
]
WORDS = st.sampled_from(["a", "b", "ab", "ba", "aba", "a b", "b-a", "a a", "aé", "é", "b.", "1a"])
FORMS = st.lists(
    st.tuples(WORDS, st.lists(WORDS, max_size=2)), min_size=1, max_size=3, unique_by=lambda x: x[0]
).map(lambda pairs: {name: [name, *others] for name, others in pairs})
TEXT = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_automaton_accepts_what_the_oracle_accepts(data: st.DataObject) -> None:
    forms = data.draw(FORMS)
    options: dict[str, Any] = {
        "case": data.draw(st.sampled_from(["any", "capitalised", "exact"])),
        "order": data.draw(st.sampled_from(["any", "given"])),
        "ends_with": data.draw(st.sampled_from([None, ".", ".b—"])),
        "bans": data.draw(st.lists(WORDS, max_size=2)),
        "counts": {
            name: data.draw(st.sampled_from([(0, 1), (1, 2), (2, None), (2, 2), (0, 0)]))
            for name in forms
            if data.draw(st.integers(0, 2)) == 0
        },
    }
    texts = data.draw(st.lists(TEXT, min_size=5, max_size=15))
    texts += [" ".join(words) for words in (forms, [*forms, *forms], [*reversed(forms)])]
    texts += [f"{text}." for text in texts]
    try:
        language = accepted(forms, **options)
    except EmptyLanguageError:
        assert not any(expected(text, forms, **options) for text in texts)
        return
    for text in texts:
        assert (text in language) == expected(text, forms, **options), text


@pytest.mark.parametrize("alphabet", ["unicode", "ascii"])
def test_one_word_is_found_wherever_it_is_whole(alphabet: Any) -> None:
    language = accepted({"dog": ["dog", "dogs"]}, alphabet=alphabet)
    for text in (
        "dog",
        "Dogs!",
        "a dog's life",
        "dog-tired",
        "hot-dog",
        "dog2",
        "3dogs",
        "dogma dog",
    ):
        assert text in language
    for text in ("", "dogma", "hotdog", "do g", "dogged dogmas", "d-o-g"):
        assert text not in language
    assert ("“dog”" in language) == (alphabet == "unicode")
    assert ("dog\n" in language) == (alphabet == "unicode")


def test_letters_beyond_ascii_continue_a_word_and_other_characters_do_not() -> None:
    language = accepted(["caf"], inflect=False)
    for code in [*range(0x80, 0x900), *range(0x1DF0, 0x2030), 0x4E00, 0xFF0C, 0x1F600]:
        assert (f"caf{chr(code)}" in language) == (not is_letter(chr(code)))
        assert (f"{chr(code)}caf" in language) == (not is_letter(chr(code)))
    assert "caf" in accepted(["caf"], inflect=False)


def test_only_utf8_is_accepted() -> None:
    language = accepted(["dog"], inflect=False)
    for wrong in (b"dog \xff", b"dog \xc3", b"dog \xed\xa0\x80", b"\x80 dog", b"dog \xc0\xaf"):
        assert wrong not in language
    assert "dog \U0010ffff\u07ff\uffff" in language


def test_a_form_that_is_another_concept_counts_for_that_one_only() -> None:
    language = accepted({"leave": ["leave", "leaves"], "leaves": ["leaves"]})
    assert "leaves" not in language
    assert "leave the leaves" in language


def test_several_words_may_be_one_concept_and_share_their_parts() -> None:
    language = accepted(["ice cream", "ice age"], inflect=False)
    assert "ice cream of the ice age" in language
    assert "ice  cream of the ice age" not in language
    assert "cream of the ice age" not in language
    assert "ice ice cream, ice ice age" in language


def test_a_concept_given_twice_counts_once() -> None:
    assert "a drink" in accepted(["drink", "drink"], inflect=False)


def test_bans_take_away_forms_and_whole_words_only() -> None:
    language = accepted({"dog": ["dog", "dogs"]}, bans=["dog", "cat"])
    assert "two dogs" in language
    assert "a category of dogs" in language
    assert "a dog and dogs" not in language
    assert "dogs and a cat" not in language


def test_forms_are_kept_in_any_order_by_a_small_deterministic_automaton() -> None:
    forms = {
        "dog": ["dog", "dogs", "dogged", "dogging"],
        "ball": ["ball", "balls", "balled", "balling"],
        "catch": ["catch", "catches", "caught", "catching"],
        "throw": ["throw", "throws", "threw", "thrown", "throwing"],
        "field": ["field", "fields", "fielded", "fielding"],
    }
    automaton = keywords(forms).automaton
    assert automaton.is_deterministic
    assert automaton.num_states < 2000


def test_what_is_missing_or_wrong_is_said() -> None:
    for concepts in ([], [""], [" dog"], "dog", {"dog": []}, [3], ["\ud800"]):
        with pytest.raises(InvalidParameterError):
            keywords(concepts, inflect=False)
    for options in (
        {"case": "upper"},
        {"order": "random"},
        {"alphabet": "latin"},
        {"ends_with": ""},
        {"bans": [""]},
        {"counts": {"cat": 1}},
        {"counts": {"dog": (2, 1)}},
        {"counts": {"dog": (-1, 1)}},
    ):
        with pytest.raises(InvalidParameterError):
            keywords(["dog"], inflect=False, **options)
    with pytest.raises(InvalidParameterError, match="another concept"):
        keywords({"dog": ["cat"], "cat": ["cat"]})


def test_contradictions_are_empty_languages() -> None:
    with pytest.raises(EmptyLanguageError, match="dog"):
        keywords({"dog": ["dog", "dogs"]}, bans=["Dog", "dogs"])
    with pytest.raises(EmptyLanguageError):
        keywords(["ice cream"], inflect=False, bans=["cream"])
    with pytest.raises(EmptyLanguageError):
        keywords(["é"], inflect=False, alphabet="ascii")


def test_too_many_concepts_are_refused_at_once() -> None:
    with pytest.raises(AutomatonTooLargeError, match="combinations"):
        keywords([f"word{i}x" for i in range(40)], inflect=False)
    with pytest.raises(AutomatonTooLargeError, match="states"):
        keywords([f"w{chr(97 + i)}" for i in range(10)], inflect=False, state_limit=2000)


def test_without_lemminflect_inflections_are_refused_and_the_rest_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lemminflect", None)
    with pytest.raises(MissingDependencyError, match="pip install lemminflect"):
        keywords(["dog"])
    assert "dog" in accepted(["dog"], inflect=False)


def test_inflections_of_words_are_accepted() -> None:
    pytest.importorskip("lemminflect")
    language = accepted(["dog", "catch", "ice cream"])
    assert "Dogs caught ice creams" in language
    assert "Dogs catching ice cream" in language
    assert "Dogs catching creams" not in language


@pytest.mark.parametrize(
    ("concept", "forms", "others"),
    [
        ("frisbee", ["frisbees"], []),
        ("burger", ["burgers"], []),
        ("gallery", ["galleries"], []),
        ("trunk", ["trunks"], []),
        ("look up", ["looks up", "looked up", "looking up"], ["look ups", "look upped"]),
        ("ice cream", ["ice creams", "ice-creams"], ["ices cream"]),
        ("ice-cream", ["ice creams", "ice-cream", "ice cream"], ["icecream"]),
        ("mice", ["mouse"], ["mices"]),
        ("ran", ["run", "running", "runs"], ["ranned"]),
        ("ox", ["oxen"], []),
        ("person", ["people", "persons"], []),
        ("people", ["person", "people"], ["peopling"]),
        ("ride a bike", ["rode a bike", "riding a bike"], ["ride a bikes", "ride a rode"]),
        ("fire truck", ["fire trucks"], ["fired truck", "fire trucked"]),
        ("brush teeth", ["brushed teeth", "brush tooth"], ["brush teethed"]),
        ("take care of", ["took care of"], ["take cares of", "take care ofs"]),
        ("ice skate", ["ice skating", "ice skates"], ["iced skate"]),
        ("running", ["run", "ran", "runs"], []),
        ("painting", ["paintings", "painted"], []),
        ("better", ["good", "best"], []),
        ("saw", ["saws"], ["see", "seen"]),
        ("rose", ["roses"], ["rise"]),
        ("dive", ["dives", "dove"], ["diva", "divas"]),
        ("dice", [], ["die", "dies"]),
        ("data", ["datum"], []),
        ("evening", ["evenings"], ["even", "evened"]),
        ("selfies", ["selfie"], ["selfy"]),
        ("galleries", ["gallery"], ["gallerie"]),
        ("googled", ["google", "googling"], ["googleds"]),
        ("without", [], ["withouts"]),
    ],
)
def test_forms_of_unknown_irregular_and_joined_words(
    concept: str, forms: list[str], others: list[str]
) -> None:
    pytest.importorskip("lemminflect")
    language = accepted([concept])
    for form in (concept, *forms):
        assert f"The {form}." in language, form
    for form in others:
        assert f"The {form}." not in language, form


def test_numbers_are_whole_and_spellings_of_one_character_are_equal() -> None:
    numbers = accepted(["100"], inflect=False)
    assert [t for t in ("100", "1000", "2100", "100.5", "$100!", "100m") if t in numbers] == [
        "100",
        "100.5",
        "$100!",
    ]
    for word in ("caf\u00e9", "cafe\u0301"):
        cafe = accepted([word], inflect=False)
        texts = ("a caf\u00e9", "a cafe\u0301", "CAF\u00c9", "CAFE\u0301", "cafe")
        assert [text in cafe for text in texts] == [True, True, True, True, False]
    for word in ("don't", "don\u2019t"):
        apostrophe = accepted([word], inflect=False)
        assert [t in apostrophe for t in ("I don't", "I don\u2019t", "dont")] == [True, True, False]


def test_one_word_is_not_two_concepts_unless_asked() -> None:
    pytest.importorskip("lemminflect")
    language = accepted(["leaf", "leave"])
    assert "leaves" not in language
    assert "leaves leave" in language
    asked = accepted({"leaf": ["leaf", "leaves"], "leave": ["leave", "leaves"]})
    assert "leaves" in asked


@pytest.mark.parametrize(
    ("concepts", "inside", "enough"),
    [
        (["dog", "hot dog"], ["a hot dog"], ["a hot dog and a dog", "two hot dogs, a hot-dog"]),
        (["look", "look up"], ["He looked up"], ["look, he looked up", "looking up, he looks up"]),
        (["New York", "York"], ["New York"], ["York, New York", "New York New York"]),
        (
            ["fire", "fire truck", "truck"],
            ["fire truck", "fire, fire truck"],
            ["fire truck truck fire"],
        ),
        (["fire truck", "truck stop"], ["fire truck stop"], ["fire truck truck stop"]),
        (["a b", "b c", "c d"], ["a b c d", "a b b c d"], ["a b b c c d", "b c d c a b c d"]),
    ],
)
def test_words_of_one_phrase_are_not_two_concepts(
    concepts: list[str], inside: list[str], enough: list[str]
) -> None:
    pytest.importorskip("lemminflect")
    language = accepted(concepts)
    assert [text for text in inside if text in language] == []
    assert [text for text in enough if text not in language] == []


@pytest.mark.parametrize(
    ("forms", "counts"),
    [
        ({"a": ["a"], "b a": ["b a"]}, {}),
        ({"a": ["a"], "b a": ["b a"]}, {"a": (1, 1), "b a": (1, 1)}),
        ({"a": ["a"], "b a": ["b a"]}, {"a": (0, 0)}),
        ({"a": ["a"], "b a": ["b a"]}, {"b a": (0, 0)}),
        ({"a": ["a"], "b a": ["b a"]}, {"a": (2, 3), "b a": (0, None)}),
        ({"a b": ["a b"], "b a": ["b a"], "a": ["a"]}, {}),
        ({"a b": ["a b"], "b a": ["b a"], "a": ["a"]}, {"a": (0, 1), "b a": (2, None)}),
        ({"a b": ["a b"], "b a": ["b a"], "a b a": ["a b a"]}, {"a b": (1, 2)}),
        ({"a": ["a", "a b"]}, {"a": (2, 2)}),
        ({"a a": ["a a"]}, {"a a": (2, None)}),
        ({"x": ["a", "b a"], "y": ["b", "b a"]}, {}),
        ({"x": ["a", "b a"], "y": ["b", "b a"]}, {"x": (1, 1), "y": (2, None)}),
        ({"b.": ["b.", "."], "a": ["a", ". a"]}, {"b.": (2, None)}),
    ],
)
@pytest.mark.parametrize("order", ["any", "given"])
def test_overlapping_forms_are_taken_as_in_the_best_choice(
    forms: dict[str, list[str]], counts: dict[str, tuple[int, int | None]], order: Any
) -> None:
    language = accepted(forms, counts=counts, order=order)
    pieces = ["a", "b", "c"] if "." not in "".join(forms) else ["a", "b", "."]
    for length in range(7):
        for words in product(pieces, repeat=length):
            text = " ".join(words).replace(" .", ".")
            wanted = expected(text, forms, counts=counts, order=order)
            assert (text in language) == wanted, text


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_overlapping_phrases_of_two_words_are_told_apart(data: st.DataObject) -> None:
    phrases = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join)
    names = data.draw(st.lists(phrases, min_size=2, max_size=4, unique=True))
    forms = {name: [name, *data.draw(st.lists(phrases, max_size=1))] for name in names}
    counts = {
        name: data.draw(st.sampled_from([(0, 1), (1, 1), (2, None), (0, None)]))
        for name in names
        if data.draw(st.booleans())
    }
    order = data.draw(st.sampled_from(["any", "given"]))
    texts = data.draw(
        st.lists(st.lists(st.sampled_from("abcd"), max_size=9).map(" ".join), min_size=20)
    )
    texts += [" ".join(names), " ".join(reversed(names)), " ".join([*names, *names])]
    try:
        language = accepted(forms, counts=counts, order=order)
    except EmptyLanguageError:
        assert not any(expected(text, forms, counts=counts, order=order) for text in texts)
        return
    for text in texts:
        assert (text in language) == expected(text, forms, counts=counts, order=order), text


def test_more_overlapping_concepts_still_have_small_automata() -> None:
    concepts = ["New York", "York", "New York City", "City", "new", "city hall", "hall"]
    language = keywords(concepts, inflect=False)
    assert language.automaton.num_states < 20_000
    assert not language.matches("new: New York City hall")
    assert language.matches("York, New York, New York City, a new city hall, a hall in the city")


@pytest.mark.skipif(not DATA.exists(), reason="CommonGen is not here (set PCGCD_DATA)")
def test_references_are_judged_as_the_oracle_judges_them() -> None:
    pytest.importorskip("lemminflect")
    from pcgcd.constraints.keywords.inflection import inflections

    rows = [json.loads(line) for line in DATA.read_text().splitlines()][:60]
    for row in rows:
        forms: dict[str, list[str]] = {}
        for concept in row["concepts"]:
            taken = {form for others in forms.values() for form in others}
            forms[concept] = [f for f in inflections(concept) if f == concept or f not in taken]
        language = accepted(row["concepts"])
        for text in row["references"]:
            assert (text in language) == expected(text, forms), text
