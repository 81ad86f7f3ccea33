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
    concatenation,
    intersection,
    literal,
    option,
    repeat,
    star,
    union,
)
from pcgcd.constraints.json_schema.specs import Bound, NumberSpec
from pcgcd.errors import UnsupportedConstraintError

__all__ = ["ANY_NUMBER", "integers", "multiples", "number_expression"]

_DIGIT = byte_range(0x30, 0x39)
_WHOLE = union(literal("0"), concatenation(byte_range(0x31, 0x39), star(_DIGIT)))
_SIGN = option(literal("-"))
_FRACTION = concatenation(literal("."), repeat(_DIGIT, 1))
_EXPONENT = concatenation(
    union(literal("e"), literal("E")),
    option(union(literal("+"), literal("-"))),
    repeat(_DIGIT, 1),
)
_DECIMAL = concatenation(_WHOLE, option(_FRACTION))
ANY_NUMBER = concatenation(_SIGN, _DECIMAL, option(_EXPONENT))

_MAX_MODULUS = 20_000
_MAX_DIGITS = 330
# Doubles are between these powers of ten.
_LOWEST, _HIGHEST = -300, 307
# The least positive number that is written without an exponent where a bound excludes zero.
_TINY = Fraction(1, 10**20)


def number_expression(spec: NumberSpec, whole_floats: bool = True) -> Expression:
    """All numbers of a specification.

    Args:
        spec: The specification.
        whole_floats: Whether 1.0 is a whole number; in draft 4 it is not.
    """
    floats = whole_floats or not spec.integer
    if spec.values is not None:
        return union(*(_spelled(value, floats) for value in spec.values))
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


def _spelled(value: float, floats: bool) -> Expression:
    texts = {json.dumps(value)}
    if value == int(value) and abs(value) <= 2**53:
        texts |= {str(int(value)), f"{int(value)}.0"}
    if not floats:
        texts = {text for text in texts if "." not in text and "e" not in text}
    return union(*map(literal, sorted(texts)))


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
    # A large float may be another number than was written, which matters for multiples only.
    if not floats or (len(parts) > 1 and not _exact(low, high)):
        return plain
    return concatenation(plain, option(literal(".0")))


