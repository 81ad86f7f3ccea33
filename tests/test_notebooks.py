"""The form of the tutorials; that they run is checked by running them."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.>/])/(?:home|work|tmp|root|Users|mnt|opt|var|data)/|[A-Z]:\\\\")
LARGEST = 350_000  # bytes
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


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """What executes the notebooks."""
    place = FOLDER.parent / "docs" / "_tools" / "execute.py"
    spec = importlib.util.spec_from_file_location("execute", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_outputs_are_those_of_the_code(notebook: Any, tool: ModuleType) -> None:
    assert notebook.metadata.pcgcd.code == tool.fingerprint(notebook), "run make notebooks"
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", ()) for output in outputs)


def test_outputs_are_clean(notebook: Any) -> None:
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", f"cell {cell.id} raised"
            assert output.get("name") != "stderr", f"cell {cell.id} has messages"
            said = output.get("text", "") + output.get("data", {}).get("text/plain", "")
            assert MACHINE_PATH.search(said) is None, f"cell {cell.id} prints a path"
            assert " at 0x" not in said, f"cell {cell.id} prints an address"
        assert cell.get("execution_count") is None


def test_notebooks_are_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST


def test_what_changes_from_run_to_run_is_removed(tool: ModuleType) -> None:
    new = nbformat.v4
    cell = new.new_code_cell(
        "print(1)",
        execution_count=7,
        metadata={"execution": {"started": "now"}},
        outputs=[
            new.new_output("stream", name="stderr", text="a warning"),
            new.new_output("stream", name="stdout", text="<object at 0x7f00aa>\n"),
            new.new_output("stream", name="stderr", text="another"),
            new.new_output("stream", name="stdout", text="more\n"),
            new.new_output(
                "execute_result",
                {"text/plain": "plain", "text/html": "<b>html</b>"},
                execution_count=7,
            ),
        ],
    )
    kernel = {"name": "python3", "display_name": "Python 3"}
    notebook = new.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    notebook.metadata.language_info = {"name": "python"}
    [kept] = tool.cleaned(notebook).cells
    assert (kept.execution_count, kept.metadata) == (None, {})
    assert [output.get("text", output.get("data")) for output in kept.outputs] == [
        "<object>\nmore\n",
        {"text/html": "<b>html</b>"},
    ]
    assert set(notebook.metadata) == {"kernelspec", "pcgcd"}


def test_metadata_is_the_kernel_and_a_fingerprint(notebook: Any) -> None:
    assert set(notebook.metadata) == {"kernelspec", "pcgcd"}
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
