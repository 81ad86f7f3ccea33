"""Walks over a vocabulary's trie, kept for later automata."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pcgcd.automata.kernels.templates import Templates, new_templates


@dataclass
class _Box:
    """Templates, and some of their labels as packed bits."""

    templates: Templates
    packed: tuple[Any, Any] | None = None


@dataclass(eq=False)
class TemplateStore:
    """The templates of a vocabulary, which one lifting at a time may read and add to.

    They change how long a lifting takes, never its result.
    """

    _box: _Box | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def borrowed(self) -> Iterator[_Box]:
        """The templates, for one lifting; empty ones if they are taken."""
        if not self._lock.acquire(blocking=False):
            yield _Box(new_templates())
            return
        try:
            if self._box is None:
                self._box = _Box(new_templates())
            yield self._box
        except BaseException:
            self._box = None
            raise
        finally:
            self._lock.release()

    def __reduce__(self) -> tuple[type[TemplateStore], tuple[()]]:
        return TemplateStore, ()
