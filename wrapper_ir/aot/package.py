"""The ``.pt2`` archive: what torch's own loaders look for, and nothing that changes by itself.

It is a zip file whose members are stored as they are, under one root folder. Loaders unpack what is
in ``data/aotinductor/<model>``, open the ``.so`` there, and read the JSON file that is named like
the ``.cpp`` beside it. Members are copied from file to file, so that the size of constants does not
matter; dates are fixed, and equal input gives equal bytes.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from wrapper_ir.aot.processors import NATIVE
from wrapper_ir.errors import OptionValueError
from wrapper_ir.toolchain import isa as isas

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.aot.build import Library
    from wrapper_ir.emitters.cpp.artifact import CppArtifact, Manifest


MODEL_NAME: Final = "model"
"""The name by which loaders ask for the one model of a package, unless told otherwise."""

#: The folder that everything lies in; loaders take whatever they find. Not the file's name, which
#: would make the bytes depend on it.
_ROOT: Final = "package"

#: Version of the archive's layout, and of the container's format below it.
_ARCHIVE_VERSION: Final = "0"
_CONTAINER_VERSION: Final = "6\n"

_OWN_KEYS: Final = "AOTI_"


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Checks what a user wants a package to say of itself.

    Raises:
        OptionValueError: It is no mapping from text to text, or says what is ours to say.
    """
    given: object = metadata
    if not isinstance(given, Mapping):
        raise OptionValueError(option="metadata", value=given, expected="a dict of text")
    pairs: list[tuple[object, object]] = list(metadata.items())
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, str) or key.startswith(_OWN_KEYS):
            expected = f"text for names that do not begin with {_OWN_KEYS!r}"
            raise OptionValueError(option="metadata", value={key: value}, expected=expected)


def write_package(
    file: Path, artifact: CppArtifact, library: Library, isa: str, metadata: Mapping[str, str]
) -> None:
    """Writes a package.

    Args:
        file: The file to make.
        artifact: The program; its text goes into the package, for readers.
        library: What was built of it.
        isa: What it was built for.
        metadata: What the package is to say of itself besides.
    """
    folder = f"{_ROOT}/data/aotinductor/{MODEL_NAME}"
    about = json.dumps({**_about(artifact.manifest, library, isa), **metadata}, indent=1)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        # Loaders find the metadata by the name of the one .cpp file.
        _add_text(archive, f"{folder}/{MODEL_NAME}.wrapper.cpp", artifact.source)
        _add_text(archive, f"{folder}/{MODEL_NAME}.wrapper_metadata.json", about)
        _add_file(archive, f"{folder}/{MODEL_NAME}.wrapper.so", library.file)
        if library.constants_file is not None:
            _add_file(archive, f"{folder}/{library.constants_file.name}", library.constants_file)
        _add_text(archive, f"{_ROOT}/archive_format", "pt2")
        _add_text(archive, f"{_ROOT}/archive_version", _ARCHIVE_VERSION)
        _add_text(archive, f"{_ROOT}/byteorder", sys.byteorder)
        _add_text(archive, f"{_ROOT}/.data/version", _CONTAINER_VERSION)


def _about(manifest: Manifest, library: Library, isa: str) -> dict[str, str]:
    about = {
        "AOTI_DEVICE_KEY": manifest.device.type,
        "AOTI_PLATFORM": sys.platform,
        "AOTI_MACHINE": platform.machine(),
        "WRAPPER_IR_ISA": isa,
        "WRAPPER_IR_CPU_FEATURES": " ".join(library.features),
    }
    if isa == NATIVE:
        # Loaders warn where this differs from what is best there; for a level that says nothing.
        about["AOTI_CPU_ISA"] = isas.detect().name.upper()
    return about


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    info.create_system = 3  # Unix, whatever this is
    return info


def _add_text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(_member(name), text.encode())


def _add_file(archive: zipfile.ZipFile, name: str, file: Path) -> None:
    info = _member(name)
    info.file_size = file.stat().st_size
    with file.open("rb") as source, archive.open(info, "w") as out:
        shutil.copyfileobj(source, out, 1 << 20)
