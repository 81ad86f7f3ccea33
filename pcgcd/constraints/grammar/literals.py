"""The strings, patterns and ranges of a grammar, and the terminals that it can import."""

from __future__ import annotations

import re

from pcgcd.automata.expressions import Expression
from pcgcd.automata.expressions import literal as literal_expression
from pcgcd.automata.expressions.utf8 import character_set
from pcgcd.constraints.regex.regex import regex_expression
from pcgcd.errors import InvalidParameterError, PcgcdError

_DIGITS = "[0-9]+"
_EXPONENT = f"(?:[eE][+-]?{_DIGITS})"
_DECIMAL = rf"(?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})"
_FLOAT = f"(?:{_DIGITS}{_EXPONENT}|{_DECIMAL}{_EXPONENT}?)"
_NUMBER = f"(?:{_FLOAT}|{_DIGITS})"

# The terminals of Lark's module "common". Strings and comments end at their first end mark.
_COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": _DIGITS,
    "SIGNED_INT": f"[+-]?{_DIGITS}",
    "DECIMAL": _DECIMAL,
    "FLOAT": _FLOAT,
    "SIGNED_FLOAT": f"[+-]?{_FLOAT}",
    "NUMBER": _NUMBER,
    "SIGNED_NUMBER": f"[+-]?{_NUMBER}",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[a-zA-Z]",
    "WORD": "[a-zA-Z]+",
    "CNAME": "[_a-zA-Z][_a-zA-Z0-9]*",
    "WS_INLINE": "[ \\t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"\/\/[^\n]*",
    "C_COMMENT": r"\/\*(?:[^*]|\*+[^*\/])*\*+\/",
    "SQL_COMMENT": r"--[^\n]*",
}
COMMON = {name: f"/{text}/" for name, text in _COMMON.items()}

_FLAGS = {"i": re.I, "m": re.M, "s": re.S, "l": re.L, "u": re.U, "x": re.X}
_ESCAPE = re.compile(
    r'\\(?:(["\\])|([nftr])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))'
)
_CONTROL = {"n": "\n", "f": "\f", "t": "\t", "r": "\r"}


def pattern(token: str, line: int = 0) -> Expression:
    """The expression of ``/.../`` with flags."""
    body, _, letters = token[1:].rpartition("/")
    flags = sum(_FLAGS[letter] for letter in set(letters))
    if "\n" in body and "x" not in letters:
        raise InvalidParameterError(
            f"the pattern in line {line} of the grammar spans several lines; give it the flag x, "
            "or write it in one"
        )
    try:
        return regex_expression(body, flags, whole_text=False)
    except PcgcdError as error:
        raise type(error)(f"line {line} of the grammar: {error}") from error


def string(token: str, line: int) -> Expression:
    """The expression of ``"..."``, or of ``"..."i`` in any case."""
    text = _text(token, line)
    if not text:
        raise InvalidParameterError(
            f"line {line} of the grammar has an empty string; leave it out, or write an empty "
            "alternative"
        )
    if token.endswith("i"):
        return regex_expression(re.escape(text), re.IGNORECASE)
    return literal_expression(text)


def character_range(first: str, last: str, line: int) -> Expression:
    """The expression of ``"a".."z"``."""
    low, high = _text(first, line), _text(last, line)
    if len(low) != 1 or len(high) != 1 or low > high:
        raise InvalidParameterError(
            f"line {line} of the grammar has the range {first[:20]}..{last[:20]}; a range leads "
            "from one character to a later one"
        )
    return character_set(((ord(low), ord(high)),))


def _text(token: str, line: int) -> str:
    def replacement(found: re.Match[str]) -> str:
        plain, control, *codes = found.groups()
        if plain:
            return str(plain)
        if control:
            return _CONTROL[control]
        code = int(next(each for each in codes if each), 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise InvalidParameterError(
                f"line {line} of the grammar has {found.group()}, which is not a character; "
                "correct it"
            )
        return chr(code)

    text = _ESCAPE.sub(replacement, token.removesuffix("i")[1:-1])
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise InvalidParameterError(
            f"line {line} of the grammar has a lone surrogate in a string; remove it"
        )
    return text
