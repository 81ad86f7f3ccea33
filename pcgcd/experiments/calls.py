"""Function calls that were written as JSON or as Python: reading them, and rating them.

A call is right where its function is, every argument has an accepted value, and none is missing
that must be there: the rules of BFCL's checker for syntax trees. Texts are compared without case,
blanks and punctuation, numbers by value.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from pcgcd.errors import InvalidParameterError
from pcgcd.experiments.data.bfcl import CallExample

Style: TypeAlias = Literal["json", "python"]
STYLES: Mapping[Style, str] = {"json": "JSON", "python": "Python"}

_IGNORED = re.compile(r"[ \,\.\/\-\_\*\^\'\"]")


class Call(NamedTuple):
    """A call.

    Attributes:
        name: The function.
        arguments: Its arguments.
    """

    name: str
    arguments: Mapping[str, Any]


def parse_call(text: str, style: Style) -> Call | None:
    """Return the call that a text is; None if it is none.

    >>> parse_call('{"name": "f", "arguments": {"x": 1}}', "json")
    Call(name='f', arguments={'x': 1})
    >>> parse_call("a.f(x=[1, 2])", "python")
    Call(name='a.f', arguments={'x': [1, 2]})
    """
    return _from_json(text) if style == "json" else _from_python(text)


def _from_json(text: str) -> Call | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        return None
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return Call(name, arguments)


def _from_python(text: str) -> Call | None:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            return None
        arguments = {word.arg: ast.literal_eval(word.value) for word in tree.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    if None in arguments:
        return None
    return Call(ast.unparse(tree.func), {str(name): value for name, value in arguments.items()})


def rate_call(text: str, example: CallExample, style: Style) -> dict[str, float]:
    """Rate a text: is it a call, of the right function, with the right arguments (the score)?"""
    call = parse_call(text, style)
    name, accepted = example.answers[0]
    right = call is not None and call.name == name
    return {
        "score": float(right and call is not None and _fits(call.arguments, accepted)),
        "parsable": float(call is not None),
        "right_function": float(right),
    }


def _fits(given: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> bool:
    if not set(given) <= set(accepted):
        return False
    return all(
        any(_equal(given[name], value) for value in values) if name in given else "" in values
        for name, values in accepted.items()
    )


def _equal(found: Any, wanted: Any) -> bool:
    """Return whether a value is the accepted one; in accepted objects, each entry lists several."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, str) and isinstance(wanted, str):
        return _plain(found) == _plain(wanted)
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return found == wanted
    if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        options = {
            name: value if isinstance(value, list) else [value] for name, value in wanted.items()
        }
        return _fits(found, options)
    return bool(found == wanted)


def _plain(text: str) -> str:
    return _IGNORED.sub("", text).lower()


def gold_call(example: CallExample, style: Style) -> str:
    """Return a right answer, written as the constraint writes it: the first accepted values.

    Raises:
        InvalidParameterError: No value of an argument is accepted.
    """
    name, accepted = example.answers[0]
    order = _order(example, name)
    given = {
        argument: _first(values)
        for argument, values in sorted(accepted.items(), key=lambda item: order(item[0]))
        if "" not in values
    }
    if style == "json":
        return json.dumps({"name": name, "arguments": given}, ensure_ascii=False)
    return f"{name}({', '.join(f'{argument}={value!r}' for argument, value in given.items())})"


def _order(example: CallExample, name: str) -> Any:
    """Arguments in the order in which the function describes them."""
    found = [tool.get("parameters") or {} for tool in example.tools if tool.get("name") == name]
    described = list((found[0].get("properties") or found[0]) if found else ())
    return lambda argument: described.index(argument) if argument in described else len(described)


def _first(values: Sequence[Any]) -> Any:
    if not values:
        raise InvalidParameterError("each argument needs an accepted value, but one has none")
    value = values[0]
    if isinstance(value, Mapping):
        return {k: _first(v) if isinstance(v, list) else v for k, v in value.items() if "" not in v}
    return value
