"""From the alternatives of a schema to one expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from pcgcd.automata.expressions import (
    NOTHING,
    Block,
    Concatenation,
    Expression,
    Literal,
    Union,
    literal,
    union,
)
from pcgcd.automata.expressions.compilation import compile_block, compile_expression
from pcgcd.automata.expressions.substitution import Substitution
from pcgcd.automata.limits import STATE_LIMIT
from pcgcd.constraints.json_schema.arrays import array_expression
from pcgcd.constraints.json_schema.characters import JSON, Notation
from pcgcd.constraints.json_schema.document import Place
from pcgcd.constraints.json_schema.formulas import (
    FALSE,
    TRUE,
    Both,
    Either,
    Formula,
    Holds,
)
from pcgcd.constraints.json_schema.free_values import Writing, free_brackets, free_value
from pcgcd.constraints.json_schema.layout import Layout
from pcgcd.constraints.json_schema.numbers import number_expression
from pcgcd.constraints.json_schema.objects import object_expression, object_parts
from pcgcd.constraints.json_schema.reading import Reader
from pcgcd.constraints.json_schema.specs import (
    ArraySpec,
    ConstantSpec,
    NumberSpec,
    Spec,
    StringSpec,
)
from pcgcd.constraints.json_schema.strings import SHORT, string_expression
from pcgcd.errors import AutomatonTooLargeError, UnsupportedConstraintError

_SMALL = 200
# How much larger than an automaton the expression may be that it is made of.
_EASY = 4
_BRACKETS = b"[{"
# How many states are left to the rest of the schema where items are counted as far as possible.
_BESIDE_ITEMS = 1_000
_MAX_LEVELS = 60
_MAX_FORMULAS = 20_000


class _Tie(Enum):
    """What of the style an expression depends on, besides how deep values are nested."""

    WRITTEN_OUT = auto()  # free values may be inside of automata that were built by themselves
    LOWERED = auto()  # bounds were lowered
    ESCAPES = auto()  # there are strings in which the style decides what may be escaped


@dataclass(frozen=True)
class Style:
    """How values are written, and how far what has no end is written out."""

    layout: Layout
    order: str = "schema"
    max_depth: int = 6  # levels of values that a schema that contains itself may have
    free_depth: int = 2  # levels of values of which nothing is known
    max_length: int = 256  # how far characters are counted
    max_items: int = 100_000  # how far items and properties are counted
    escapes: bool = True  # whether they may be escaped by number where many are counted
    max_states: int = 100_000
    whole_floats: bool = True  # whether 1.0 is a whole number
    notations: tuple[Notation, ...] = (JSON,)
    constants: tuple[str, str, str] = ("null", "true", "false")  # what these are called


class Builder:
    """Builds the expression of a schema."""

    def __init__(self, reader: Reader, style: Style) -> None:
        self.reader = reader
        self.style = style
        self._built: dict[tuple[Formula, int], Expression] = {}
        self._joined: dict[Expression, Expression] = {}
        self._free: list[Expression] = []  # by depth
        self._writing = Writing(style.layout, style.notations, style.constants)
        # What the values that are being built, and those that were built, depend on of the style.
        self._ties: set[_Tie] = set()
        self._tied: dict[tuple[Formula, int], set[_Tie]] = {}
        self._level = 0
        self.lowered: dict[str, None] = {}  # bounds of the schema that are not its own any more
        self._place = reader.document.root.pointer

    @property
    def has_free_values(self) -> bool:
        """Whether what was built has values of which nothing is known."""
        return bool(self._free)

    @property
    def has_recursion(self) -> bool:
        """Whether what was built has values that contain values of the same kind."""
        return any(depth >= 0 for _, depth in self._built)

    def value(self, formula: Formula, depth: int) -> Expression:
        """The texts of all values for which a formula holds, ``depth`` levels if it recurs."""
        if formula == FALSE or depth < 0:
            return NOTHING
        if formula == TRUE:
            return self.anything(self.style.free_depth + 1)
        recursive = self._is_recursive(formula)
        if recursive and depth == self.style.max_depth:
            self.reader.cut_at[self._pointer(formula)] = None
        key = (formula, depth if recursive else -1)
        known = self._built.get(key)
        if known is None:
            if self._level >= _MAX_LEVELS:
                raise UnsupportedConstraintError(
                    f"the values of the schema are nested more than {_MAX_LEVELS} deep; make it "
                    f"flatter, or lower max_depth"
                )
            self._level += 1
            outside, self._ties = self._ties, set()
            known = self._value(formula, depth - 1 if recursive else self.style.max_depth)
            self._level -= 1
            self._built[key], self._tied[key] = known, self._ties
            self._ties = outside
        self._ties |= self._tied[key]
        return known

    def part(self, formula: Formula, depth: int) -> Expression:
        """The same as :meth:`value`, for what is written inside of brackets."""
        return self.joined(self.value(formula, depth))

    def joined(self, value: Expression) -> Expression:
        """The options of a value that begin alike, such as all objects, as one letter.

        Where a value is placed several times, they are told apart only once. A value that is not
        inside of others stays as it is, so that its free values can be nested deeper.
        """
        if not isinstance(value, Union):
            return value
        known = self._joined.get(value)
        if known is None:
            options = value.options
            for byte in _BRACKETS:
                alike = [each for each in options if _first_byte(each) == byte]
                if len(alike) > 1:
                    others = (each for each in options if _first_byte(each) != byte)
                    options = (*others, self.settled(union(*alike)))
            known = self._joined[value] = union(*options)
        return known

    def string(self, spec: StringSpec) -> Expression:
        """The strings of a specification."""
        most = max(self.style.max_length, spec.least)
        if spec.most is not None and spec.most > most and spec.values is None:
            self.lower("maxLength", spec.most, most)
        if spec.values is None and max(spec.least, spec.most or 0) > SHORT:
            self._ties.add(_Tie.ESCAPES)
            if not self.style.escapes:
                self.note(f"escapes by number at {self._place}")
        return string_expression(
            spec, self.style.max_length, self.style.escapes, self.style.notations
        )

    def anything(self, depth: int) -> Expression:
        """Any JSON value, nested up to a depth."""
        self.reader.free_at[self._place, depth - self.style.free_depth] = None
        for level in range(len(self._free), depth + 1):
            known = free_value(self._writing, level)
            self._check_states(known.size)
            self._free.append(known)
        return self._free[depth]

    def deepened(self, value: Expression, free_depth: int) -> Expression | None:
        """What was built, with free values nested deeper; None if it has to be built again."""
        if _Tie.WRITTEN_OUT in self._ties:
            return None
        levels = free_depth - self.style.free_depth
        self.style = replace(self.style, free_depth=free_depth)
        return self._nested(levels, len(self._free)).of(value)

    def takes_over(self, other: Builder) -> None:
        """Start from what another builder has built, with free values nested to this one's depth.

        For a builder that goes as far in everything else, but for escapes, and further in states.
        """
        levels = self.style.free_depth - other.style.free_depth
        alike = replace(
            self.style,
            free_depth=other.style.free_depth,
            escapes=other.style.escapes,
            max_states=other.style.max_states,
        )
        if alike != other.style or self.style.max_states < other.style.max_states:
            return
        ties = {_Tie.WRITTEN_OUT, _Tie.LOWERED}
        if self.style.escapes != other.style.escapes:
            ties.add(_Tie.ESCAPES)
        nested = self._nested(levels, len(other._free))
        for key, value in other._built.items():
            if not ties & other._tied[key] and (new := nested.of(value)) is not None:
                self._built[key], self._tied[key] = new, other._tied[key]
        for value, joined in other._joined.items():
            new, new_joined = nested.of(value), nested.of(joined)
            if new is not None and new_joined is not None:
                self._joined[new] = new_joined
        self._free = [free_value(self._writing, d) for d in range(len(other._free) + levels)]

    def item_limit(self, item: Expression, wanted: int = 1) -> int:
        """How many items can be counted at all; exact where it matters if so many are wanted."""
        size, most = item.size, self.style.max_states
        if size * wanted > most and size < _SMALL:
            exact = compile_expression(self.style.layout.comma + item).num_states - 1
            if exact < size:
                size, most = exact, most - _BESIDE_ITEMS
        return max(1, most // size)

    def at_most(
        self, keyword: str, most: int, item: Expression, *, least: int = 0, beside: int = 0
    ) -> int:
        """How far items are counted: to the bound of a keyword, or less if that is too much.

        At least ``least`` must be possible, and ``beside`` others cost nothing.
        """
        limit = self.item_limit(item, most - beside)
        used = beside + min(limit, max(self.style.max_items, least))
        if used < most:
            self.lower(keyword, most, used)
        return min(used, most)

    @property
    def lowered_bounds(self) -> list[str]:
        """The bounds that were lowered."""
        return [line for line in self.lowered if " lowered from " in line]

    def lower(self, keyword: str, bound: int, used: int) -> None:
        """Note that a bound at the current place is lowered."""
        place = f"{self._place}/{keyword}"
        self.note(f"{keyword} at {place} lowered from {bound:,} to {used:,}")

    def note(self, line: str) -> None:
        """Note what is lowered."""
        self.lowered[line] = None
        self._ties.add(_Tie.LOWERED)

    def note_written_out(self) -> None:
        """Note that free values may be inside of automata that are built by themselves."""
        self._ties.add(_Tie.WRITTEN_OUT)

    def lower_depth(self, name: str, usual: int, used: int) -> None:
        """Note if values are nested less deep than usual."""
        if used < usual:
            self.lowered[f"{name} lowered from {usual} to {used}"] = None

    def settled(self, expression: Expression) -> Expression:
        """A large expression as one letter of those that it is part of."""
        if expression.size < _SMALL:
            return expression
        self._check_states(expression.size // _EASY)
        block = compile_block(expression, state_limit=max(STATE_LIMIT, self.style.max_states))
        self._check_states(block.size)
        return block

    def _check_states(self, needed: int) -> None:
        if needed <= self.style.max_states:
            return
        raise AutomatonTooLargeError(
            f"a part of the schema needs about {needed:,} states, over the limit of "
            f"{self.style.max_states:,}; raise state_limit, or lower max_depth, free_depth or "
            f"max_length"
        )

    def too_large(self, what: str) -> AutomatonTooLargeError:
        """The error of something that would be copied too often."""
        return AutomatonTooLargeError(
            f"{what} needs more than {self.style.max_states:,} states; ask for fewer, or raise "
            f"state_limit"
        )

    # -- inside -------------------------------------------------------------------------------

    def _nested(self, levels: int, num_free: int) -> Substitution:
        """Free values nested so many levels deeper (or, where negative, less deep) than before."""
        other: dict[Expression, Expression] = {}
        gone: list[Expression] = []
        for depth in range(1, num_free):
            old = free_brackets(self._writing, depth)
            if depth + levels < 1:
                gone += old
            else:
                new = free_brackets(self._writing, depth + levels)
                other.update(zip(old, new, strict=True))
        return Substitution(other, gone)

    def _value(self, formula: Formula, depth: int) -> Expression:
        options = []
        outside, self._place = self._place, self._pointer(formula)
        for kind in self.reader.kinds(formula):
            for spec in self.reader.values(formula, kind):
                try:
                    options.append(self.settled(self._of(spec, formula, depth)))
                except UnsupportedConstraintError as error:
                    options.append(self._without(spec, formula, depth, error))
        self._place = outside
        return union(*(o for o in options if o != NOTHING)) if options else NOTHING

    def _pointer(self, formula: Formula) -> str:
        """The place that a formula is about, or where it stands."""
        place = next(iter(_places(formula)), None)
        return self._place if place is None else place.pointer

    def _of(self, spec: Spec, formula: Formula, depth: int) -> Expression:
        if isinstance(spec, ConstantSpec):
            names = dict(zip((None, True, False), self.style.constants, strict=True))
            return union(*(literal(names[value]) for value in spec.values))
        if isinstance(spec, NumberSpec):
            return number_expression(spec, whole_floats=self.style.whole_floats)
        if isinstance(spec, StringSpec):
            return self.string(spec)
        if isinstance(spec, ArraySpec):
            return array_expression(self, spec, depth)
        return object_expression(self, spec, self.order_of(formula), depth)

    def _without(
        self, spec: Any, formula: Formula, depth: int, error: UnsupportedConstraintError
    ) -> Expression:
        """Go on without a specification that cannot be built, or name its place."""
        place = next(iter(_places(formula)), self.reader.document.root).pointer
        if self.reader.strict:
            if "#" in str(error):
                raise error
            raise UnsupportedConstraintError(f"the schema at {place} cannot be honoured: {error}")
        self.reader.dropped[f"everything but the type at {place}"] = None
        self.reader.is_relaxed = True
        return self._of(type(spec)(), formula, depth)

    def order_of(self, formula: Formula) -> tuple[str, ...]:
        """The order of the names that are mentioned for one value, whatever sub-schemas hold."""
        if formula not in self.reader.orders:
            names: dict[str, None] = {}
            late: dict[str, None] = {}
            self._collect(formula, names, late, set())
            self.reader.orders[formula] = tuple({**names, **late})
        return self.reader.orders[formula]

    def _collect(
        self, formula: Formula, names: dict[str, None], late: dict[str, None], seen: set[Place]
    ) -> None:
        """Names of properties, those of a schema before those of its sub-schemas."""
        for place in _places(formula):
            schema = place.schema
            if place in seen or not isinstance(schema, dict):
                continue
            seen.add(place)
            if isinstance(schema.get("properties"), dict):
                names.update(dict.fromkeys(schema["properties"]))
            for inner in self.reader.beside(place):
                self._collect(inner, names, late, seen)
            for keyword in ("required", "dependentRequired", "dependencies", "dependentSchemas"):
                value = schema.get(keyword)
                if isinstance(value, dict | list):
                    late.update((name, None) for name in value if isinstance(name, str))

    def _is_recursive(self, start: Formula) -> bool:
        """Whether a value may contain a value for which the same must hold, at any depth."""
        # Depth first: what is met again while it is open contains itself, and so do all above it.
        path = {} if start in self.reader.recursive else {start: iter(self._inside(start))}
        while path:
            formula, rest = next(reversed(path.items()))
            for child in rest:
                if child in path or self.reader.recursive.get(child):
                    self.reader.recursive.update(dict.fromkeys(path, True))
                elif child not in self.reader.recursive:
                    path[child] = iter(self._inside(child))
                    break
            else:
                self.reader.recursive.setdefault(formula, False)
                del path[formula]
        return self.reader.recursive[start]

    def _inside(self, formula: Formula) -> tuple[Formula, ...]:
        """The formulas on items and properties."""
        known = self.reader.inside.get(formula)
        if known is None:
            found: dict[Formula, None] = {}
            for spec in self.reader.options(formula, "array"):
                items = (*spec.prefix, spec.rest, *(c.formula for c in spec.contains))
                found.update(dict.fromkeys(items))
            for spec in self.reader.values(formula, "object"):
                try:
                    ways = object_parts(self.reader, spec)
                except UnsupportedConstraintError:
                    continue
                for parts in ways:
                    found.update((inner, None) for _, inner, _ in parts.named)
                    found.update((group.formula, None) for group in parts.groups)
            known = tuple(f for f in found if f not in (TRUE, FALSE))
            self.reader.inside[formula] = known
            if len(self.reader.inside) > _MAX_FORMULAS:
                raise UnsupportedConstraintError(
                    f"the schema has more than {_MAX_FORMULAS:,} combinations of sub-schemas; "
                    f"make it smaller"
                )
        return known


def _first_byte(expression: Expression) -> int:
    """The byte that all texts begin with, if that is plain to see; otherwise -1."""
    if isinstance(expression, Concatenation):
        expression = expression.parts[0]
    if isinstance(expression, Literal):
        return expression.text[0] if expression.text else -1
    if isinstance(expression, Block) and expression.first.bit_count() == 1:
        return expression.first.bit_length() - 1
    return -1


def _places(formula: Formula) -> list[Place]:
    if isinstance(formula, Holds):
        return [formula.place]
    if isinstance(formula, Both | Either):
        return [place for part in formula.parts for place in _places(part)]
    return []
