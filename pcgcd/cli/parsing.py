"""Arguments as they are meant: no abbreviations, and a hint where an option does not exist."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose options are written out, so that a new one changes no old command.

    Parsers of commands, which it makes, are like it.
    """

    def __init__(self, **options: Any) -> None:
        """See :class:`argparse.ArgumentParser`."""
        super().__init__(allow_abbrev=False, **options)
        self._given: list[str] = []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and refuse an option that does not exist here, where the near ones are known."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        if any(text.startswith("-") for text in rest):
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Print usage and the message, with the options that may have been meant."""
        options = [name for name in self._option_string_actions if name.startswith("--")]
        before_end = self._given[: self._given.index("--")] if "--" in self._given else self._given
        hints = []
        for text in before_end:
            name = text.partition("=")[0]
            if not name.startswith("--") or " " in name or name in options:
                continue
            near = difflib.get_close_matches(name, options, n=1)
            meant = f"did you mean {near[0]}?" if near else f"see {self.prog} --help"
            hints.append(f"there is no option {name}: {meant}")
        super().error("; ".join([message, *hints]))
