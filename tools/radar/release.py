"""The files of a torch release: in a folder, an environment or a wheel."""

from __future__ import annotations

import ast
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NoTorchError", "opened", "version"]

#: The files read from a wheel.
_READ = (".py", ".pyi", ".h", ".so")


class NoTorchError(Exception):
    """There is no torch at a path; the message says what was looked for."""


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield the folder of the package ``torch``; a wheel is unpacked to a temporary folder.

    Args:
        path: A wheel, an environment, or a folder that contains ``torch`` or is it.

    Raises:
        NoTorchError: There is no torch at the path.
    """
    if path.suffix == ".whl" and path.is_file():
        with tempfile.TemporaryDirectory(prefix="radar-") as folder, zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if name.startswith("torch/")]
            wheel.extractall(folder, [name for name in names if name.endswith(_READ)])
            yield _package(Path(folder))
    else:
        yield _package(path)


def version(torch: Path) -> str:
    """Return the version that a package states, or the name of its parent folder."""
    try:
        tree = ast.parse((torch / "version.py").read_text(encoding="utf-8"))
    except OSError:
        return torch.parent.name
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=found)):
                return str(found)
    return torch.parent.name


def _package(path: Path) -> Path:
    folders = [path, path / "torch", *sorted(path.glob("lib/python*/site-packages/torch"))]
    for folder in (*folders, path / "Lib" / "site-packages" / "torch"):
        if folder.name == "torch" and (folder / "__init__.py").is_file():
            return folder
    raise NoTorchError(
        f"{path} holds no torch: give a folder with torch in it (site-packages, an unpacked "
        "wheel), an environment, or a .whl file"
    )
