"""Files and folders that appear complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its place when the block ends well.

    Until then it has another name in the same folder, which is made if it is missing. Then it is on
    the disk before it is renamed, so that a crash leaves the old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder to fill, which takes its place when the block ends well.

    Raises:
        OSError: There is such a folder already, with files in it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        temporary.chmod(0o755)
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync_folder(folder.parent)


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file in pieces; see :func:`whole_file`."""
    with whole_file(path) as file:
        file.writelines(pieces)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8; see :func:`whole_file`."""
    write_whole(path, [text.encode()])


def remove_leftovers(path: Path) -> None:
    """Delete what interrupted writes of this file or folder left behind."""
    for left in path.parent.glob(f".{path.name}-*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        elif left.suffix == ".tmp":
            left.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make renamed files of a folder last, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)
