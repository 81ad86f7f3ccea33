"""JSON numbers in an interval, or that are multiples, as byte expressions.

Whole numbers are written ``12``, or ``12.0`` as JSON Schema says that this is a whole number too.
Other numbers are written plainly, or in normalised scientific notation. An exclusive bound is moved
to the next 64-bit float, so that a number still satisfies it after it has been read as a float.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import (
    NOTHING,
    Embedded,
    Expression,
    byte_range,
    intersection,
    literal,
    option,
    repeat,
    star,
    union,
)
from pcgcd.automata.expressions.word_lists import word_list
from pcgcd.constraints.json_schema.characters import numerals
from pcgcd.constraints.json_schema.specs import Bound, NumberSpec
from pcgcd.errors import UnsupportedConstraintError


def _digit(first: int, last: int) -> Expression:
    return byte_range(0x30 + first, 0x30 + last)


_DIGIT = _digit(0, 9)
_DIGITS = repeat(_DIGIT, 1)
_WHOLE = literal("0") | _digit(1, 9) + star(_DIGIT)
_SIGN = option(literal("-"))
_FRACTION = literal(".") + _DIGITS
_E = literal("e") | literal("E")
_DECIMAL = _WHOLE + option(_FRACTION)
ANY_NUMBER = _SIGN + _DECIMAL + option(_E + option(literal("+") | literal("-")) + _DIGITS)

_MAX_MODULUS = 20_000
_MAX_DIGITS = 330
# Doubles are between these powers of ten.
_LOWEST, _HIGHEST = -300, 307
# The least positive number that is written without an exponent where a bound excludes zero.
_TINY = Fraction(1, 10**20)


def number_expression(spec: NumberSpec, whole_floats: bool = True) -> Expression:
    """All numbers of a specification; up to draft 4, 1.0 is not a whole number."""
    floats = whole_floats or not spec.integer
    if spec.values is not None:
        return word_list(text for value in spec.values for text in _spelled(value, floats))
    parts = []
    if spec.integer:
        parts.append(_integers_of(spec, floats))
    elif spec.lower or spec.upper:
        parts.append(_between(spec.lower, spec.upper))
    if spec.integer is False:
        parts.append(_BROKEN)
    if spec.multiple is not None and not spec.integer:
        parts.append(multiples(spec.multiple, True))
    parts += [multiples(step, False) for step in spec.no_multiples]
    return intersection(*parts) if parts else ANY_NUMBER


def _spelled(value: float, floats: bool) -> list[bytes]:
    texts = {json.dumps(value)}
    if value == int(value) and abs(value) <= 2**53:
        texts |= {str(int(value)), f"{int(value)}.0"}
    if value == 0:
        texts |= {"-0", "-0.0"}
    return [text.encode() for text in texts if floats or ("." not in text and "e" not in text)]


# -- whole numbers ------------------------------------------------------------------------------


def _integers_of(spec: NumberSpec, floats: bool) -> Expression:
    low = high = None
    if spec.lower:
        low = math.ceil(spec.lower.value)
        low += low == spec.lower.value and not spec.lower.inclusive
    if spec.upper:
        high = math.floor(spec.upper.value)
        high -= high == spec.upper.value and not spec.upper.inclusive
    parts = [integers(low, high)]
    # A whole number is a multiple of p/q, in lowest terms, if it is one of p.
    if spec.multiple is not None and spec.multiple.numerator != 1:
        parts.append(multiples(Fraction(spec.multiple.numerator), True))
    plain = intersection(*parts)
    exact = low is not None and high is not None and low >= -(2**53) and high <= 2**53
    # A large float may be another number than was written, which matters for multiples only.
    if not floats or (len(parts) > 1 and not exact):
        return plain
    return plain + option(literal(".0"))


def integers(low: int | None, high: int | None) -> Expression:
    """The whole numbers between two bounds, without a leading zero.

    >>> integers(1, 3) == byte_range(0x31, 0x33)
    True
    """
    if low is not None and high is not None and low > high:
        return NOTHING
    positive = _naturals(max(low or 0, 0), high) if high is None or high >= 0 else NOTHING
    if (low is None or low <= 0) and (high is None or high >= 0):
        positive |= literal("-0")
    if low is not None and low >= 0:
        return positive
    top = None if low is None else -low
    negative = _naturals(max(1, -high if high is not None else 1), top)
    return positive | literal("-") + negative


def _naturals(low: int, high: int | None) -> Expression:
    """The natural numbers between two bounds."""
    options = []
    if low == 0:
        options.append(literal("0"))
        low = 1
    if high is not None and high < low:
        return union(*options)
    first = len(str(low))
    if first > _MAX_DIGITS or (high is not None and len(str(high)) > _MAX_DIGITS):
        raise UnsupportedConstraintError(
            f"bounds of numbers may have {_MAX_DIGITS} digits, but these have more"
        )
    last = first if high is None else len(str(high))
    for size in range(first, last + 1):
        least, most = max(low, 10 ** (size - 1)), 10**size - 1
        most = most if high is None else min(high, most)
        options.append(numerals(least, most, 10, (_digit,) * size))
    if high is None:
        options.append(_digit(1, 9) + repeat(_DIGIT, first))
    return union(*options)


# -- numbers with decimals ----------------------------------------------------------------------


def _between(lower: Bound | None, upper: Bound | None) -> Expression:
    low = _inclusive(lower, +1) if lower else None
    high = _inclusive(upper, -1) if upper else None
    zero = Fraction(0)
    result = NOTHING
    if high is None or high >= 0:
        result |= _magnitudes(max(low or zero, zero), high)
    if low is None or low <= 0:
        least = zero if high is None else max(-high, zero)
        result |= literal("-") + _magnitudes(least, None if low is None else -low)
    return result


def _inclusive(bound: Bound, direction: int) -> Fraction:
    """The bound itself, or the next float if it is excluded."""
    if bound.inclusive:
        return bound.value
    if bound.value == 0:
        return _TINY * direction
    return Fraction(repr(math.nextafter(float(bound.value), direction * math.inf)))


def _magnitudes(low: Fraction, high: Fraction | None) -> Expression:
    """The numbers between two that are not negative."""
    plain = _DECIMAL
    if low > 0:
        plain &= _plain_from(low)
    if high is not None:
        plain &= _plain_to(high)
    return plain | _scientific(Fraction(10) ** _LOWEST if low == _TINY else low, high)


def _digits_of(value: Fraction) -> tuple[str, str]:
    """The digits before and after the decimal point."""
    whole, rest = divmod(value, 1)
    decimals = ""
    while rest and len(decimals) < _MAX_DIGITS:
        digit, rest = divmod(rest * 10, 1)
        decimals += str(digit)
    return str(whole), decimals


def _plain_from(low: Fraction) -> Expression:
    whole, decimals = _digits_of(low)
    more = _naturals(int(whole) + 1, None) + option(_FRACTION)
    if not decimals:
        return more | literal(whole) + option(_FRACTION)
    return more | literal(f"{whole}.") + _at_least(decimals)


def _plain_to(high: Fraction) -> Expression:
    whole, decimals = _digits_of(high)
    exact = literal(whole) + option(literal(".") + _at_most(decimals))
    if int(whole) == 0:
        return exact
    return exact | _naturals(0, int(whole) - 1) + option(_FRACTION)


def _at_least(decimals: str) -> Expression:
    """Decimals that are not less than the given ones, which do not end in zero."""
    if not decimals:
        return star(_DIGIT)
    more = _digit(int(decimals[0]) + 1, 9) + star(_DIGIT)
    return more | literal(decimals[0]) + _at_least(decimals[1:])


def _at_most(decimals: str) -> Expression:
    """One or more decimals that are not more than the given ones."""
    if not decimals:
        return repeat(literal("0"), 1)
    less = _digit(0, int(decimals[0]) - 1) + star(_DIGIT)
    return less | literal(decimals[0]) + option(_at_most(decimals[1:]))


def _scientific(low: Fraction, high: Fraction | None) -> Expression:
    """Normalised: one digit that is not zero, decimals, an exponent."""
    if high == 0:
        return NOTHING
    parts = [_ANY_MANTISSA + _exponents(_LOWEST, _HIGHEST)]
    if low > 0:
        first, decimals, exponent = _normal(low)
        tail = literal(".") + (_at_least(decimals) & _DIGITS)
        # Without decimals the number is the digit itself, which is seldom at least the bound.
        exact = literal(str(first)) + (tail if decimals else option(tail))
        above = _digit(first + 1, 9) + option(_FRACTION) | exact
        more = _ANY_MANTISSA + _exponents(exponent + 1, _HIGHEST)
        parts.append(above + _exponents(exponent, exponent) | more)
    if high is not None:
        first, decimals, exponent = _normal(high)
        exact = literal(str(first)) + option(literal(".") + _at_most(decimals))
        below = _digit(1, first - 1) + option(_FRACTION) | exact
        less = _ANY_MANTISSA + _exponents(_LOWEST, exponent - 1)
        parts.append(below + _exponents(exponent, exponent) | less)
    return intersection(*(parts[1:] or parts))


def _normal(value: Fraction) -> tuple[int, str, int]:
    """The first digit, the decimals after it, and the exponent."""
    whole, decimals = _digits_of(value)
    digits = (whole + decimals).lstrip("0")
    exponent = len(whole) - 1 if whole != "0" else len(digits) - len(decimals) - 1
    return int(digits[0]), digits[1:].rstrip("0"), exponent


_ANY_MANTISSA = _digit(1, 9) + option(_FRACTION)


def _exponents(low: int, high: int) -> Expression:
    low, high = max(low, _LOWEST), min(high, _HIGHEST)
    if low > high:
        return NOTHING
    zero, signed = option(literal("0")), NOTHING
    if high >= 0:
        signed |= option(literal("+")) + zero + _naturals(max(low, 0), high)
    if low <= 0:
        signed |= literal("-") + zero + _naturals(max(-high, 0), -low)
    return _E + signed


# Not whole after it was read as a float: few digits, and one of them not zero.
_FEW = _WHOLE & repeat(_DIGIT, 1, 9)
_BROKEN = _SIGN + _FEW + literal(".") + repeat(literal("0"), 0, 5) + _digit(1, 9) + star(_DIGIT)


# -- multiples ----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def multiples(step: Fraction, positive: bool) -> Expression:
    """Plain numbers that are, or are not, multiples: an automaton of remainders.

    With ``step = modulus / 10 ** scale``, a number with d <= scale decimals, read as a whole number
    n, is a multiple if n * 10 ** (scale - d) is one of the modulus. Later decimals must be zero.
    """
    scale = 0
    while (step * 10**scale).denominator != 1 and scale <= 20:
        scale += 1
    modulus = int(step * 10**scale)
    if scale > 20 or modulus * (scale + 2) > _MAX_MODULUS:
        raise UnsupportedConstraintError(
            f"multiples of {float(step)} need more than {_MAX_MODULUS:,} remainders"
        )
    numbers: dict[_State, int] = {_START: 0}
    waiting, edges = [_START], []
    while waiting:
        state = waiting.pop()
        for digits, target in _steps(state, modulus, scale):
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            edges.append((numbers[state], numbers[target], digits))
    accepting = [
        number
        for (part, decimals, remainder), number in numbers.items()
        if part in ("zero", "whole", "decimal", "broken")
        and (part != "broken" and remainder * 10 ** (scale - decimals) % modulus == 0) == positive
    ]
    automaton = FiniteAutomaton.from_edges(
        num_states=len(numbers), vocab_size=256, initial=0, accepting=accepting, edges=edges
    )
    # With more than 15 digits, a decimal may become another number when it is read as a float.
    decimals = max(5, scale)
    head = repeat(_DIGIT, 1, max(1, 15 - decimals))
    few = head + literal(".") + repeat(_DIGIT, 1, decimals)
    return Embedded(automaton) & (_SIGN + _DIGITS | _SIGN + few)


# Which part of a number was read last, how many decimals, and the remainder of the digits.
_State = tuple[str, int, int]
_START: _State = ("start", 0, 0)


def _steps(state: _State, modulus: int, scale: int) -> Iterator[tuple[bytes, _State]]:
    part, decimals, remainder = state
    if part == "start":
        yield b"-", ("sign", 0, 0)
    if part in ("start", "sign"):
        yield b"0", ("zero", 0, 0)
    if part in ("zero", "whole"):
        yield b".", ("point", 0, remainder)
    for d in range(1 if part in ("start", "sign") else 0, 0 if part == "zero" else 10):
        digit, following = bytes([0x30 + d]), (10 * remainder + d) % modulus
        if part in ("start", "sign", "whole"):
            yield digit, ("whole", 0, following)
        elif part == "broken" or (decimals == scale and d):
            yield digit, ("broken", 0, 0)
        elif decimals == scale:
            yield digit, ("decimal", decimals, remainder)
        else:
            yield digit, ("decimal", decimals + 1, following)
