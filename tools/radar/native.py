"""Facts read from C and C++: declarations in headers, symbols and strings in libraries."""

from __future__ import annotations

import mmap
import re
import subprocess
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Native", "declared", "includes", "plain", "words"]

#: The places where torch declares C functions for others to call.
_SHIMS = ("inductor/aoti_torch", "stable", "shim", "inductor/aoti_runtime/interface.h")

_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)
_FUNCTION = re.compile(r"([\w:<>*&\s]+?)\b(\w+)\s*\(([^()]*)\)\s*(?:noexcept\s*)?[;{]")
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOADED = re.compile(rb"\0(AOTInductor\w+)(?=\0)")


def plain(text: str) -> str:
    """Return C++ text without comments."""
    return _NOISE.sub(lambda match: match[1] or " ", text)


def declared(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the C functions that a header declares: name, parameters, line."""
    bare = _NOISE.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    bare = _DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), bare)
    for match in _FUNCTION.finditer(bare):
        params = " ".join(match[3].replace("*", " * ").split()).replace(" *", "*")
        if "AOTI" in match[1]:  # macros that mark exported C functions and their results
            yield match[2], params, bare.count("\n", 0, match.start(2)) + 1


def includes(text: str) -> list[str]:
    """Return the headers that a text includes in angle brackets."""
    return _INCLUDE.findall(text)


def words(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a text outside comments, with their lines."""
    bare = _NOISE.sub(lambda match: match[1] or "\n" * match[0].count("\n"), text)
    for number, line in enumerate(bare.splitlines(), 1):
        for match in _WORD.finditer(line):
            yield match[0], number


class Native:
    """The headers and libraries of a release.

    Args:
        torch: The folder of the torch package.
    """

    def __init__(self, torch: Path) -> None:
        self.include = torch / "include"
        self._torch = torch

    @cached_property
    def functions(self) -> dict[str, tuple[str, str]]:
        """C functions by name: the place of their declaration, and their parameters."""
        found = {}
        for path in self._shims():
            file = path.relative_to(self._torch.parent).as_posix()
            for name, params, line in declared(path.read_text(encoding="utf-8")):
                found.setdefault(name, (f"{file}:{line}", params))
        return found

    def _shims(self) -> Iterator[Path]:
        for part in _SHIMS:
            path = self.include / "torch" / "csrc" / part
            yield from sorted(path.rglob("*.h")) if path.is_dir() else filter(_is_file, [path])

    @cached_property
    def libraries(self) -> dict[str, Path]:
        """The release's shared libraries, by name."""
        return {path.name: path for path in sorted((self._torch / "lib").glob("*.so"))}

    @cached_property
    def symbols(self) -> dict[str, str]:
        """Exported symbols, with the library of each.

        Raises:
            FileNotFoundError: ``nm``, which comes with every compiler, is missing.
        """
        found = {}
        for name, path in self.libraries.items():
            command = ["nm", "-D", "--defined-only", "--format=posix", str(path)]
            listing = subprocess.run(command, capture_output=True, text=True, check=False)
            for line in listing.stdout.splitlines():
                found.setdefault(line.partition(" ")[0].partition("@")[0], name)
        return found

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """The functions that the loader of exported models looks up in their libraries."""
        return frozenset(m[1].decode() for m in self._matches("libtorch_cpu.so", _LOADED))

    def binds(self, name: str) -> bool:
        """Check whether the library for Python contains a name, as it does for those it defines."""
        pattern = re.compile(rb"\0" + name.encode() + rb"\0")
        return any(True for _ in self._matches("libtorch_python.so", pattern))

    def _matches(self, library: str, pattern: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
        path = self.libraries.get(library)
        if path is not None and path.stat().st_size:
            with path.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                yield from pattern.finditer(content)

    def vocabulary(self, headers: Iterable[str]) -> frozenset[str]:
        """Return all words in headers and in what they include."""
        pending, seen = deque(headers), set[str]()
        found: set[str] = set()
        while pending:
            name = pending.popleft()
            path = self.include / name
            if name in seen or not path.is_file():
                continue
            seen.add(name)
            text = plain(path.read_text(encoding="utf-8", errors="replace"))
            found.update(_WORD.findall(_INCLUDE.sub("", text)))
            pending += includes(text)
        return frozenset(found)


def _is_file(path: Path) -> bool:
    return path.is_file()
