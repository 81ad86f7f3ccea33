"""The notebooks on the site: each becomes a page with its outputs, as they are committed.

Nothing is executed here: ``make notebooks`` does that.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

__all__ = ["on_config", "on_files", "page"]

FOLDER = "tutorials"
_LINK = re.compile(r"(?<=\]\()(\w+)\.ipynb(?=[)#])")


def _notebooks(config: MkDocsConfig) -> list[Path]:
    return sorted((Path(config.config_file_path).parent / "notebooks").glob("*.ipynb"))


def page(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook, and the files that it shows."""
    content = nbformat.read(notebook, as_version=4)
    content.metadata.language_info = {"name": "python"}
    files = f"{notebook.stem}_files"
    resources = {"unique_key": notebook.stem, "output_files_dir": files}
    text, found = MarkdownExporter().from_notebook_node(content, resources)
    for number, cell in enumerate(content.cells):
        for place, output in enumerate(cell.get("outputs", ())):
            # Pictures for fine screens have twice the pixels of their size.
            if width := output.get("metadata", {}).get("image/png", {}).get("width"):
                shown = f"({files}/{notebook.stem}_{number}_{place}.png)"
                text = text.replace(shown, f"{shown}{{ width={width} }}")
    title, _, rest = text.partition("\n")
    offer = f"*This page is a notebook: [download it]({notebook.name}) to run it.*"
    return "\n\n".join((title, offer, _LINK.sub(r"\1.md", rest))), dict(found["outputs"])


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Rebuild the site, while it is served, when a notebook changes."""
    config.watch += [str(path) for path in _notebooks(config)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page, its pictures and the notebook itself for each tutorial."""
    for path in _notebooks(config):
        text, shown = page(path)
        made: dict[str, str | bytes] = {
            f"{path.stem}.md": text,
            path.name: path.read_bytes(),
            **shown,
        }
        for name, content in made.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    return files
