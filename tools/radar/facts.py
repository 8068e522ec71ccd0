"""Facts that a release states about the things we rely on, in a comparable form."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tools.radar.lookup import UNKNOWN, Lookup, Unknown
from tools.radar.modules import CALL, Chain, Definition, Package
from tools.radar.native import Native
from tools.radar.texts import writing, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tools.radar.modules import Module

__all__ = ["Fact", "Release"]


@dataclass(frozen=True, slots=True)
class Fact:
    """The facts about one thing.

    Attributes:
        place: Its place.
        aspects: Its parameters, its fields, its default: by name, or as one text.
    """

    place: str
    aspects: Mapping[str, Mapping[str, str] | str] = field(default_factory=dict)


class Release:
    """A release of torch.

    Args:
        folder: The folder of the torch package.
        headers: Torch headers that our C++ includes.
    """

    def __init__(self, folder: Path, headers: Iterable[str]) -> None:
        self.package = Package(folder)
        self.lookup = Lookup({self.package.name: self.package})
        self.native = Native(folder)
        self._headers = headers

    def fact(self, kind: str, name: str) -> Fact | Unknown | None:
        """Return the facts about something, or None if it does not exist."""
        readers: dict[str, Callable[[str], Fact | Unknown | None]] = {
            "name": self._name,
            "override": self._override,
            "member": self._member,
            "argument": self._argument,
            "class": self._class,
            "attribute": self._attribute,
            "text": self._text,
            "C function": self._function,
            "C++ name": self._word,
            "header": self._header,
            "symbol": self._symbol,
        }
        return readers[kind](name)

    @cached_property
    def classes(self) -> dict[str, Definition]:
        """Inductor's classes by name alone; those of wrappers take precedence."""
        found: dict[str, Definition] = {}
        modules = sorted(self.package.modules("_inductor"), key=lambda m: "codegen" not in m.name)
        for module in modules:
            for member in module.members.values():
                if member.kind == "class":
                    found.setdefault(member.name[-1], member)
        return found

    @cached_property
    def attributes(self) -> dict[str, list[Chain]]:
        """Inductor's classes by attribute name."""
        found = defaultdict(list)
        for module in self.package.modules("_inductor"):
            for member in module.members.values():
                if member.kind == "class":
                    for name in self.lookup.members(member):
                        found[name].append(member.name)
        return dict(found)

    @cached_property
    def texts(self) -> dict[tuple[str, str], str]:
        """Texts written into wrappers: function and text, with the place."""
        return {
            (scope, text): f"{module.file}:{line}"
            for module in self._writers()
            for scope, text, line in written(module, self._wrappers)
        }

    @cached_property
    def writing(self) -> frozenset[str]:
        """The functions that write text into wrappers."""
        return frozenset().union(*(writing(m, self._wrappers) for m in self._writers()))

    def _writers(self) -> Iterator[Module]:
        for module in self.package.modules("_inductor"):
            if "cpp_wrapper" not in module.name[-1]:  # writes C++, not lines of ours
                yield module

    @cached_property
    def _wrappers(self) -> dict[str, str]:
        """Classes of wrappers and lines, with the name that writes in them."""
        bases = {"WrapperLine": "code", "PythonWrapperCodegen": "self"}
        return {
            found.name[-1]: writer
            for found in self.classes.values()
            for base, writer in bases.items()
            if found.name[-1] == base or self.derives(found, base)
        }

    def derives(self, found: Definition, base: str) -> bool:
        """Check whether a class derives, directly or not, from a base of the given name."""
        holders = [*self.lookup.lineage(found)][1:]
        return any(isinstance(holder, Definition) and holder.name[-1] == base for holder in holders)

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of the headers that our C++ includes, directly or not."""
        return self.native.vocabulary(self._headers)

    def _name(self, name: str) -> Fact | Unknown | None:
        chain = tuple(name.split("."))
        found = self.lookup.find(chain)
        if chain[:2] == ("torch", "_C") and CALL not in chain and not isinstance(found, Definition):
            return Fact("torch/lib/libtorch_python.so") if self.native.binds(chain[-1]) else None
        return Fact(found.place, _aspects(found)) if isinstance(found, Definition) else found

    def _override(self, name: str) -> Fact | Unknown | None:
        """Return a method that ours replaces; one that only ``__getattr__`` makes replaces none."""
        found, holder = self._name(name), self.lookup.find(tuple(name.split("."))[:-1])
        if found is UNKNOWN and isinstance(holder, Definition) and holder.kind == "class":
            return UNKNOWN if UNKNOWN in self.lookup.lineage(holder) else None
        return found

    def _member(self, name: str) -> Fact | Unknown | None:
        """Return a member of a class that we do not import, because the class may have moved."""
        found = self._name(name)
        chain = tuple(name.split("."))
        for end in range(1, len(chain)):
            if found is None and self.lookup.find(chain[:end]) is None:
                moved = self.class_named(chain[end - 1])
                return self._name(".".join((*moved.name, *chain[end:]))) if moved else None
        return found

    def _argument(self, name: str) -> Fact | Unknown | None:
        """Return a parameter of a function or of a class's instances, by name or position."""
        *function, key = name.split(".")
        found = self.lookup.find(tuple(function))
        params = self._taken(found) if isinstance(found, Definition) else None
        if params is None or not isinstance(found, Definition):
            return UNKNOWN
        if not key.isdigit():
            return Fact(found.place) if key in params or "**" in " ".join(params) else None
        plain = [n for n, text in params.items() if n[0] != "*" and not text.startswith(" by name")]
        if int(key) < len(plain):
            return Fact(found.place, {"argument": plain[int(key)]})
        return Fact(found.place) if any(n[0] == "*" != n[1] for n in params) else None

    def _taken(self, found: Definition) -> dict[str, str] | None:
        """Return the parameters of a function or of a class, without ``self``."""
        if found.kind == "class":
            fields = _fields(self, found)
            made = self.lookup.find((*found.name, "__init__"))
            if fields or not isinstance(made, Definition):
                return fields or None
            found = made
        if not isinstance(found.node, ast.FunctionDef):
            return None
        params = _parameters(found.node)
        static = any(ast.unparse(d) == "staticmethod" for d in found.node.decorator_list)
        if found.name[:-1] != found.module.name and not static:
            params.pop(next(iter(params), ""), None)
        return params

    def _class(self, name: str) -> Fact | None:
        found = self.class_named(name)
        if found is None:
            return None
        return Fact(found.place, {"fields": _fields(self, found)})

    def class_named(self, name: str) -> Definition | None:
        """Return one of Inductor's own or imported classes by its name alone."""
        if name in self.classes:
            return self.classes[name]
        for module in self.package.modules("_inductor"):
            if name in module.members:
                found = self.lookup.find((*module.name, name))
                if isinstance(found, Definition) and found.kind == "class":
                    return found
        return None

    def _attribute(self, name: str) -> Fact | None:
        owners = self.attributes.get(name)
        return Fact(", ".join(owner[-1] for owner in owners[:3])) if owners else None

    def _text(self, text: str) -> Fact | None:
        place = next((place for (_, known), place in self.texts.items() if known == text), None)
        return None if place is None else Fact(place)

    def _function(self, name: str) -> Fact | None:
        place, params = self.native.functions.get(name, ("", ""))
        pairs = [param.rpartition(" ") for param in params.split(", ")] if params else []
        types = ", ".join(type_ or lone for type_, _, lone in pairs)
        names = ", ".join(lone for type_, _, lone in pairs if type_)
        return Fact(place, {"types": types, "names": names}) if place else None

    def _word(self, name: str) -> Fact | None:
        return Fact("torch/include") if name in self.vocabulary else None

    def _header(self, name: str) -> Fact | None:
        return Fact(f"torch/include/{name}") if (self.native.include / name).is_file() else None

    def _symbol(self, name: str) -> Fact | None:
        library = self.native.symbols.get(name)
        return None if library is None else Fact(f"torch/lib/{library}")


