"""Tools in the ways in which programs have them, and calls as values."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pcgcd.constraints.json_schema.schema import parsed
from pcgcd.constraints.python_types import function_tool
from pcgcd.constraints.tools.descriptions import arguments_of, listed_tools
from pcgcd.errors import InvalidParameterError


@dataclass(frozen=True)
class Call:
    """A function call.

    Attributes:
        name: The function.
        arguments: Its arguments by name; an instance where the tool is a class.
    """

    name: str
    arguments: Any


@dataclass(frozen=True, eq=False)
class CallReader:
    """From the text of one or several calls to values.

    Attributes:
        style: "json" or "python".
        name_key: Where the name stands in JSON.
        arguments_key: Where the arguments stand in JSON.
        readers: From the arguments of JSON to those of the function, by its name.
    """

    style: str = "json"
    name_key: str = "name"
    arguments_key: str = "arguments"
    readers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def __call__(self, text: str) -> Call | list[Call]:
        """Read the text: a call, or a list of them."""
        if self.style == "json":
            found = json.loads(text)
            return (
                [self._of_json(one) for one in found]
                if isinstance(found, list)
                else self._of_json(found)
            )
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.List):
            return [self._of_python(one) for one in tree.elts]
        return self._of_python(tree)

    def _of_json(self, found: dict[str, Any]) -> Call:
        return self._call(found[self.name_key], found[self.arguments_key])

    def _of_python(self, tree: ast.expr) -> Call:
        if not isinstance(tree, ast.Call):
            raise InvalidParameterError(
                f"expected a function call, but got {ast.unparse(tree)!r:.80}"
            )
        arguments = {str(word.arg): ast.literal_eval(word.value) for word in tree.keywords}
        return self._call(ast.unparse(tree.func), arguments)

    def _call(self, name: str, arguments: Any) -> Call:
        read = self.readers.get(name)
        return Call(name, arguments if read is None else read(arguments))


def without_functions(tools: Any) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """Tools with functions and classes replaced by their descriptions, and what reads arguments.

    Args:
        tools: Descriptions in any dialect, Python functions, classes with fields; or one of them,
            or JSON text.
    """
    given = parsed(tools)
    given = [given] if callable(given) else given
    if not isinstance(given, list | tuple):
        return given, {}
    found = {i: function_tool(tool) for i, tool in enumerate(given) if callable(tool)}
    plain = [found[i].description if i in found else tool for i, tool in enumerate(given)]
    return plain, {tool.description["function"]["name"]: tool.read for tool in found.values()}


def openai_tools(tools: Any) -> list[dict[str, Any]]:
    """Tools as chat templates want them: ``{"type": "function", "function": {...}}``.

    >>> openai_tools({"name": "now", "input_schema": {"type": "object"}})
    [{'type': 'function', 'function': {'name': 'now', 'parameters': {'type': 'object'}}}]
    """
    result = []
    for tool in listed_tools(without_functions(tools)[0]):
        kept: dict[str, Any] = {key: tool[key] for key in ("name", "description") if key in tool}
        schema = arguments_of(tool) or {"type": "object", "properties": {}}
        result.append({"type": "function", "function": {**kept, "parameters": schema}})
    return result
