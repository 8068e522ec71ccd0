"""Our sources' uses of torch, in Python and C++, and the words they contain."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tools.radar.modules import Package
from tools.radar.native import includes, plain, words
from tools.radar.texts import normalised
from tools.radar.uses import Use

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Sources"]

_QUALIFIED = re.compile(r"\b(?:at|c10|torch)((?:::\w+)+)")
_PASTED = re.compile(r"\b(\w+_)##")


@dataclass(slots=True)
class Sources:
    """Our package, with the facts from its C++.

    Attributes:
        package: Its modules.
        headers: The torch headers that it includes.
        mentions: The places of words and texts.
        prefixes: Beginnings of names that macros complete.
        private: The folders of modules that use Inductor's internals.
    """

    package: Package
    headers: list[str] = field(default_factory=list)
    native: list[Use] = field(default_factory=list)
    mentions: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    prefixes: dict[str, str] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)

    def forms(self, kind: str, name: str) -> tuple[str, ...]:
        """Return the places where we may have a form for something new."""
        wheres = sorted(set(self.mentions.get(name, ())))
        if kind == "loader symbol":
            return tuple(where for where in wheres if ".py:" not in where)
        near = tuple(f"{folder}/" for folder in self.private)
        return tuple(where for where in wheres if where.startswith(near))

    @classmethod
    def read(cls, folder: Path) -> Sources:
        """Read the package in a folder."""
        found = cls(Package(folder))
        for module in found.package.modules():
            if any(d.target[:2] == ("torch", "_inductor") for d in module.members.values()):
                found.private.add(module.file.rpartition("/")[0])
            for text, line in _texts(module.tree):
                found._note(text, f"{module.file}:{line}")
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".h", ".cpp", ".cc", ".cu"):
                found._read_native(path.read_text(encoding="utf-8"), path, folder.parent)
        return found

    def _note(self, text: str, where: str) -> None:
        self.mentions[text].append(where)
        if text.isidentifier():
            kind = "symbol" if text.startswith("_Z") else "C function"
            self.native.append(Use(kind, text, where))

    def _read_native(self, text: str, path: Path, root: Path) -> None:
        file = path.relative_to(root).as_posix()
        for word, line in words(text):
            self._note(word, f"{file}:{line}")
        bare = plain(text)
        for header in includes(bare):
            if header.startswith(("torch/", "ATen/", "c10/")):
                self.headers.append(header)
                self.native.append(Use("header", header, file))
        for match in _QUALIFIED.finditer(bare):
            self.native += [Use("C++ name", part, file) for part in match[1].split("::") if part]
        self.prefixes |= {match[1]: file for match in _PASTED.finditer(bare)}


def _texts(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the strings and the names of attributes in a module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and normalised(node):
            yield normalised(node), node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