def _exact(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and low >= -(2**53) and high <= 2**53


def integers(low: int | None, high: int | None) -> Expression:
    """The whole numbers between two bounds, without a leading zero.

    >>> integers(1, 3) == byte_range(0x31, 0x33)
    True
    """
    if low is not None and high is not None and low > high:
        return NOTHING
    positive = _naturals(max(low or 0, 0), high) if high is None or high >= 0 else NOTHING
    if low is not None and low >= 0:
        return positive
    top = None if low is None else -low
    negative = _naturals(max(1, -high if high is not None else 1), top)
    return union(positive, concatenation(literal("-"), negative))


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
        least = str(low) if size == first else "1" + "0" * (size - 1)
        most = str(high) if high is not None and size == last else "9" * size
        options.append(_same_length(least, most))
    if high is None:
        options.append(concatenation(byte_range(0x31, 0x39), repeat(_DIGIT, first)))
    return union(*options)


def _digit(first: str, last: str) -> Expression:
    return byte_range(ord(first), ord(last)) if first <= last else NOTHING


def _next(digit: str, step: int) -> str:
    return chr(ord(digit) + step)


def _same_length(low: str, high: str) -> Expression:
    """Digit strings of one length between two."""
    if low == "0" * len(low) and high == "9" * len(high):
        return repeat(_DIGIT, len(low), len(low))
    if low[0] == high[0]:
        return concatenation(literal(low[0]), _same_length(low[1:], high[1:]))
    size = len(low) - 1
    zeros, nines = "0" * size, "9" * size
    first, last = low[0], high[0]
    options = []
    if low[1:] != zeros:
        options.append(concatenation(literal(first), _same_length(low[1:], nines)))
        first = _next(first, 1)
    if high[1:] != nines:
        options.append(concatenation(literal(last), _same_length(zeros, high[1:])))
        last = _next(last, -1)
    return union(*options, concatenation(_digit(first, last), repeat(_DIGIT, size, size)))


# -- numbers with decimals ----------------------------------------------------------------------


def _between(lower: Bound | None, upper: Bound | None) -> Expression:
    low = _inclusive(lower, +1) if lower else None
    high = _inclusive(upper, -1) if upper else None
    options = []
    if high is None or high >= 0:
        options.append(_magnitudes(max(low or Fraction(0), Fraction(0)), high))
    if low is None or low <= 0:
        least = max(-high if high is not None else Fraction(0), Fraction(0))
        negative = _magnitudes(least, None if low is None else -low)
        options.append(concatenation(literal("-"), negative))
    return union(*options)


def _inclusive(bound: Bound, direction: int) -> Fraction:
    """The bound itself, or the next float if it is excluded."""
    if bound.inclusive:
        return bound.value
    if bound.value == 0:
        return _TINY * direction
    return Fraction(repr(math.nextafter(float(bound.value), direction * math.inf)))


def _magnitudes(low: Fraction, high: Fraction | None) -> Expression:
    """The numbers between two that are not negative."""
    parts = [_plain_from(low)] if low > 0 else []
    if high is not None:
        parts.append(_plain_to(high))
    plain = intersection(_DECIMAL, *parts)
    return union(plain, _scientific(Fraction(10) ** _LOWEST if low == _TINY else low, high))


def _digits_of(value: Fraction) -> tuple[str, str]:
    """The digits before and after the decimal point."""
    whole, rest = divmod(value, 1)
    decimals = ""
    while rest and len(decimals) < _MAX_DIGITS:
        rest *= 10
        digit, rest = divmod(rest, 1)
        decimals += str(digit)
    return str(whole), decimals


def _plain_from(low: Fraction) -> Expression:
    whole, decimals = _digits_of(low)
    more = concatenation(_naturals(int(whole) + 1, None), option(_FRACTION))
    if not decimals:
        return union(more, concatenation(literal(whole), option(_FRACTION)))
    return union(more, concatenation(literal(f"{whole}."), _at_least(decimals)))


def _plain_to(high: Fraction) -> Expression:
    whole, decimals = _digits_of(high)
    zeros = repeat(literal("0"), 1)
    end = _at_most(decimals) if decimals else zeros
    options = [concatenation(literal(whole), option(concatenation(literal("."), end)))]
    if int(whole) > 0:
        options.append(concatenation(_naturals(0, int(whole) - 1), option(_FRACTION)))
    return union(*options)


def _at_least(decimals: str) -> Expression:
    """Decimals that are not less than the given ones, which do not end in zero."""
    if not decimals:
        return star(_DIGIT)
    return union(
        concatenation(_digit(_next(decimals[0], 1), "9"), star(_DIGIT)),
        concatenation(literal(decimals[0]), _at_least(decimals[1:])),
    )


def _at_most(decimals: str) -> Expression:
    """One or more decimals that are not more than the given ones."""
    if not decimals:
        return repeat(literal("0"), 1)
    rest = option(_at_most(decimals[1:]))
    return union(
        concatenation(_digit("0", _next(decimals[0], -1)), star(_DIGIT)),
        concatenation(literal(decimals[0]), rest),
    )


def _scientific(low: Fraction, high: Fraction | None) -> Expression:
    """Normalised: one digit that is not zero, decimals, an exponent."""
    parts = []
    if low > 0:
        digits, exponent = _normal(low)
        exact = _mantissa(_at_least(digits[1:]), digits[0], above=True)
        parts.append(_with_exponents(exact, exponent, exponent + 1, _HIGHEST))
    if high is not None:
        if high == 0:
            return NOTHING
        digits, exponent = _normal(high)
        exact = _mantissa(_at_most(digits[1:]), digits[0], above=False)
        parts.append(_with_exponents(exact, exponent, _LOWEST, exponent - 1))
    if not parts:
        return _with_exponents(NOTHING, 0, _LOWEST, _HIGHEST)
    return intersection(*parts)


def _normal(value: Fraction) -> tuple[str, int]:
    whole, decimals = _digits_of(value)
    digits = (whole + decimals).lstrip("0")
    exponent = len(whole) - 1 if whole != "0" else -(len(decimals) - len(digits)) - 1
    return digits.rstrip("0"), exponent


def _mantissa(decimals: Expression, first: str, above: bool) -> Expression:
    """One digit and decimals, compared with a given digit and compared decimals."""
    other = _digit(_next(first, 1), "9") if above else _digit("1", _next(first, -1))
    # Without decimals the number is the digit itself, which is at most, seldom at least, the bound.
    tail: Expression = concatenation(literal("."), intersection(decimals, repeat(_DIGIT, 1)))
    bare = decimals == star(_DIGIT) or not above
    return union(
        concatenation(other, option(_FRACTION)),
        concatenation(literal(first), option(tail) if bare else tail),
    )


def _with_exponents(exact: Expression, exponent: int, low: int, high: int) -> Expression:
    """Mantissas at one exponent, any at the exponents between two."""
    any_mantissa = concatenation(_digit("1", "9"), option(_FRACTION))
    return union(
        concatenation(exact, _exponents(exponent, exponent)),
        concatenation(any_mantissa, _exponents(low, high)),
    )


def _exponents(low: int, high: int) -> Expression:
    low, high = max(low, _LOWEST), min(high, _HIGHEST)
    if low > high:
        return NOTHING
    zero = option(literal("0"))
    options = []
    if high >= 0:
        options.append(concatenation(option(literal("+")), zero, _naturals(max(low, 0), high)))
    if low <= 0:
        options.append(concatenation(literal("-"), zero, _naturals(max(-high, 0), -low)))
    return concatenation(union(literal("e"), literal("E")), union(*options))


# Not whole after it was read as a float: few digits, and one of them not zero.
_BROKEN = concatenation(
    _SIGN,
    intersection(_WHOLE, repeat(_DIGIT, 1, 9)),
    literal("."),
    repeat(literal("0"), 0, 5),
    byte_range(0x31, 0x39),
    star(_DIGIT),
)


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
    few = concatenation(_SIGN, head, literal("."), repeat(_DIGIT, 1, decimals))
    whole = concatenation(_SIGN, repeat(_DIGIT, 1))
    return intersection(Embedded(automaton), union(whole, few))


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
