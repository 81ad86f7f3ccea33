"""The wheel and the source distribution: what is in them, and that they work when installed.

``make dist`` does the same in a clean environment, with every requirement installed afresh.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

import pcgcd

ROOT = Path(pcgcd.__file__).parents[1]
DATA = "pcgcd/hmm/data/smollm2-135m-instruct"

pytestmark = pytest.mark.skipif(
    not (ROOT / "MANIFEST.in").is_file() or find_spec("build") is None,
    reason="needs the project's folder and the package build",
)


def run(*command: str, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both distributions, the wheel made from the sdist, built outside the project's folder."""
    source = tmp_path_factory.mktemp("source") / "pcgcd"
    leave = shutil.ignore_patterns(
        ".*", "__pycache__", "build", "dist", "site", "*.egg-info", "*_output"
    )
    shutil.copytree(ROOT, source, ignore=leave)
    run(sys.executable, "-m", "build", "--no-isolation", ".", cwd=source)
    return source / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def sdist_files(dist: Path) -> set[str]:
    (found,) = dist.glob("*.tar.gz")
    with tarfile.open(found) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def modules(folder: Path) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in folder.rglob("*.py")}


def test_the_wheel_has_the_package_and_its_data_and_nothing_else(wheel_files: set[str]) -> None:
    ours = {name for name in wheel_files if ".dist-info/" not in name}
    data = {f"{DATA}/config.json", f"{DATA}/model.safetensors"}
    assert ours == modules(ROOT / "pcgcd") | data | {"pcgcd/py.typed"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_files)


def test_the_sdist_has_what_is_needed_to_test_and_document(sdist_files: set[str]) -> None:
    named = "CHANGELOG.md CITATION.cff LICENSE Makefile README.md constraints.txt mkdocs.yml"
    assert sdist_files >= {*named.split(), "pyproject.toml", "setup.cfg", "docs/index.md"}
    assert sdist_files >= modules(ROOT / "pcgcd") | modules(ROOT / "tests")
    assert f"{DATA}/model.safetensors" in sdist_files
    assert not [name for name in sdist_files if "__pycache__" in name or name.endswith(".pyc")]


def test_the_metadata_has_the_version_and_every_extra(metadata: Message) -> None:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    assert metadata["Version"] == pcgcd.__version__
    assert metadata["Name"] == "pcgcd"
    assert set(metadata.get_all("Provides-Extra") or ()) == set(settings["options.extras_require"])
    assert "## One answer, valid and typed" in str(metadata.get_payload())


def test_the_citation_names_the_version_and_the_paper() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["version"] == pcgcd.__version__
    (paper,) = citation["references"]
    assert paper["title"] in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"type", "title", "authors"} <= set(paper)


def test_the_wheel_works_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, "--target", str(target), str(wheel), cwd=tmp_path)
    script = str(ROOT / "tests" / "smoke.py")
    said = run(sys.executable, script, str(target), cwd=tmp_path, PYTHONPATH=str(target))
    assert "the default HMM is there" in said
