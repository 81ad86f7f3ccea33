"""Window functions, and the windows that they look through."""

from __future__ import annotations

from pcgcd.constraints.sql.diagram import Part, byte, either, maybe, names, then, word
from pcgcd.constraints.sql.expressions import BARE, aggregate
from pcgcd.constraints.sql.functions import OFFSETS, RANKS
from pcgcd.constraints.sql.lexical import Lexicon

_STARTS = {
    "unbounded preceding": ("# preceding", "current row", "# following", "unbounded following"),
    "# preceding": ("# preceding", "current row", "# following", "unbounded following"),
    "current row": ("current row", "# following", "unbounded following"),
    "# following": ("# following", "unbounded following"),
}
_EXCLUDED = ("no others", "current row", "group", "ties")


def window_call(lexicon: Lexicon, reference: Part) -> Part:
    """A function that needs a window, up to OVER."""
    comma = lexicon.comma
    more = maybe(comma, lexicon.integer, maybe(comma, lexicon.literal))
    none = then(names(RANKS), lexicon.opening, byte(b")"))
    number = then(word("ntile"), lexicon.opening, lexicon.integer, lexicon.closing)
    nth = then(word("nth_value"), lexicon.opening, reference, comma, lexicon.integer)
    offset = then(names(OFFSETS[:2]), lexicon.opening, reference, more, lexicon.closing)
    edge = then(names(OFFSETS[2:]), lexicon.opening, reference, lexicon.closing)
    plain = aggregate(lexicon, BARE, reference, may_be_distinct=False)
    return then(
        either(none, number, then(nth, lexicon.closing), offset, edge, plain),
        lexicon.space,
        word("over"),
    )


def window(lexicon: Lexicon, reference: Part) -> Part:
    """A window in parentheses, with a blank before them or without."""
    terms = lexicon.listed(then(reference, lexicon.direction))
    parted = then(lexicon.words("partition by"), lexicon.space, lexicon.listed(reference))
    ordered = then(lexicon.words("order by"), lexicon.space, terms)
    frame = maybe(lexicon.space, _frame(lexicon))
    inside = either(
        then(),
        then(parted, maybe(lexicon.space, ordered, frame)),
        then(ordered, frame),
    )
    return then(lexicon.gap, lexicon.enclosed(inside))


def _frame(lexicon: Lexicon) -> Part:
    between = either(
        *(
            then(_bound(lexicon, start), lexicon.infix("and"), _bounds(lexicon, ends))
            for start, ends in _STARTS.items()
        )
    )
    short = _bounds(lexicon, tuple(_STARTS)[:3])
    rows = then(
        names(("rows", "groups")),
        lexicon.space,
        either(short, then(word("between"), lexicon.space, between)),
    )
    # A distance in RANGE wants one number to order by.
    ranged = then(
        word("range"),
        lexicon.space,
        either(
            lexicon.words("unbounded preceding"),
            lexicon.words("between unbounded preceding and current row"),
            lexicon.words("between current row and unbounded following"),
        ),
    )
    excluded = then(lexicon.space, word("exclude"), lexicon.space, lexicon.phrase(*_EXCLUDED))
    return then(either(rows, ranged), maybe(excluded))


def _bounds(lexicon: Lexicon, texts: tuple[str, ...]) -> Part:
    return either(*(_bound(lexicon, text) for text in texts))


def _bound(lexicon: Lexicon, text: str) -> Part:
    first, second = text.split()
    head = lexicon.integer if first == "#" else word(first)
    return then(head, lexicon.space, word(second))
