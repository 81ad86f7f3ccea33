"""The built site, as a reader's browser shows it: ``make test-site``.

A browser opens every page in a window of 1,400 pixels. It has no need of a network.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.browser import Report, chromium, visit

griffe = pytest.importorskip("griffe", reason="the tools for the documentation are not installed")
pytest.importorskip("mkdocs", reason="the tools for the documentation are not installed")

ROOT = Path(__file__).parents[2]
FORMULA = re.compile(r"\\\(|\\\[|\$\$|\\[a-z]{3,}|\$[^\s$][^$\n]*\$")
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod|obj):")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it: a warning fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """What a browser finds on each page."""
    if chromium() is None:
        pytest.skip("there is no Chromium")
    found = visit(site, tmp_path_factory.mktemp("profile"), width=1400)
    return {report.page: report for report in found}


@pytest.mark.slow
def test_every_page_is_shown_without_an_error(pages: dict[str, Report]) -> None:
    assert len(pages) > 40
    for report in pages.values():
        assert not report.problems, report.page
        assert not report.broken, f"{report.page}: these pictures are not shown"
        assert not report.foreign, f"{report.page} asks for files that are not of the site"


@pytest.mark.slow
def test_formulas_are_set(pages: dict[str, Report]) -> None:
    assert pages["decoding/"].formulas > 20
    for report in pages.values():
        assert not report.unset, report.page
        assert FORMULA.search(report.prose) is None, report.page


@pytest.mark.slow
def test_code_and_tables_fit_into_the_page(pages: dict[str, Report]) -> None:
    for report in pages.values():
        assert not report.wide, f"{report.page}: these blocks of code or tables are too wide"
        assert report.overflow <= 0, report.page


@pytest.mark.slow
def test_the_reference_has_no_roles_and_no_private_names(pages: dict[str, Report]) -> None:
    for report in pages.values():
        assert ROLE.search(report.text) is None, report.page
        if report.page.startswith("reference/"):
            shown = re.findall(r"^(?:class|func|meth|attr) +(_\w+)", report.text, re.MULTILINE)
            private = [name for name in shown if not name.endswith("__")]
            assert not set(private) - {"_ConstrainedLogitsProcessor"}, report.page
            assert not re.findall(r"^ +_\w+: ", report.text, re.MULTILINE), report.page


@pytest.mark.slow
def test_the_home_page_shows_what_it_is_about(pages: dict[str, Report], site: Path) -> None:
    assert "images/hero.png" in (site / "index.html").read_text(encoding="utf-8")
    assert "json_schema" in pages["./"].text


@pytest.mark.slow
def test_tutorials_are_shown_with_their_outputs(site: Path) -> None:
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        html = (site / "tutorials" / notebook.stem / "index.html").read_text(encoding="utf-8")
        assert "<img" in html, f"{notebook.name} shows no picture"
        assert (site / "tutorials" / notebook.name).exists()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> griffe.Module:
    """A small package, as the extension leaves it."""
    folder = tmp_path_factory.mktemp("package") / "small"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        'from small.part import Shown, part\n__all__ = ["Shown", "part"]\n'
    )
    (folder / "part.py").write_text(
        '''"""A file with a function of its own name."""
import json
from dataclasses import dataclass

@dataclass
class Shown:
    """See :meth:`run`, :func:`~small.part.part`, :func:`json.loads` and :class:`Nowhere`.

    >>> Shown().run()
    [1, 2]

    The rest.
    """

    size: int
    _device: str = "cpu"

    def __post_init__(self):
        """Check."""

    def run(self):
        """Run."""

def part():
    """Do a part.

    Text.

        >>> part()
        3
    """

def helper():
    """Help."""
'''
    )
    extension = str(ROOT / "docs" / "_tools" / "docstrings.py") + ":Docstrings"
    extensions = griffe.load_extensions(extension)
    return griffe.load("small", search_paths=[folder.parent], extensions=extensions)


def test_roles_become_references(package: griffe.Module) -> None:
    said = package["part.Shown"].docstring.value
    paths = re.findall(r'<autoref identifier="([\w.]+)" optional><code>([\w.]+)</code>', said)
    assert paths == [
        ("small.part.Shown.run", "run"),
        ("small.part.part", "part"),
        ("json.loads", "json.loads"),
        ("Nowhere", "Nowhere"),
    ]


def test_doctests_become_blocks(package: griffe.Module) -> None:
    said = package["part.Shown"].docstring.value
    assert "\n```pycon\n>>> Shown().run()\n[1, 2]\n```\n\nThe rest." in said
    indented = package["part.part"].docstring.value
    assert "\n    ```pycon\n    >>> part()\n    3\n    ```" in indented


def test_only_what_is_exported_is_public(package: griffe.Module) -> None:
    assert package["part.Shown"].is_public
    assert package["part.part"].is_public
    assert not package["part.helper"].is_public
    assert not package["part.Shown.__post_init__"].is_public
    assert package["part.Shown.run"].is_public


def test_signatures_have_no_private_parameters(package: griffe.Module) -> None:
    assert [parameter.name for parameter in package["part.Shown"].parameters] == ["self", "size"]
