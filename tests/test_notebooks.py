"""The form of the tutorials; that they run is checked by running them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.>/])/(?:home|work|tmp|root|Users|mnt|opt|var|data)/|[A-Z]:\\\\")
RANDOM_ID = re.compile(r"[0-9a-f]{8}")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    notebook: Path = request.param
    return notebook


@pytest.fixture
def notebook(path: Path) -> Any:
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


def test_notebooks_are_valid(notebook: Any) -> None:
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)


def test_notebooks_have_no_outputs(notebook: Any) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs, f"cell {cell.id} has outputs: strip them"
            assert cell.execution_count is None, f"cell {cell.id} has an execution count"


def test_metadata_is_the_kernel_only(notebook: Any) -> None:
    assert set(notebook.metadata) == {"kernelspec"}
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in notebook.cells:
        assert not cell.metadata, f"cell {cell.id} has metadata"


def test_cell_ids_are_unique_and_readable(notebook: Any) -> None:
    ids = Counter(cell.get("id") for cell in notebook.cells)
    assert None not in ids, "some cell has no id"
    assert max(ids.values()) == 1, f"ids that occur twice: {[i for i in ids if ids[i] > 1]}"
    assert not [i for i in ids if RANDOM_ID.fullmatch(i)], "ids are words, not random numbers"


def test_notebooks_start_with_one_title(notebook: Any) -> None:
    first = notebook.cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    titles = [line for text in prose for line in text.splitlines() if line.startswith("# ")]
    assert len(titles) == 1, f"one title is enough: {titles}"


def test_notebooks_are_listed_in_the_readme(path: Path) -> None:
    assert f"]({path.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_notebooks_name_no_machine_path(notebook: Any) -> None:
    for cell in notebook.cells:
        found = MACHINE_PATH.search(cell.source)
        assert found is None, f"cell {cell.id} names a path of some machine: {found}"


def test_notebooks_check_what_they_say(notebook: Any) -> None:
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert re.search(r"^\s*assert ", code, flags=re.MULTILINE)


def test_links_between_notebooks_lead_somewhere(notebook: Any) -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#:]+\.ipynb)\)", cell.source):
                assert f"]({target})" in readme, f"cell {cell.id} links to {target}"
