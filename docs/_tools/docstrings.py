"""The reference on the site: public names only, roles as links, doctests as blocks of code.

The docstrings are written for people who read them in an editor: ``:func:`name` `` names another
object, and an example is a doctest after an empty line. Neither is Markdown. This extension of
griffe rewrites them when the reference is built; an object that no page shows gets no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

import griffe

__all__ = ["Docstrings", "with_fenced_doctests", "with_linked_roles"]

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):`(~?)([\w.]+)`")
# A doctest ends at an empty line, as it does for Python's own doctest module.
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1(?=\S| ).*)*", re.MULTILINE)


def _path_of(name: str, scope: griffe.Object) -> str:
    """The full path of a name in a docstring: a member of its scope, or what that imports."""
    first, _, rest = name.partition(".")
    place: griffe.Object | None = scope
    while place is not None:
        try:
            found = place.members[first].path if first in place.members else place.resolve(first)
        except griffe.NameResolutionError:
            place = place.parent  # type: ignore[assignment]
        else:
            return f"{found}.{rest}" if rest else found
    return name


def with_linked_roles(text: str, scope: griffe.Object) -> str:
    """Replace each role by a reference, which is plain code where its target is on no page."""

    def link(role: re.Match[str]) -> str:
        is_short, name = role.groups()
        shown = name.rpartition(".")[2] if is_short else name
        path = name if name.startswith(f"{scope.package.path}.") else _path_of(name, scope)
        return (
            f'<autoref identifier="{escape(path)}" optional><code>{escape(shown)}</code></autoref>'
        )

    return _ROLE.sub(link, text)


def with_fenced_doctests(text: str) -> str:
    """Put each doctest between fences, so that its output is not read as Markdown."""
    return _DOCTEST.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


def _rewrite(scope: griffe.Object) -> None:
    """Rewrite the docstrings of a scope; what is only imported is rewritten where it is defined."""
    if scope.docstring is not None:
        text = with_fenced_doctests(scope.docstring.value)
        scope.docstring.value = with_linked_roles(text, scope)
    for member in scope.members.values():
        if not member.is_alias:
            _rewrite(member)


def _modules(package: griffe.Module) -> Iterator[griffe.Module]:
    yield package
    for member in package.members.values():
        if not member.is_alias and member.is_module:
            yield from _modules(member)


def _exports(module: griffe.Module) -> Iterator[str]:
    """The paths of what a module names in ``__all__``."""
    for name in map(str, module.exports or ()):
        if name in module.members:
            path = module.members[name].canonical_path
            # A function may have the name of the file it is in, which is what griffe finds.
            yield from (path, f"{path}.{name}")


def _hide_private(module: griffe.Module, exported: set[str]) -> None:
    """Leave out what no package exports, unless that is the whole module."""
    own = [member for member in module.members.values() if not member.is_alias]
    exports_any = any(member.path in exported for member in own)
    for member in own:
        if exports_any and member.path not in exported and not member.is_module:
            member.public = False
        if "__post_init__" in member.members:
            member.members["__post_init__"].public = False


def _remove_private_fields(scope: griffe.Object) -> None:
    """Remove private attributes, which griffe would show in the signatures of dataclasses."""
    for name, member in list(scope.members.items()):
        if member.is_alias:
            continue
        if scope.is_class and member.is_attribute and name.startswith("_"):
            scope.del_member(name)
        else:
            _remove_private_fields(member)


class Docstrings(griffe.Extension):
    """Prepare a package for the reference once the whole of it has been read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings, and hide what is not public."""
        _rewrite(pkg)
        modules = list(_modules(pkg))
        exported = {path for module in modules for path in _exports(module)}
        for module in modules:
            _hide_private(module, exported)
        _remove_private_fields(pkg)
