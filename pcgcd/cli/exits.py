"""Exit codes of commands, and errors as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pcgcd.errors import PcgcdError

__all__ = ["exit_code"]

_FAILURE = 2


def exit_code(command: Callable[[], None]) -> int:
    """Run a command.

    Returns:
        0, or 2 after an error of ours or of a file, which is one sentence on the error stream.
        Other errors are not hidden.
    """
    try:
        command()
    except PcgcdError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot use {error.filename or 'a file'}: {error.strerror or error}")
    return 0


def _fail(sentence: str) -> int:
    print(f"pcgcd: {' '.join(sentence.split())}", file=sys.stderr)
    return _FAILURE
