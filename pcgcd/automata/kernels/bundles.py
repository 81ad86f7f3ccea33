"""Tuples of arrays that compiled loops are given by reference.

numba hands each array of a tuple over as seven numbers, and writes fifty instructions to read one
of its items. For a loop with a few tuples, and parts that it passes them on to, that is most of the
time of the compiler. Here a tuple is one argument, the address of a table with the place and the
shape of each array; and an item is read where it is, with indices that are not negative.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype

Function = TypeVar("Function", bound=Callable[..., Any])
_WORD: Any = cgutils.intp_t


def _with(decorator: Any) -> Callable[[Function], Function]:
    """Keep the type of what numba decorates."""
    return cast(Callable[[Function], Function], decorator)


class Bundle:
    """A named tuple of C-contiguous arrays, and of such tuples, as compiled loops read it.

    It does not keep the arrays: whoever calls a loop has them.

    Attributes:
        kind: What numba takes it for.
        address: Where the table is.
    """

    kind: BundleType
    address: int

    def __init__(self, arrays: Any) -> None:
        """Write the table."""
        fields: list[tuple[str, Any, int]] = []
        words: list[int] = []
        self._arrays: list[Any] = []
        for name, value in zip(arrays._fields, arrays):
            place = len(words)
            if isinstance(value, tuple):
                inner = Bundle(value)
                self._arrays.append(inner)
                fields.append((name, inner.kind, place))
                words.append(inner.address)
                continue
            if not value.flags.c_contiguous:
                raise ValueError(f"{name} must be contiguous for compiled loops to read it")
            self._arrays.append(weakref.ref(value))
            fields.append((name, _view_type(value.dtype, value.ndim), place))
            words += (value.ctypes.data, *value.shape)
        self.kind = _bundle_type(tuple(fields))
        self._table = np.array(words, dtype=np.int64)
        self.address = self._table.ctypes.data

    def is_of(self, arrays: Any) -> bool:
        """Return whether these are the arrays whose places are in the table."""
        for known, value in zip(self._arrays, arrays):
            if not (known.is_of(value) if isinstance(known, Bundle) else known() is value):
                return False
        return len(self._arrays) == len(arrays)


class BundleType(types.Type):
    """The names, types and places in the table of what a bundle holds."""

    def __init__(self, fields: tuple[tuple[str, Any, int], ...]) -> None:
        self.fields = {name: (kind, place) for name, kind, place in fields}
        super().__init__(f"Bundle{fields}")


class ViewType(types.Type):
    """An array of a bundle."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim = dtype, ndim
        self.shape = types.UniTuple(types.int64, ndim)
        self.index = types.int64 if ndim == 1 else self.shape
        super().__init__(f"View({dtype}, {ndim})")


# numba makes types slowly, and a loop may be called for every token.
@cache
def _bundle_type(fields: tuple[tuple[str, Any, int], ...]) -> BundleType:
    return BundleType(fields)


@cache
def _view_type(dtype: Any, ndim: int) -> ViewType:
    return ViewType(from_dtype(dtype), ndim)


@_with(register_model(BundleType))
class _BundleModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: BundleType) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())  # type: ignore[no-untyped-call]  # numba's


@_with(register_model(ViewType))
class _ViewModel(models.StructModel):
    def __init__(self, manager: Any, kind: ViewType) -> None:
        members = [("data", types.CPointer(kind.dtype)), ("shape", kind.shape)]
        super().__init__(manager, kind, members)  # type: ignore[no-untyped-call]  # numba's


@_with(typeof_impl.register(Bundle))
def _type_of_bundle(value: Bundle, context: Any) -> BundleType:
    return value.kind


@_with(unbox(BundleType))
def _unbox(kind: BundleType, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "address")
    pointer = c.builder.bitcast(c.pyapi.long_as_voidptr(number), _WORD.as_pointer())
    c.pyapi.decref(number)
    return NativeValue(pointer)


@_with(infer_getattr)
class _BundleAttributes(AttributeTemplate):
    key = BundleType

    def generic_resolve(self, kind: Any, name: Any) -> Any:  # type: ignore[override]  # a marker
        return kind.fields[name][0] if name in kind.fields else None


@_with(lower_getattr_generic(BundleType))
def _field(context: Any, builder: Any, kind: BundleType, table: Any, name: str) -> Any:
    found, place = kind.fields[name]

    def word(i: int) -> Any:
        loaded = builder.load(builder.gep(table, [_WORD(place + i)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    if isinstance(found, BundleType):
        return builder.inttoptr(word(0), table.type)
    view = cgutils.create_struct_proxy(found)(context, builder)
    view.data = builder.inttoptr(word(0), view.data.type)
    view.shape = cgutils.pack_array(builder, [word(1 + axis) for axis in range(found.ndim)])
    return view._getvalue()


@_with(infer_getattr)
class _ViewAttributes(AttributeTemplate):
    key = ViewType

    def resolve_shape(self, kind: ViewType) -> Any:
        return kind.shape


@_with(lower_getattr(ViewType, "shape"))
def _shape(context: Any, builder: Any, kind: ViewType, view: Any) -> Any:
    return builder.extract_value(view, 1)


@_with(infer_global(len))
class _Length(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        (view,) = arguments
        return signature(types.int64, view) if isinstance(view, ViewType) else None


@_with(infer_global(operator.getitem))
class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        view, _ = arguments
        return signature(view.dtype, view, view.index) if isinstance(view, ViewType) else None


@_with(infer_global(operator.setitem))
class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        view, _, _ = arguments
        if not isinstance(view, ViewType):
            return None
        return signature(types.none, view, view.index, view.dtype)


@_with(lower_builtin(len, ViewType))
def _len(context: Any, builder: Any, kind: Any, arguments: Any) -> Any:
    return builder.extract_value(arguments[0], (1, 0))


@_with(lower_builtin(operator.getitem, ViewType, types.Any))
def _get(context: Any, builder: Any, kind: Any, arguments: Any) -> Any:
    place = _place(builder, kind.args[0], *arguments)
    return context.unpack_value(builder, kind.args[0].dtype, place)


@_with(lower_builtin(operator.setitem, ViewType, types.Any, types.Any))
def _set(context: Any, builder: Any, kind: Any, arguments: Any) -> Any:
    view, index, value = arguments
    context.pack_value(
        builder, kind.args[0].dtype, value, _place(builder, kind.args[0], view, index)
    )
    return context.get_dummy_value()


def _place(builder: Any, kind: ViewType, view: Any, index: Any) -> Any:
    if kind.ndim > 1:
        *first, last = (builder.extract_value(index, axis) for axis in range(kind.ndim))
        for axis, i in enumerate(first, 1):
            last = builder.add(builder.mul(i, builder.extract_value(view, (1, axis))), last)
        index = last
    return builder.gep(builder.extract_value(view, 0), [index])
