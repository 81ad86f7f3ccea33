"""Packages that may be missing."""

from __future__ import annotations

import configparser
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import pcgcd
from pcgcd.basics import packages
from pcgcd.basics.packages import check_version, package
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


@pytest.mark.parametrize(
    ("name", "old", "new"), [("transformers", "4.57.0", "4.57.1"), ("torch", "2.5.1+cpu", "2.6.0")]
)
def test_a_package_that_is_too_old_is_refused_by_name(name: str, old: str, new: str) -> None:
    module = ModuleType(name)
    module.__version__ = old  # type: ignore[attr-defined]
    with pytest.raises(MissingDependencyError, match=f"{name}>=.*{re.escape(old)} is installed"):
        check_version(module)
    for fine in (new, "10.0.dev1", ""):
        module.__version__ = fine  # type: ignore[attr-defined]
        check_version(module)


def test_what_is_refused_is_what_the_metadata_does_not_allow() -> None:
    """The lower bounds of setup.cfg, and those that are checked when a package is imported."""
    settings = configparser.ConfigParser()
    settings.read(Path(pcgcd.__file__).parents[1] / "setup.cfg")
    if not settings.sections():
        pytest.skip("needs the project's folder")
    bounds = dict(re.findall(r"^(\w+)>=([\d.]+)", settings["options"]["install_requires"], re.M))
    for name, oldest in packages._OLDEST.items():
        assert bounds[name] == ".".join(map(str, oldest))
