"""The list of mutants fits the code; ``make mutants`` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

import pcgcd
from tests.mutants.mutants import MUTANTS, Mutant

PACKAGE = Path(pcgcd.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place(mutant: Mutant) -> None:
    text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new
    for path in mutant.tests:
        assert (PACKAGE.parent / path.partition("::")[0]).exists()
