"""Identity of passes, for keys of caches: what they are called, and the code behind them.

A cache must not return what an older version of a pass made. A pass may call anything of its
package, so its identity is a digest of all of the package's files. If these have changed since they
were first looked at, the loaded code is that of no file, and there is no identity.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.passes.textual import FunctionPass, parse_pass, place_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

#: Files above this size, such as libraries, count by size and time, not by contents.
_LARGE: Final = 1 << 20

_Facts = tuple[tuple[str, int, int], ...]

_lock: Final = threading.Lock()
_seen: Final[dict[Path, tuple[_Facts, str]]] = {}


def identity_of(passes: Iterable[str]) -> str | None:
    """Return the identity of passes in textual form, or None if they have none.

    There is none if the code of one is in no file, or its files have changed since it was loaded.

    Raises:
        PassSpellingError, PassLoadError, OptionError, OptionValueError: A text names no pass.
    """
    parts = []
    for text in passes:
        parts.append(text)
        if place := place_of(text):
            found = parse_pass(text)
            code = found.function if isinstance(found, FunctionPass) else type(found)
            # The name may lead to code of another package.
            homes = {place.partition(":")[0], code.__module__ or place.partition(":")[0]}
            digests = [code_digest(home) for home in sorted(homes)]
            if None in digests:
                return None
            parts += [digest for digest in digests if digest is not None]
    return repr(parts)


def code_digest(module: str) -> str | None:
    """Return a digest of the files of the outermost package that a module is in.

    It is None if there are no files, or they have changed since this was first asked.
    """
    loaded = sys.modules.get(module) or import_module(module)
    spec = getattr(loaded, "__spec__", None)  # which names what `python -m` runs, too
    home = _home(spec.name if spec else module, getattr(loaded, "__file__", None))
    if home is None:
        return None
    facts = tuple((str(file), stat.st_mtime_ns, stat.st_size) for file, stat in _stats(home))
    if not facts:
        return None
    with _lock:
        if home not in _seen:
            _seen[home] = (facts, _digest(home, facts))
        before, digest = _seen[home]
    return digest if before == facts else None


def _home(module: str, file: str | None) -> Path | None:
    """Return the folder of the outermost package that a module is in, or the file of one in none.

    It follows from names, since a namespace package may have folders that are not the module's. It
    is None if the file is not where the name says.
    """
    if file is None:
        return None
    path, depth = Path(file), module.count(".")
    if path.name.startswith("__init__."):
        path = path.parent
    if not depth:
        return path
    home = path.parents[depth - 1] if depth <= len(path.parents) else path
    return home if home.name == module.partition(".")[0] else None


def _stats(home: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of a folder, or a file itself, in order, but no bytecode."""
    for file in sorted(home.rglob("*")) if home.is_dir() else [home]:
        try:
            if "__pycache__" not in file.parts and file.is_file():
                yield file, file.stat()
        except OSError:  # it has gone since it was listed
            continue


def _digest(home: Path, facts: _Facts) -> str:
    """Return a digest of files that does not depend on where they are."""
    digest = hashlib.sha256()
    for name, time, size in facts:
        place = str(Path(name).relative_to(home))
        digest.update(repr((place, size, time if size > _LARGE else 0)).encode())
        if size <= _LARGE:
            digest.update(Path(name).read_bytes())
    return digest.hexdigest()
