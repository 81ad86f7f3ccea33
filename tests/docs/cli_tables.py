"""The tables of options on the page of the command line.

``python -m tests.docs.cli_tables`` puts the present ones into the page.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from pcgcd.cli.main import make_parser

__all__ = ["PAGE", "commands", "section", "table", "updated"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
_TABLE = re.compile(r"^\| option \|.*\n(?:\|.*\n)+", re.MULTILINE)


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    [found] = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found.choices)


def table(parser: argparse.ArgumentParser) -> str:
    """The arguments of a command, in Markdown."""
    rows = ["| option | meaning |", "|---|---|"]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings or [action.dest])
        purpose = (action.help or "") % {"default": f"{action.default}"}
        choices = " ".join(f"`{choice}`" for choice in action.choices or ())
        needed = "required" if action.required and action.option_strings else ""
        meaning = "; ".join(part for part in (needed, purpose, choices) if part)
        rows.append(f"| {names} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def section(text: str, command: str) -> str:
    """What the page says of a command."""
    _, _, after = text.partition(f"\n## pcgcd {command}\n")
    return after.partition("\n## ")[0] + "\n" if after else ""


def updated(text: str) -> str:
    """The page with the present tables."""
    head, *sections = re.split(r"^(?=## pcgcd )", text, flags=re.MULTILINE)
    known = {part.partition("\n")[0].removeprefix("## pcgcd "): part for part in sections}
    result = [head]
    for command, parser in commands().items():
        part = known.get(command, f"## pcgcd {command}\n\n| option |\n|---|\n\n")
        new = table(parser)
        result.append(_TABLE.sub(lambda _, new=new: new, part, count=1).rstrip() + "\n\n")
    return "".join(result).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.name}")
