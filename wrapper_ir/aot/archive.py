"""The ``.pt2`` archive, written and read: what torch's loaders look for, and what can be mapped.

It is a zip file whose members are stored as they are, under one root folder. Torch's loaders unpack
what is in ``data/aotinductor/<model>`` and in ``data/constants``, open the ``.so`` there, and read
the JSON file that is named like the ``.cpp`` beside it. Members are copied from file to file, so
that the size of constants does not matter; dates are fixed, and equal input gives equal bytes.

Constants begin at a page of the file. So our own loader unpacks nothing: it maps the archive into
memory, and its pages are the weights, once for all who have them mapped.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import sys
import threading
import weakref
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import why

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

MODEL_NAME: Final = "model"
"""The name by which loaders ask for the one model of a package, unless told otherwise."""

MODELS: Final = "data/aotinductor"
"""The folder of the models, each a folder of its own, that torch's loaders know of."""

VARIANTS: Final = "data/wrapper_ir"
"""The folder of further variants of them, that only our loader knows of."""

CONSTANTS: Final = "data/constants"
"""The folder of constants that several models share; loaders put them beside each library."""

#: The folder that everything lies in; loaders take whatever they find. Not the file's name, which
#: would make the bytes depend on it.
_ROOT: Final = "package"

#: Version of the archive's layout, and of the container's format below it.
_ARCHIVE_VERSION: Final = "0"
_CONTAINER_VERSION: Final = "6\n"

#: From here on the sizes of a member take 64 bits, in a field of so many bytes.
_LARGE: Final = 1 << 30
_LARGE_FIELD: Final = 20

#: The fixed part of what stands before a member's bytes; its last numbers are lengths of the rest.
_HEADER: Final = struct.Struct("<26xHH")

#: A field of a header that fills it up, as tools that align archives write it.
_FILLING: Final = struct.Struct("<HH")
_FILLING_ID: Final = 0xD935


class PackageError(WrapperIRError):
    """A package cannot be read, or does not hold what is asked of it.

    Fields: ``file`` is its path, ``problem`` says what is wrong.
    """

    code = "WIR2276"
    template = "package {file!r}: {problem}"


def write_archive(file: Path, members: Mapping[str, Path], *, mapped: Iterable[str] = ()) -> None:
    """Writes an archive.

    Args:
        file: The file to make.
        members: Where each member's bytes are, by its path below the root.
        mapped: The members that begin at a page.
    """
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
    info.create_system = 3  # Unix, whatever this is
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
    """An archive that is mapped into memory. Who writes to a member's bytes has pages of his own.

    Attributes:
        file: Where it was found.
        members: The paths of its members, below the root.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        try:
            with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
                self._memory = mmap.mmap(
                    opened.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE
                )
                found = archive.infolist()
        except OSError as error:
            raise PackageError(file=str(file), problem=why(error)) from error
        except (zipfile.BadZipFile, ValueError) as error:
            raise PackageError(file=str(file), problem="it is no .pt2 package") from error
        self._infos = {info.filename.partition("/")[2]: info for info in found}

    @property
    def members(self) -> tuple[str, ...]:
        """The paths of its members, below the root."""
        return tuple(self._infos)

    def below(self, folder: str) -> Iterator[str]:
        """Yield the names of the folders in a folder, each once."""
        inside = (path[len(folder) + 1 :] for path in self._infos if path.startswith(f"{folder}/"))
        yield from dict.fromkeys(rest.partition("/")[0] for rest in inside if "/" in rest)

    def bytes_of(self, path: str) -> memoryview:
        """Return a member's bytes, where they lie in the mapped file.

        Raises:
            PackageError: There is no such member, or it is compressed or cut off.
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
            self.refuse(f"{path} is cut off")
        return view[start : start + info.file_size]

    def refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        """Raise for what is wrong with it."""
        raise PackageError(file=str(self.file), problem=problem, hint=hint)


_guard = threading.Lock()
_opened: weakref.WeakValueDictionary[tuple[int, ...], Archive] = weakref.WeakValueDictionary()


def opened(file: str | os.PathLike[str]) -> Archive:
    """Map an archive, once in a process as long as it is in use and the same file.

    Raises:
        PackageError: It cannot be read, or is none.
    """
    path = Path(file)
    try:
        about = path.stat()
    except OSError as error:
        raise PackageError(file=str(path), problem=why(error)) from error
    key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    with _guard:
        found = _opened.get(key)
        if found is None:
            found = _opened[key] = Archive(path)
        return found
