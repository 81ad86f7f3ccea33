"""How loops are compiled: with numba, once for all runs, and not for small work before that.

Compiling the constructions takes half a minute of CPU time where nothing is in numba's cache yet.
As long as that is so, small work is done by the same functions as plain Python, for a few seconds
in all. So a first small constraint is there at once, and ``pcgcd warm-up`` is for everything else.
Whoever waits for the compiler is told why, once (:class:`Notice`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit, typeof
from numba.core import event
from numba.core.registry import CPUDispatcher
from numba.extending import typeof_impl

from pcgcd.automata.kernels.bundles import Bundle

Function = TypeVar("Function", bound=Callable[..., Any])
Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Bits: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

# How many seconds plain Python may take in a process before loops are compiled.
PLAIN_SECONDS = 3.0
# How many seconds a process may compile before it says so.
QUIET_SECONDS = 2.0
_SMALL = 10_000
# Options of numba for what makes and returns no arrays.
_IN_PLACE = {"_nrt": False}
_LOG = logging.getLogger(__name__)


def compiled(function: Function, **options: Any) -> Function:
    """Compile with numba, and keep the machine code on disk if there is a place for it.

    Args:
        function: The loop.
        options: More options of numba.
    """
    try:
        result: Any = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        result = njit(nogil=True, **options)(function)
    return cast(Function, result)


def compiled_part(function: Function) -> Function:
    """Compile what only compiled loops call.

    It gets no entry from Python, which takes as long to compile as the rest where arguments are
    tuples of arrays.
    """
    return _part(function)


def in_place(function: Function, **options: Any) -> Function:
    """Compile what only compiled loops call, and what makes and returns no arrays.

    Their owners are outside, so references need not be counted: for tuples of arrays that is most
    of the code.

    Args:
        function: The part.
        options: More options of numba.
    """
    return _part(function, **_IN_PLACE, **options)


def _part(function: Function, **options: Any) -> Function:
    result: Any = compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
    return cast(Function, Part(result) if isinstance(result, CPUDispatcher) else result)


def inlined(function: Function) -> Function:
    """Write a part of one compiled loop by itself, at no cost.

    It is put into its caller before that is compiled. A helper of many callers is better off with
    :func:`compiled_part`, which compiles it once for each kind of arguments.
    """
    return cast(Function, njit(inline="always")(function))


def compiled_if_large(
    size: Callable[..., int] | None = None, *, most: int = _SMALL, in_place: bool = False
) -> Callable[[Function], Function]:
    """Compile, but leave small work to Python while there is nothing in the cache.

    Args:
        size: The size of the work, given the arguments; without it, the length of the longest
            array among them.
        most: What counts as small.
        in_place: Whether the loop makes and returns no arrays. Then named tuples of arrays are
            given by reference (see :mod:`pcgcd.automata.kernels.bundles`).
    """

    def decorate(function: Function) -> Function:
        dispatcher = compiled(function, **_IN_PLACE) if in_place else compiled(function)
        kind = InPlaceKernel if in_place else Kernel
        return cast(Function, kind(dispatcher, size or _longest, most))

    return decorate


def one(*_: Any) -> int:
    """Say that the work is small, whatever the arrays are: one walk, say."""
    return 1


class Part:
    """A part of compiled loops, which is plain Python when Python calls it.

    Attributes:
        dispatcher: The compiled form.
    """

    def __init__(self, dispatcher: Any) -> None:
        update_wrapper(self, dispatcher.py_func)
        self.dispatcher = dispatcher

    def __call__(self, *arguments: Any) -> Any:
        """Run the Python function."""
        with np.errstate(all="ignore"):  # hashes overflow
            return plain(self.dispatcher)(*arguments)


class Kernel:
    """A loop that is compiled when it has to be; compiled loops may call it like any other.

    Attributes:
        dispatcher: The compiled form.
    """

    def __init__(self, dispatcher: Any, size: Callable[..., int], most: int) -> None:
        update_wrapper(self, getattr(dispatcher, "py_func", dispatcher))
        self.dispatcher, self._size, self._most = dispatcher, size, most
        self._is_ready = not isinstance(dispatcher, CPUDispatcher)

    def __call__(self, *arguments: Any) -> Any:
        """Run it, in the one way or the other."""
        if not self._is_ready:
            kinds = tuple(map(self.dispatcher.typeof_pyval, self._given(arguments)))
            self._is_ready = _is_stored(self.dispatcher, kinds)
            if not self._is_ready:
                if _Clock.spent < PLAIN_SECONDS and self._size(*arguments) <= self._most:
                    return _Clock.run(plain(self.dispatcher), arguments)
                self._is_ready = True
        return self.dispatcher(*self._given(arguments))

    def _given(self, arguments: tuple[Any, ...]) -> Sequence[Any]:
        """Return what the compiled form is given."""
        return arguments


class InPlaceKernel(Kernel):
    """A loop that makes no arrays, and is given tuples of them by reference."""

    def __init__(self, dispatcher: Any, size: Callable[..., int], most: int) -> None:
        super().__init__(dispatcher, size, most)
        self._last: dict[int, Bundle] = {}  # by the place of the argument; most calls repeat it

    def _given(self, arguments: tuple[Any, ...]) -> Sequence[Any]:
        given: list[Any] = list(arguments)
        for place, value in enumerate(arguments):
            if isinstance(value, tuple):
                bundle = self._last.get(place)
                if bundle is None or not bundle.is_of(value):
                    bundle = self._last[place] = Bundle(value)
                given[place] = bundle
        return given


@typeof_impl.register(Part)
@typeof_impl.register(Kernel)
def _type_of_kernel(value: Part | Kernel, context: Any) -> Any:
    return typeof(value.dispatcher)


class _Clock:
    """The seconds that plain Python took so far."""

    spent = 0.0

    @classmethod
    def run(cls, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        start = time.process_time()
        with np.errstate(all="ignore"):  # hashes overflow
            result = function(*arguments)
        cls.spent += time.process_time() - start
        return result


class Notice(event.Listener):
    """A line in the log, once, when the loops of this package have compiled for a while.

    Python prints a warning of the log on the error stream where nobody has said otherwise. Numba
    holds a lock while it compiles, so these methods run in one thread at a time; they do not run
    where machine code comes from the cache.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Begin with nothing compiled.

        Args:
            clock: The seconds now.
        """
        self._clock = clock
        self._spent = self._start = 0.0
        self._depth = 0  # one loop compiles the parts that it calls
        self.is_over = False

    def on_start(self, event: event.Event) -> None:
        """Note when the outermost loop starts."""
        if _is_ours(event):
            self._look()
            self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """Write the line if it has become too long."""
        if _is_ours(event):
            self._look()
            self._depth -= 1

    def _look(self) -> None:
        now = self._clock()
        if self._depth:
            self._spent += now - self._start
        self._start = now
        if self._spent >= QUIET_SECONDS and not self.is_over:
            self.is_over = True
            _LOG.warning(
                "pcgcd compiles its loops with numba, which takes up to a minute and happens once; "
                "'pcgcd warm-up' does it ahead of time"
            )


def _is_ours(event: event.Event) -> bool:
    function = event.data["dispatcher"].py_func
    return str(function.__module__).startswith("pcgcd.")


_NOTICE = Notice()
event.register("numba:compile", _NOTICE)


@contextmanager
def always_compiled() -> Iterator[None]:
    """Compile whatever is used inside, be it small or large, without a word."""
    before = _Clock.spent, _NOTICE.is_over
    _Clock.spent, _NOTICE.is_over = PLAIN_SECONDS, True
    try:
        yield
    finally:
        _Clock.spent, _NOTICE.is_over = before


def _longest(*arguments: Any) -> int:
    return max((len(value) for value in arguments if isinstance(value, np.ndarray)), default=0)


def _is_stored(dispatcher: Any, kinds: tuple[Any, ...]) -> bool:
    """Return whether machine code for such arguments is in memory or in numba's cache."""
    if kinds in dispatcher.overloads:
        return True
    try:
        cache = dispatcher._cache
        key = cache._index_key(kinds, dispatcher.targetctx.codegen())
        return key in cache._cache_file._load_index()
    except AttributeError:  # there is no cache, or numba has changed inside
        return False


_PLAIN: dict[int, Any] = {}


def plain(dispatcher: Any) -> Any:
    """Return the function behind a compiled one, such that all that it calls is plain too."""
    known = _PLAIN.get(id(dispatcher))
    if known is None:
        function = dispatcher.py_func
        names: dict[str, Any] = dict(function.__globals__)
        known = FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        _PLAIN[id(dispatcher)] = known
        for name in function.__code__.co_names:
            value = names.get(name)
            inner = value.dispatcher if isinstance(value, Part | Kernel) else value
            if isinstance(inner, CPUDispatcher):
                names[name] = plain(inner)
    return known
