"""How far a schema is written out: as far as the automaton may be large, and no bound in silence.

What has no end (values of which nothing is known, schemas that contain themselves) is written out
to a depth. What is counted (characters, items, properties) is counted as far as the schema says, if
that is possible within the limit of states. Otherwise the largest bounds are lowered first, then
depths, and every one that is lowered is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from pcgcd.automata.expressions import Expression
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.basics.memory import give_back
from pcgcd.basics.numbers import check_whole_number
from pcgcd.constraints.json_schema.building import Builder, Style
from pcgcd.constraints.json_schema.document import Document
from pcgcd.constraints.json_schema.notices import warn
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.errors import AutomatonTooLargeError, LoweredBoundWarning

# An automaton of this size is moderate: values without end are nested deeper only below it.
_MODERATE = 100_000
# How many states there may be if free values are nested so many levels deeper.
_DEEPER = {4: 8_000, 3: 8_000, 2: 20_000, 1: 20_000}
# The states that a counted character needs, with and without escapes by number, and those that all
# of them together may have with escapes.
_PLAIN, _ESCAPED, _MOST_ESCAPED = 9, 21, 60_000
_SOME_LENGTH = 16
# How many places of one kind are listed one by one.
_MOST_PLACES = 10
# How far is counted where nobody asks for more.
_LONGEST, _MOST_ITEMS = 4096, 100_000


class Limits(NamedTuple):
    """What was asked for; None: as much as the limit of states allows."""

    max_depth: int | None = None
    free_depth: int | None = None
    max_length: int | None = None
    state_limit: int | None = None


class _Rung(NamedTuple):
    """What is tried if what was tried before needs too many states."""

    max_depth: int
    free_depth: int
    part: float = 1.0  # of the longest strings
    max_items: int = _MOST_ITEMS


class _Reach(NamedTuple):
    """How far a schema is written out: fields of :class:`Style`."""

    max_depth: int
    free_depth: int
    max_length: int
    max_items: int
    escapes: bool
    max_states: int


_LADDER = (
    _Rung(6, 2),
    _Rung(6, 1),
    _Rung(6, 1, 0.8),
    _Rung(6, 1, 1 / 2, 64),
    _Rung(6, 1, 1 / 4, 24),
    _Rung(4, 1, 1 / 4, 12),
    _Rung(3, 0, 1 / 8, 8),
    _Rung(2, 0, 1 / 16, 4),
    _Rung(2, 0, 1 / 64, 4),
)


def largest(
    reader: Reader,
    style: Style,
    limits: Limits,
    build: Callable[[Builder], Expression],
    *,
    deepen: bool = False,
) -> Expression:
    """What is built within the widest limits; what they lower is added to ``reader.dropped``.

    With ``deepen``, free values are nested deeper still where that leaves few states.
    """
    for name, value in zip(limits._fields, limits, strict=True):
        if value is not None:
            most = None if name == "state_limit" else 100_000
            check_whole_number(name, value, int(name == "state_limit"), most)
    reaches = _reaches(reader.document, limits)
    narrowest = reaches[-1]

    tried: list[Builder] = []

    def attempt(candidate: Style) -> tuple[Expression, Builder]:
        builder = Builder(reader, candidate)
        if tried:
            builder.takes_over(tried[-1])
        tried[:] = [builder]
        return build(builder), builder

    # What is too large even within the narrowest limits is refused before all others are tried.
    for candidate in dict.fromkeys((*reaches[:2], narrowest, *reaches[2:])):
        try:
            built, builder = attempt(replace(style, **candidate._asdict()))
        except AutomatonTooLargeError:
            give_back()
            if candidate == narrowest:
                raise
            continue
        if candidate != narrowest:
            break
    # Bounds that can be kept if there may be more states are kept.
    if builder.lowered_bounds and candidate == reaches[0] and len(reaches) > 1:
        with suppress(AutomatonTooLargeError):
            kept, keeper = attempt(replace(style, **reaches[1]._asdict()))
            if not keeper.lowered_bounds:
                built, builder = kept, keeper
    # Each level of free values at most doubles the automaton.
    levels = next((more for more, most in _DEEPER.items() if built.size << more <= most), 0)
    if levels and deepen and limits.free_depth is None and builder.has_free_values:
        with suppress(AutomatonTooLargeError):
            free_depth = builder.style.free_depth + levels
            deepened = builder.deepened(built, free_depth)
            if deepened is None:
                deepened, builder = attempt(replace(builder.style, free_depth=free_depth))
            built = deepened
    _report(reader, builder, limits)
    if built.size > _MODERATE // 2:
        give_back()
    return built


def _reaches(document: Document, limits: Limits) -> list[_Reach]:
    """How far to go, the widest first; what would change nothing is left out."""
    lengths = document.lengths
    longest_asked, most_asked = max(lengths, default=0), max(document.counts, default=0)
    state_limit = limits.state_limit or STATE_LIMIT
    # Bounds that cannot be kept anyway are lowered until the automaton is moderate.
    moderate = limits.state_limit or min(state_limit, _MODERATE)
    longest = limits.max_length
    if longest is None:
        is_possible = _PLAIN * sum(min(length, _LONGEST) for length in lengths) <= state_limit
        longest = _LONGEST if is_possible else _water_level(lengths, moderate // _PLAIN)
    counted = sum(min(length, longest) for length in lengths)
    result: dict[_Reach, _Reach] = {}  # by what of it matters
    for number, rung in enumerate(_LADDER):
        max_length = longest
        if limits.max_length is None:
            max_length = max(_SOME_LENGTH, int(longest * rung.part))
        candidate = _Reach(
            max_depth=rung.max_depth if limits.max_depth is None else limits.max_depth,
            free_depth=rung.free_depth if limits.free_depth is None else limits.free_depth,
            max_length=max_length,
            max_items=rung.max_items,
            escapes=number == 0 and _ESCAPED * counted <= min(_MOST_ESCAPED, state_limit),
            max_states=state_limit if rung in (_LADDER[1], _LADDER[-1]) else moderate,
        )
        matters = candidate._replace(
            max_length=min(max_length, longest_asked),
            max_items=min(rung.max_items, most_asked),
            max_states=0,
        )
        if matters not in result or result[matters].max_states < candidate.max_states:
            result[matters] = candidate
    return list(result.values())


def _water_level(lengths: list[int], most: int) -> int:
    """The largest length with which all lengths, lowered to it, are at most ``most`` together.

    >>> _water_level([10, 50, 500], 200), _water_level([10], 200) > 10
    (140, True)
    """
    left, level = most, _LONGEST
    for number, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - number)
        if length > share:
            return min(level, share)
        left -= length
    return level


def _report(reader: Reader, builder: Builder, limits: Limits) -> None:
    """Add what was lowered to ``dropped``, and warn unless it was asked for."""
    style, usual = builder.style, _LADDER[0]
    if builder.has_recursion and limits.max_depth is None and style.max_depth < usual.max_depth:
        builder.lower_depth("max_depth", usual.max_depth, style.max_depth)
    if (
        builder.has_free_values
        and limits.free_depth is None
        and style.free_depth < usual.free_depth
    ):
        builder.lower_depth("free_depth", usual.free_depth, style.free_depth)
    everywhere = reader.document.everywhere
    lowered = builder.lowered_bounds
    noted = [line for line in builder.lowered if line not in lowered]
    others = (*_few(everywhere(_depths(builder))), *_few(everywhere(_closed(reader))))
    reader.dropped = everywhere((*reader.dropped, *lowered, *noted)) | dict.fromkeys(others)
    lowered = list(everywhere(lowered))
    if limits.max_length is not None:
        lowered = [line for line in lowered if not line.startswith("maxLength")]
    if not lowered:
        return
    limit = limits.state_limit or STATE_LIMIT
    shown = "; ".join(lowered[:3]) + (f"; and {len(lowered) - 3} more" if lowered[3:] else "")
    warn(
        f"bounds of the schema were lowered to keep its automaton small, so some texts that it "
        f"allows are refused: {shown}; raise max_length= or state_limit= (now {limit:,}), or lower "
        f"the bounds in the schema (the constraint's 'dropped' has all of them)",
        LoweredBoundWarning,
    )


def _depths(builder: Builder) -> Iterator[str]:
    """List how deep values are nested that have no end."""
    for place in builder.reader.cut_at:
        yield f"nested to {builder.style.max_depth + 1} levels at {place}"
    for place, more in builder.reader.free_at:
        what = "free values" if more else "other properties"
        yield f"{what} nested to {builder.style.free_depth + more} levels at {place}"


def _closed(reader: Reader) -> Iterator[str]:
    """The places whose objects have no other properties."""
    return (f"closed object at {place}" for place in reader.closed_at)


def _few(lines: Iterable[str]) -> Iterator[str]:
    """Lines about places; many that say the same of their places as one."""
    places: dict[str, list[str]] = {}
    for line in lines:
        what, _, place = line.partition(" at #")
        places.setdefault(what, []).append("#" + place)
    for what, at in places.items():
        if len(at) > _MOST_PLACES:
            yield f"{what} at {at[0]} and {len(at) - 1} other places"
        else:
            yield from (f"{what} at {place}" for place in at)
