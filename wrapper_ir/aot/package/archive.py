"""The ``.pt2`` archive format: written for torch's loaders, and mapped into memory by ours.

The index of each model in it, its inputs and results, its requirements and its files, lies beside
the library as ``wrapper_ir.json``. Our loader uses it, ``wrapper-ir inspect`` shows it, and its
hashes detect files that have changed. Torch's loaders ignore it.

An archive is a zip file with uncompressed members under one root folder. Torch's loaders unpack
``data/aotinductor/<model>`` and ``data/constants``, open the ``.so`` there, and read the JSON file
named like the ``.cpp`` beside it. Members are copied from file to file, so constants of any size
will do; dates are fixed, so equal input gives equal bytes.

Constants are aligned to pages of the file. Our own loader therefore unpacks nothing: it maps the
archive into memory, and processes that map the same file share its pages.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import shutil
import struct
import sys
import threading
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import INDEX, why

if TYPE_CHECKING:
    import os

MODEL_NAME: Final = "model"
"""The model's name in a package of one model, which loaders use by default."""

MODELS: Final = "data/aotinductor"
"""The folder with a folder for each model, which torch's loaders read."""

VARIANTS: Final = "data/wrapper_ir"
"""The folder with further variants of models, which only our loader reads."""

CONSTANTS: Final = "data/constants"
"""The folder of constants that models share; loaders put them beside each library."""

#: The root folder, of which loaders accept any name. It is not the file's name, on which the bytes
#: would depend then.
_ROOT: Final = "package"

#: Versions of the archive's layout, and of the underlying container format.
_ARCHIVE_VERSION: Final = "0"
_CONTAINER_VERSION: Final = "6\n"

#: Members above this size store their sizes in 64 bits, in an extra field of this many bytes.
_LARGE: Final = 1 << 30
_LARGE_FIELD: Final = 20

#: The fixed part of a member's header. Its last two numbers are the lengths of the variable part.
_HEADER: Final = struct.Struct("<26xHH")

#: The start of a padding field in a header, as written by tools that align archives.
_FILLING: Final = struct.Struct("<HH")
_FILLING_ID: Final = 0xD935


class PackageError(WrapperIRError):
    """A package cannot be read, or lacks what was requested.

    Fields: ``file`` is its path, ``problem`` says what is wrong.
    """

    code = "WIR2276"
    template = "package {file!r}: {problem}"


def write_archive(file: Path, members: Mapping[str, Path], *, mapped: Iterable[str] = ()) -> None:
    """Write an archive of files by their paths below the root; ``mapped`` ones begin at a page."""
    aligned = frozenset(mapped)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for path, source in members.items():
            _add_file(archive, path, source, aligned=path in aligned)
        _add_text(archive, "archive_format", "pt2")
        _add_text(archive, "archive_version", _ARCHIVE_VERSION)
        _add_text(archive, "byteorder", sys.byteorder)
        _add_text(archive, ".data/version", _CONTAINER_VERSION)