def _aspects(found: Definition) -> dict[str, Mapping[str, str] | str]:
    node = found.node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        is_property = any("property" in ast.unparse(d) for d in node.decorator_list)
        kind = "property" if is_property else "function"
        # A removed method is found in a base class, where it may do something else.
        holder = "" if found.name[:-1] == found.module.name else found.name[-2]
        return {"kind": kind, "class": holder, "parameters": _parameters(node)}
    if isinstance(node, ast.ClassDef):
        return {"kind": "class"}
    is_setting = "config" in found.module.name[-1:] or found.name[-1].isupper()
    if found.kind == "value" and isinstance(node, ast.expr) and is_setting:
        return {"default": ast.unparse(node)}
    return {}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    """Return parameters with their defaults; keyword-only ones are marked with a star."""
    args = node.args
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    found = {a.arg: _default(d) for a, d in zip(plain, defaults, strict=True)}
    if args.vararg is not None:
        found[f"*{args.vararg.arg}"] = ""
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        found[arg.arg] = f" by name{_default(default)}"
    if args.kwarg is not None:
        found[f"**{args.kwarg.arg}"] = ""
    return found


def _default(expr: ast.expr | None) -> str:
    return "" if expr is None else f"={ast.unparse(expr)}"


def _fields(release: Release, found: Definition) -> dict[str, str]:
    """Return the fields of a dataclass and its bases: types and defaults."""
    assert isinstance(found.node, ast.ClassDef)
    marks = [ast.unparse(m) for m in (*found.node.decorator_list, *found.node.bases)]
    if not any("dataclass" in mark or "NamedTuple" in mark for mark in marks):
        return {}
    fields: dict[str, str] = {}
    for holder in reversed([*release.lookup.lineage(found)]):
        if holder is UNKNOWN or not isinstance(holder, Definition):
            continue
        for name, member in release.lookup.members(holder).items():
            typed = "" if member.annotation is None else ast.unparse(member.annotation)
            if member.kind == "value" and typed and "ClassVar" not in typed:
                default = _default(member.node if isinstance(member.node, ast.expr) else None)
                fields[name] = f": {typed}{default}"
    return fields
