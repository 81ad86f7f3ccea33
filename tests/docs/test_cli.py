"""The page of the command line lists the commands and options that there are."""

from __future__ import annotations

import re

import pytest

from tests.docs.cli_tables import PAGE, commands, section, table

COMMANDS = commands()
HINT = "run python -m tests.docs.cli_tables"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_the_options_of_the_command(command: str) -> None:
    assert table(COMMANDS[command]) in section(PAGE.read_text(encoding="utf-8"), command), HINT


def test_the_page_has_no_other_commands() -> None:
    found = re.findall(r"^## pcgcd (\S+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found == list(COMMANDS), HINT