def _member(path: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(f"{_ROOT}/{path}", date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    info.create_system = 3  # Unix, on every platform
    return info


def _add_text(archive: zipfile.ZipFile, path: str, text: str) -> None:
    archive.writestr(_member(path), text.encode())


def _add_file(archive: zipfile.ZipFile, path: str, file: Path, *, aligned: bool) -> None:
    info = _member(path)
    info.file_size = file.stat().st_size
    is_large = info.file_size > _LARGE
    if aligned:
        assert archive.fp is not None
        begin = archive.fp.tell() + _HEADER.size + len(info.filename.encode()) + _FILLING.size
        filling = -(begin + is_large * _LARGE_FIELD) % mmap.PAGESIZE
        info.extra = _FILLING.pack(_FILLING_ID, filling) + bytes(filling)
    with file.open("rb") as source, archive.open(info, "w", force_zip64=is_large) as out:
        shutil.copyfileobj(source, out, 1 << 20)


class Archive:
    """An archive mapped into memory, copy-on-write."""

    def __init__(self, file: Path) -> None:
        self.file = file
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        try:
            with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
                self._memory = mmap.mmap(
                    opened.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE
                )
                infos = archive.infolist()
        except OSError as error:
            raise PackageError(file=str(file), problem=why(error)) from error
        except (zipfile.BadZipFile, ValueError) as error:
            raise PackageError(file=str(file), problem="it is not a .pt2 package") from error
        self._infos = {info.filename.partition("/")[2]: info for info in infos}

    @property
    def members(self) -> tuple[str, ...]:
        """The paths of its members, below the root."""
        return tuple(self._infos)

    def below(self, folder: str) -> Iterator[str]:
        """Yield the names of the folders in a folder, each once."""
        inside = (path[len(folder) + 1 :] for path in self._infos if path.startswith(f"{folder}/"))
        yield from dict.fromkeys(rest.partition("/")[0] for rest in inside if "/" in rest)

    def bytes_of(self, path: str) -> memoryview:
        """Return a view of a member's bytes in the mapped file.

        Raises:
            PackageError: There is no such member, or it is compressed or truncated.
        """
        info = self._infos.get(path)
        if info is None:
            self.refuse(f"it has no {path}")
        if info.compress_type != zipfile.ZIP_STORED:
            self.refuse(f"{path} is compressed, and cannot be mapped")
        start = info.header_offset + _HEADER.size
        view = memoryview(self._memory)
        if start <= len(view):
            start += sum(_HEADER.unpack_from(view, info.header_offset))
        if start + info.file_size > len(view):
            self.refuse(f"{path} is truncated")
        return view[start : start + info.file_size]

    def refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        """Raise PackageError for a problem with the archive."""
        raise PackageError(file=str(self.file), problem=problem, hint=hint)


_guard = threading.Lock()
_opened: weakref.WeakValueDictionary[tuple[int, ...], Archive] = weakref.WeakValueDictionary()


def opened(file: str | os.PathLike[str]) -> Archive:
    """Map an archive, once per process while it is in use and the file does not change.

    Raises:
        PackageError: It cannot be read, or is not an archive.
    """
    path = Path(file)
    try:
        status = path.stat()
    except OSError as error:
        raise PackageError(file=str(path), problem=why(error)) from error
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    with _guard:
        archive = _opened.get(key)
        if archive is None:
            archive = _opened[key] = Archive(path)
        return archive


#: Version of the index; readers reject any other.
FORMAT: Final = 1


def torch_version() -> str:
    """Return the installed release of PyTorch, such as ``2.15.0``, without importing it."""
    return version("torch").partition("+")[0]


def row_of(file: Path) -> dict[str, Any]:
    """Return a file's entry in an index: its size and its hash."""
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


# Reading the index.


@dataclass(frozen=True)
class Model:
    """A model of a package, or a variant of one, with its index."""

    archive: Archive
    folder: str  #: the model's folder in the package
    about: Mapping[str, Any]  #: its index

    @property
    def library(self) -> str:
        """The path of the library in the archive."""
        return f"{self.folder}/{self.about['library']}"

    @property
    def weights(self) -> str | None:
        """The path of the constants; None if they are in the library, or given by callers."""
        row = self.about["weights"]
        if row is None or row["file"] is None:
            return None
        own = f"{self.folder}/{row['file']}"
        return own if own in self.archive.members else f"{CONSTANTS}/{row['file']}"

    @property
    def takes_weights(self) -> bool:
        """True if the package has no weights, so that callers must pass them."""
        return self.about["weights"] is not None and self.about["weights"]["file"] is None

    @property
    def weights_are_mapped(self) -> bool:
        """True if constants are used in place; objects, in contrast, are read from a file."""
        return self.weights is not None and not self.about["objects"]

    def damages(self) -> Iterator[str]:
        """Read every byte, and yield the files that are missing or do not match their hash."""
        parts = {f"{self.folder}/{name}": row for name, row in self.about["files"].items()}
        if self.weights is not None:
            parts[self.weights] = self.about["weights"]
        for path, row in parts.items():
            if path not in self.archive.members:
                yield f"{path} is missing"
                continue
            content = self.archive.bytes_of(path)[: row["bytes"]]
            if hashlib.sha256(content).hexdigest() != row["sha256"]:
                yield f"{path} is not as it was written: its hash differs"


def models_of(archive: Archive) -> dict[str, list[Model]]:
    """Return the models of a package by name, each with its variants, the preferred one first.

    Raises:
        PackageError: A model was made by another tool, or by another version of wrapper_ir.
    """
    models = {}
    for name in archive.below(MODELS):
        folders = [f"{MODELS}/{name}"]
        folders += [f"{VARIANTS}/{name}/{each}" for each in archive.below(f"{VARIANTS}/{name}")]
        models[name] = [_model(archive, folder) for folder in folders]
    if not models:
        archive.refuse("it contains no model")
    return models


def _model(archive: Archive, folder: str) -> Model:
    path = f"{folder}/{INDEX}"
    if path not in archive.members:
        problem = f"its model in {folder} was not made by wrapper_ir"
        hint = "torch._inductor.aoti_load_package loads the packages of AOTInductor"
        archive.refuse(problem, hint)
    try:
        about = json.loads(bytes(archive.bytes_of(path)))
        version_found = about["format"]
        if version_found == FORMAT:
            _ = about["needs"]["device"], about["library"], about["weights"], about["files"]
    except (ValueError, TypeError, KeyError):
        archive.refuse(f"{path} is damaged")
    if version_found != FORMAT:
        problem = f"{path} has format {version_found}, and this wrapper_ir reads {FORMAT}"
        hint = "load it with the version of wrapper_ir that made it, or export it again"
        archive.refuse(problem, hint)
    return Model(archive, folder, about)


def chosen(archive: Archive, name: str | None) -> list[Model]:
    """Return the variants of a model; by default of the only one, or of ``model``.

    Raises:
        PackageError: There is no such model.
    """
    models = models_of(archive)
    if name is None:
        name = next(iter(models)) if len(models) == 1 else MODEL_NAME
    if name not in models:
        archive.refuse(f"it has no model {name!r}", f"it has {', '.join(map(repr, models))}")
    return models[name]
