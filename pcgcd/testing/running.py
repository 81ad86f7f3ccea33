"""Laws without pytest."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from typing import Any

__all__ = ["run_laws"]


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
        choices = _Choices(tuple(inspect.signature(law).parameters))
        if choices.fixturenames:
            laws.pytest_generate_tests(choices)
        for arguments in itertools.product(*map(choices.of.get, choices.fixturenames)):
            law(*arguments)
            count += 1
    return count


class _Choices:
    """What ``pytest_generate_tests`` is given: the names of arguments, and room for values."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.fixturenames = names
        self.of: dict[str, Sequence[Any]] = {}

    def parametrize(self, name: str, values: Sequence[Any], ids: Sequence[str]) -> None:
        self.of[name] = values
