"""What all suites of laws share, and how to run one without pytest."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from pcgcd.errors import PcgcdError

Error = TypeVar("Error", bound=PcgcdError)


class Laws:
    """A suite of laws: each method ``test_...`` is one.

    Inherit from a suite in a test class whose name starts with ``Test``, and implement what raises
    ``NotImplementedError``; pytest does the rest. Without pytest, use :func:`run_laws`.
    """

    _arguments: ClassVar[Sequence[str]] = ()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run a law that has an argument, such as ``dtype``, for each of its ``dtypes``."""
        for name in self._arguments:
            if name in metafunc.fixturenames:
                choices = self.choices(name)
                metafunc.parametrize(name, choices, ids=[_name_of(choice) for choice in choices])

    def choices(self, argument: str) -> Sequence[Any]:
        """What a law's argument may be: by default, the attribute of its name in the plural."""
        choices: Sequence[Any] = getattr(self, f"{argument}s")
        return choices


def _name_of(choice: object) -> str:
    if isinstance(choice, torch.dtype):
        return str(choice).removeprefix("torch.")
    return type(choice).__name__


def run_laws(suite: type) -> int:
    """Run every law of a suite, as pytest would, and count them.

    Args:
        suite: A class that inherits from one of the ``...Laws`` of :mod:`pcgcd.testing`.

    Raises:
        AssertionError: A law does not hold; it says which, and where.

    >>> from pcgcd.decoding import systematic
    >>> from pcgcd.testing import ResamplerLaws
    >>> class TestSystematic(ResamplerLaws):
    ...     num_draws = 100
    ...
    ...     def create_resampler(self):
    ...         return systematic
    >>> run_laws(TestSystematic)
    3
    """
    laws, count = suite(), 0
    for name in dir(suite):
        if not name.startswith("test_"):
            continue
        law = getattr(laws, name)
        choices = [laws.choices(argument) for argument in inspect.signature(law).parameters]
        for arguments in itertools.product(*choices):
            law(*arguments)
            count += 1
    return count


@contextmanager
def as_violations() -> Iterator[None]:
    """Turn what pcgcd refuses into a violation of a law."""
    try:
        yield
    except PcgcdError as error:
        raise AssertionError(str(error)) from error


def assert_refused(call: Callable[[], object], kind: type[Error], otherwise: str) -> Error:
    """Return the error of a call that must fail; raise ``AssertionError`` if it does not."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(otherwise)


def assert_close(
    actual: Tensor, expected: Tensor, what: str, rtol: float, atol: float | None = None
) -> None:
    """Raise ``AssertionError`` where numbers differ; without ``atol``, it is ``rtol`` too."""
    torch.testing.assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=rtol if atol is None else atol,
        msg=lambda text: f"{what}: {text}",
    )
