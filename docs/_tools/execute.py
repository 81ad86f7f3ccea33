"""Execute the notebooks and keep their outputs: ``make notebooks``.

    python docs/_tools/execute.py                      all of them
    python docs/_tools/execute.py notebooks/04_smc.ipynb

What is kept is what a reader needs, and what the next run gives again: no times, no messages on the
error stream, no addresses in memory, small pictures. A notebook that raises is left as it
was.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

__all__ = ["cleaned", "execute", "fingerprint"]

FOLDER = Path(__file__).parents[2] / "notebooks"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_COLOURS, _PIXELS = 32, 1.2
# Of the forms of one output, a page shows the first that is there.
_SHOWN = ("image/svg+xml", "image/png", "text/html", "text/markdown", "text/latex", "text/plain")


def fingerprint(notebook: Any) -> str:
    """A digest of the code, by which a test notices outputs that are not of this code."""
    code = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def _smaller(png: str, width: int | None) -> str:
    """A picture with few colours, and with few more pixels than the width at which it is shown."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    if width is not None and picture.width > (limit := int(_PIXELS * width)):
        size = (limit, round(picture.height * limit / picture.width))
        picture = picture.resize(size, Image.Resampling.BILINEAR)
    content = io.BytesIO()
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def _cleaned_output(output: Any) -> Any:
    output.pop("execution_count", None)
    if output.output_type == "stream":
        output.text = _ADDRESS.sub("", output.text)
        return output
    # A picture's text is the name of its class: of no use to a reader.
    kept = next(form for form in _SHOWN if form in output.data)
    output.metadata = {form: size for form, size in output.metadata.items() if form == kept}
    content = output.data[kept]
    if kept == "image/png":
        content = _smaller(content, output.metadata.get(kept, {}).get("width"))
    output.data = {kept: content if kept == "image/png" else _ADDRESS.sub("", content)}
    if output.output_type == "execute_result":
        output.execution_count = None
    return output


def _joined(outputs: list[Any]) -> list[Any]:
    """Join texts that follow each other: where they were cut is a matter of time."""
    kept: list[Any] = []
    for output in outputs:
        if kept and output.output_type == kept[-1].output_type == "stream":
            kept[-1].text += output.text
        else:
            kept.append(output)
    return kept


def cleaned(notebook: Any) -> Any:
    """An executed notebook, without what differs from run to run."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata, cell.execution_count = {}, None
            outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = _joined([_cleaned_output(output) for output in outputs])
    notebook.metadata = {
        "kernelspec": notebook.metadata.kernelspec,
        "pcgcd": {"code": fingerprint(notebook)},
    }
    return notebook


def execute(path: Path) -> None:
    """Execute a notebook, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    NotebookClient(notebook, timeout=1800, kernel_name="python3", resources={}).execute()
    nbformat.write(cleaned(notebook), path)


if __name__ == "__main__":
    for argument in sys.argv[1:] or sorted(FOLDER.glob("*.ipynb")):
        execute(Path(argument))
        print(f"executed: {argument} ({Path(argument).stat().st_size / 1000:.0f} kB)")
