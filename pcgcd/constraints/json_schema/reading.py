"""From a formula to its alternatives for one JSON type: a disjunction of conjunctions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from pcgcd.constraints.json_schema.document import Document, Place
from pcgcd.constraints.json_schema.formulas import (
    FALSE,
    TRUE,
    Among,
    Both,
    Either,
    Formula,
    Holds,
    among,
    both,
    either,
    holds,
    negation,
)
from pcgcd.constraints.json_schema.keywords import (
    OWN_KEYWORDS,
    Options,
    absent,
    names_at,
    own_options,
    required_at,
)
from pcgcd.constraints.json_schema.specs import (
    KINDS,
    TOP,
    ArraySpec,
    Bound,
    ConstantSpec,
    NumberSpec,
    ObjectSpec,
    Rule,
    Seen,
    StringSpec,
    Witness,
    kind_of,
    meet_all,
)
from pcgcd.errors import InvalidParameterError, PcgcdError, UnsupportedConstraintError

_MAX_DEPTH = 60
_MAX_OPTIONS = 1_000
_TYPES = (*KINDS, "integer")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DEPENDENT = ("dependentSchemas", "dependencies")
_UNEVALUATED = {"unevaluatedProperties": "object", "unevaluatedItems": "array"}
# What may name properties beside "anyOf".
_NAMING = ("properties", *_REFERENCES, "allOf", "oneOf", "if", *_DEPENDENT)
_IN_PLACE = (*_REFERENCES, "allOf", "not", "anyOf", "oneOf", "if", *_DEPENDENT)


def relaxed_keywords(relax: Iterable[str]) -> frozenset[str]:
    """The keywords that may be relaxed, checked.

    >>> sorted(relaxed_keywords(["uniqueItems"]))
    ['uniqueItems']
    """
    try:
        names = frozenset([relax] if isinstance(relax, str) else relax)
    except TypeError as error:
        raise InvalidParameterError(
            "relax must be several keywords of JSON Schema, such as {'uniqueItems'}, but "
            f"{relax!r:.60} was given"
        ) from error
    if not names:
        return names
    own = (keyword for keywords in OWN_KEYWORDS.values() for keyword in keywords)
    known = {*own, *_IN_PLACE, *_UNEVALUATED}
    if names - known:
        raise InvalidParameterError(
            f"relax must name keywords of JSON Schema, but {sorted(map(str, names - known))} are "
            f"none that can be relaxed; these can be: {', '.join(sorted(known))}"
        )
    return names


class _CircleError(UnsupportedConstraintError):
    """A schema is needed to read itself."""


class Reader:
    """Reads a document. What cannot be honoured is an error, unless it may be relaxed.

    Attributes:
        strict: Whether no keyword but those of ``relax`` may be left out.
        relax: The keywords that may be.
        dropped: What was left out, keyword and place.
        is_relaxed: Whether a keyword was left out, so that too much is accepted.
        closed_at: The places whose objects have no properties but those named, by pointer.
        cut_at: The places of values that contain such values, which are nested to a depth.
        free_at: The places of values of which nothing is known, and how many levels more than
            unmentioned properties they may have.
    """

    def __init__(
        self, document: Document, strict: bool = True, relax: frozenset[str] = frozenset()
    ) -> None:
        self.document = document
        self.strict = strict
        self.relax = relax
        self.dropped: dict[str, None] = {}  # keyword and place
        self.is_relaxed = False
        self.closed_at: dict[str, None] = {}
        self.cut_at: dict[str, None] = {}
        self.free_at: dict[tuple[str, int], None] = {}
        # What builders find out, which is the same for all of them.
        self.parts: dict[ObjectSpec, list[Any]] = {}
        self.inside: dict[Formula, tuple[Formula, ...]] = {}
        self.recursive: dict[Formula, bool] = {}
        self.orders: dict[Formula, tuple[str, ...]] = {}
        self._known: dict[tuple[Formula, str], tuple[Any, ...]] = {}
        self._closed: dict[Formula, tuple[Any, ...]] = {}  # objects
        self._kinds: dict[Place, tuple[str, ...]] = {}
        self._active: dict[tuple[Formula, str], None] = {}
        self._possible: dict[Formula, bool] = {}
        self._glances = 0

    def options(self, formula: Formula, kind: str) -> tuple[Any, ...]:
        """The alternatives of a formula on values of a type; none if it cannot hold."""
        if kind not in self.kinds(formula):
            return ()
        key = (formula, kind)
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._active:
            place = formula.place.pointer if isinstance(formula, Holds) else "#"
            raise _CircleError(
                f"the schema at {place} refers to itself without any object or array in between, "
                f"so it says nothing; remove the circle of '$ref'"
            )
        if len(self._active) > _MAX_DEPTH:
            raise UnsupportedConstraintError(
                f"sub-schemas are combined in place more than {_MAX_DEPTH} deep; make the schema "
                f"flatter"
            )
        self._active[key] = None
        try:
            result = tuple(spec for spec in self._read(formula, kind) if self._feasible(spec))
        finally:
            del self._active[key]
        if len(result) > _MAX_OPTIONS:
            raise _too_many(formula)
        self._known[key] = result
        return result

    def values(self, formula: Formula, kind: str) -> tuple[Any, ...]:
        """The alternatives of all that is said of a value: its options, with objects closed.

        As far as anything is left then: otherwise they may have what conditions require, or stay
        open.
        """
        options = self.options(formula, kind)
        if kind != "object" or all(spec.closed_at is None for spec in options):
            return options
        if formula not in self._closed:
            left: list[ObjectSpec] = []
            for conditions in (False, True):
                closed = (spec.closed(self.possible, conditions) for spec in options)
                left = left or [spec for spec in closed if spec is not None]
            places = (spec.closed_at for spec in left if spec.closed_at is not None)
            self.closed_at.update((place.pointer, None) for place in places)
            self._closed[formula] = tuple(dict.fromkeys(left)) or options
        return self._closed[formula]

    def kinds(self, formula: Formula) -> tuple[str, ...]:
        """The types of values of which a formula may hold, as far as ``type`` alone says."""
        if not isinstance(formula, Holds) or not formula.positive:
            return KINDS
        known = self._kinds.get(formula.place)
        if known is None:
            schema, known = formula.place.schema, KINDS
            if "type" in schema and not self.document.is_lone_reference(schema):
                known = _kinds(_types(formula.place))
            self._kinds[formula.place] = known
        return known

    def possible(self, formula: Formula) -> bool:
        """Return whether a formula may hold of something, as far as can be seen at a glance."""
        if formula in (TRUE, FALSE):
            return formula == TRUE
        known = self._possible.get(formula)
        if known is None:
            self._possible[formula] = True
            known = any(self._try(formula, kind) for kind in self.kinds(formula))
            self._possible[formula] = known
        return known

    def beside(self, place: Place) -> list[Formula]:
        """The sub-schemas that look at the same value, as far as they can be read."""
        result = []
        for keyword in _IN_PLACE:
            value = place.schema.get(keyword)
            try:
                if keyword.startswith("$") and value is not None:
                    result.append(holds(self.document.resolve(place, keyword)))
            except PcgcdError:
                continue
            paths: list[tuple[str | int, ...]] = []
            if isinstance(value, list):
                paths = [(keyword, i) for i in range(len(value))]
            elif keyword.startswith("dependen") and isinstance(value, dict):
                paths = [(keyword, name) for name, v in value.items() if isinstance(v, dict)]
            elif keyword == "if" and value is not None:
                paths = [(branch,) for branch in ("if", "then", "else") if branch in place.schema]
            elif keyword == "not" and value is not None:
                paths = [(keyword,)]
            result += [holds(self.document.child(place, *path)) for path in paths]
        return result

    def drop(self, where: str, error: UnsupportedConstraintError) -> None:
        """Go on without a keyword (such as "format at #/format"), or raise if it must hold."""
        if self.strict and where.split(" ")[0] not in self.relax:
            raise error
        self.dropped[where] = None
        self.is_relaxed = True

    # -- inside -------------------------------------------------------------------------------

    def _try(self, formula: Formula, kind: str) -> bool:
        """Whether there are alternatives; circles and depth count as yes."""
        if (formula, kind) in self._active or len(self._active) > _MAX_DEPTH // 2:
            return True
        self._glances += 1
        try:
            return bool(self.options(formula, kind))
        except _CircleError:
            # A value inside is combined with the schema that is just being read.
            return True
        finally:
            self._glances -= 1

    def _feasible(self, spec: Any) -> bool:
        if isinstance(spec, ObjectSpec):
            names = [both((among([name]), *spec.keys)) for name in spec.required]
            return all(map(self.possible, (*map(spec.on, spec.required), *names)))
        if isinstance(spec, ArraySpec):
            needed = range(min(spec.least, len(spec.prefix) + 1))
            return all(self.possible(spec.item(i)) for i in needed)
        return True

    def _read(self, formula: Formula, kind: str) -> Iterable[Any]:
        if isinstance(formula, Among):
            return self._among(formula, kind)
        if isinstance(formula, Either):
            options = (spec for part in formula.parts for spec in self.options(part, kind))
            return dict.fromkeys(options)
        if isinstance(formula, Both):
            result: Options = [TOP[kind]]
            # The shortest first, so that contradictions show early.
            parts = sorted((self.options(part, kind) for part in formula.parts), key=len)
            for part in parts:
                result = self._meet(result, part, formula)
            return result
        return self._schema(formula, kind)

    def _meet(self, first: Iterable[Any], second: Iterable[Any], formula: Formula) -> Options:
        first, second = list(first), list(second)
        # Most schemas have few keywords for a type: what says nothing is left out at once.
        if not second or _says_nothing(first):
            return second
        if not first or _says_nothing(second):
            return first
        if len(first) * len(second) > 50 * _MAX_OPTIONS:
            raise _too_many(formula)
        result = [spec for spec in meet_all(first, second) if self._feasible(spec)]
        if len(result) > _MAX_OPTIONS:
            raise _too_many(formula)
        return result

    def _among(self, formula: Among, kind: str) -> Options:
        values = [value for value in formula.values if kind_of(value) == kind]
        if formula.positive:
            if not values:
                return []
            if kind in ("null", "boolean"):
                return [ConstantSpec(tuple(values))]
            if kind in ("string", "number"):
                spec = StringSpec if kind == "string" else NumberSpec
                return [spec(values=tuple(values))]
            return [_equal(value) for value in values]
        if kind in ("null", "boolean"):
            left = tuple(v for v in TOP[kind].values if v not in values)  # type: ignore[union-attr]
            return [ConstantSpec(left)] if left else []
        if kind == "string":
            return [StringSpec(excluded=frozenset(values))]
        result: Options = [TOP[kind]]
        for value in values:
            result = self._meet(result, _different(value), formula)
        return result

    def _schema(self, formula: Holds, kind: str) -> Options:
        positive, schema = formula.positive, formula.place.schema
        place = formula.place if positive else self.document.condition(formula.place)
        if isinstance(schema, bool):
            return [TOP[kind]] if schema == positive else []
        result: Options = [TOP[kind]] if positive else []
        keywords = ("type", "const", "enum", *OWN_KEYWORDS.get(kind, ()), *_IN_PLACE)
        if self.document.is_lone_reference(schema):
            keywords = ("$ref",)
        for keyword in keywords:
            if keyword not in schema:
                continue
            try:
                options = self._keyword(place, keyword, kind, positive)
            except UnsupportedConstraintError as error:
                if self._glances and isinstance(error, _CircleError):
                    raise
                self.drop(place.named(keyword), error)
                options = [TOP[kind]]
            result = self._meet(result, options, formula) if positive else [*result, *options]
            if positive and not result:
                return result
        for keyword, of in _UNEVALUATED.items():
            if keyword in schema and of == kind:
                result = self._unevaluated(place, keyword, result, positive)
        return result if positive else self._unseen(result)

    def _unseen(self, options: Options) -> Options:
        """Under a negation nothing counts as evaluated."""
        nothing = Seen()
        seen = (getattr(spec, "seen", nothing) for spec in options)
        return [s if at == nothing else replace(s, seen=nothing) for s, at in zip(options, seen)]

    def _keyword(self, place: Place, keyword: str, kind: str, positive: bool) -> Options:
        if keyword == "type":
            return self._type(place, kind, positive)
        if keyword == "const":
            return list(self.options(among([place.schema["const"]], positive), kind))
        if keyword == "enum":
            if not isinstance(place.schema["enum"], list):
                raise place.invalid(keyword, "a list of values")
            return list(self.options(among(place.schema["enum"], positive), kind))
        if keyword in _DEPENDENT or keyword == "dependentRequired":
            return self._dependent(place, keyword, kind, positive)
        if keyword in _IN_PLACE:
            return self._in_place(place, keyword, kind, positive)
        return own_options(self.document, place, keyword, positive)

    def _type(self, place: Place, kind: str, positive: bool) -> Options:
        names = _types(place)
        if kind in names:
            return [TOP[kind]] if positive else []
        if kind == "number" and "integer" in names:
            return [NumberSpec(integer=positive)]
        return [] if positive else [TOP[kind]]

    # -- sub-schemas on the same value --------------------------------------------------------

    def _in_place(self, place: Place, keyword: str, kind: str, positive: bool) -> Options:
        if keyword in _REFERENCES:
            formula = holds(self.document.resolve(place, keyword), positive)
        elif keyword == "not":
            condition = self.document.condition(place)
            formula = holds(self.document.child(condition, "not"), not positive)
        elif keyword == "if":
            formula = self._conditional(place)
            formula = formula if positive else negation(formula)
        else:
            value = place.schema[keyword]
            if not isinstance(value, list) or not value:
                raise place.invalid(keyword, "a list of schemas that is not empty")
            parts = [holds(self.document.child(place, keyword, i)) for i in range(len(value))]
            if keyword == "oneOf":
                return self._one_of(place, parts, kind, positive)
            if keyword == "anyOf" and positive:
                return self._any_of(place, parts, kind)
            formula = both(parts) if keyword == "allOf" else either(parts)
            formula = formula if positive else negation(formula)
        options = list(self.options(formula, kind))
        return self._unseen(options) if keyword == "not" else options

    def _conditional(self, place: Place) -> Formula:
        condition = holds(self.document.child(self.document.condition(place), "if"))
        then, otherwise = (
            holds(self.document.child(place, branch)) if branch in place.schema else TRUE
            for branch in ("then", "else")
        )
        if then == TRUE and otherwise == TRUE and not self.document.uses_unevaluated:
            return TRUE
        return either((both((condition, then)), both((negation(condition), otherwise))))

    def _any_of(self, place: Place, parts: list[Formula], kind: str) -> Options:
        """Each of the parts; also together, where all that they evaluate counts.

        Parts that are all that is said of an object are closed each by itself, so only beside
        others an object may have what several of them name.
        """
        together = parts if self.document.uses_unevaluated else []
        beside = any(name in place.schema for name in _NAMING)
        if not together and kind == "object" and place.closed and beside:
            own = frozenset(place.schema.get("properties", ()))
            together = [p for p in parts if any(s.seen.names - own for s in self.options(p, kind))]
        alone = either(part for part in parts if part not in together)
        chosen = (alone, *map(both, _choices(together)))
        return list(dict.fromkeys(spec for each in chosen for spec in self.options(each, kind)))

    def _one_of(self, place: Place, parts: list[Formula], kind: str, positive: bool) -> Options:
        alive = [part for part in parts if self.options(part, kind)]
        alone: list[Formula] = []
        several: list[Formula] = []
        for i, part in enumerate(alive):
            others = [*alive[:i], *alive[i + 1 :]]
            overlapping = [o for o in others if self.options(both((part, o)), kind)]
            alone.append(both((part, *map(negation, overlapping))))
            several += [both((part, other)) for other in overlapping]
        none = both(map(negation, alive))
        return list(self.options(either(alone if positive else (none, *several)), kind))

    def _dependent(self, place: Place, keyword: str, kind: str, positive: bool) -> Options:
        mapping = place.schema[keyword]
        if not isinstance(mapping, dict):
            raise place.invalid(keyword, "an object")
        if kind != "object":
            return [TOP[kind]] if positive else []
        result: Options = [TOP[kind]] if positive else []
        for name, needed in mapping.items():
            there = [ObjectSpec(required=(name,))]
            if keyword == "dependentRequired" or isinstance(needed, list | str):
                single = keyword in _DEPENDENT and isinstance(needed, str)
                others = names_at(place, keyword, [needed] if single else needed)
                present = meet_all(there, [required_at(place, others)])
                missing = meet_all(there, map(absent, others))
            else:
                inner = holds(self.document.child(place, keyword, name))
                present = meet_all(there, self.options(inner, kind))
                missing = [] if positive else meet_all(there, self.options(negation(inner), kind))
            if positive:
                result = self._meet(result, [absent(name), *present], holds(place))
            else:
                result += missing
        return result

    def _unevaluated(self, place: Place, keyword: str, options: Options, positive: bool) -> Options:
        formula = holds(self.document.child(place, keyword))
        if not positive:
            if formula == TRUE:
                return options
            error = place.unsupported(keyword, "it is under 'not', 'if' or an overlapping 'oneOf'")
            self.drop(place.named(keyword), error)
            return [TOP["object" if keyword == "unevaluatedProperties" else "array"]]
        result: Options = []
        for spec in options:
            seen: Seen = spec.seen
            everything = replace(spec, seen=Seen(everything=True))
            extra: Any
            if seen.everything:
                extra = type(spec)()
            elif keyword == "unevaluatedProperties":
                names = tuple((name, TRUE) for name in sorted(seen.names))
                patterns = tuple((pattern, TRUE) for pattern in sorted(seen.patterns))
                extra = ObjectSpec(rules=(Rule(names, patterns, formula),))
            else:
                extra = ArraySpec((TRUE,) * seen.items, either((formula, *seen.contained)))
            result += filter(self._feasible, meet_all([everything], [extra]))
        return result


def _types(place: Place) -> list[str]:
    """The types that a schema names."""
    named = place.schema["type"]
    names = named if isinstance(named, list) else [named]
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        raise place.invalid("type", f"one or more of {', '.join(_TYPES)}")
    return names


def _kinds(types: list[str]) -> tuple[str, ...]:
    """The JSON types of values that have one of some types."""
    return tuple(k for k in KINDS if k in types or (k == "number" and "integer" in types))


def _says_nothing(options: Options) -> bool:
    return len(options) == 1 and any(options[0] is top for top in TOP.values())


def _too_many(formula: Formula) -> UnsupportedConstraintError:
    place = f" at {formula.place.pointer}" if isinstance(formula, Holds) else ""
    return UnsupportedConstraintError(
        f"the combination of sub-schemas{place} has more than {_MAX_OPTIONS:,} alternatives; use "
        f"fewer 'anyOf', 'oneOf', 'not' or 'if' side by side"
    )


def _choices(parts: list[Formula]) -> list[list[Formula]]:
    """Every choice of some parts: each evaluates other properties."""
    if len(parts) > 6:
        return [[part] for part in parts]
    chosen: list[list[Formula]] = [[]]
    for part in parts:
        chosen += [[*others, part] for others in chosen]
    return chosen[1:]


def _equal(value: Any) -> Any:
    """The arrays or objects that equal a value."""
    if isinstance(value, list):
        items = tuple(among([item]) for item in value)
        return ArraySpec(items, FALSE, len(items), len(items))
    properties = tuple((name, among([item])) for name, item in value.items())
    return ObjectSpec(tuple(value), (Rule(properties, (), FALSE),), most=len(value))


def _different(value: Any) -> Options:
    """The numbers, arrays or objects that differ from a value."""
    if isinstance(value, list):
        size = len(value)
        shorter = [ArraySpec(most=size - 1)] if size else []
        return [
            *shorter,
            ArraySpec(least=size + 1),
            *(
                ArraySpec((*[TRUE] * i, among([item], False)), least=i + 1)
                for i, item in enumerate(value)
            ),
        ]
    if isinstance(value, dict):
        return [
            ObjectSpec(witnesses=(Witness(no_names=tuple(value)),)),
            *(absent(name) for name in value),
            *(
                ObjectSpec(required=(name,), rules=(Rule(((name, among([item], False)),)),))
                for name, item in value.items()
            ),
        ]
    number = Fraction(repr(value))
    return [NumberSpec(upper=Bound(number, False)), NumberSpec(lower=Bound(number, False))]
