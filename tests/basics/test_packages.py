"""Packages that may be missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pcgcd.basics.packages import package
from pcgcd.errors import MissingDependencyError


def test_a_package_that_is_there_is_imported() -> None:
    assert package("json", "a test") is json
    assert package("json.decoder", "a test") is json.decoder


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_package.part", "a test needs the package no_such_package, .* install no_such_"),
        ("sklearn.cluster", "package scikit-learn, .* run pip install scikit-learn, or stop"),
        ("transformers", r"package transformers, .* run pip install 'transformers>=\d"),
        ("genlm.control", "package genlm-control, .* run pip install 'genlm-control>="),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_command(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependencyError, match=said):
        package(name, "a test", "stop")


def test_a_package_whose_own_needs_are_missing_is_said_to_be_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingDependencyError, match=r"cannot be imported \(No module .*no_such"):
        package("half_installed", "a test")
