"""The definitions in a package's modules, read with ``ast``."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["CALL", "Chain", "Definition", "Module", "Package", "class_members", "flat"]

Chain = tuple[str, ...]
"""A path from a package to something in it."""

CALL = "()"
"""In a chain: the result of a call, or an instance of a class."""

Kind = Literal["module", "class", "function", "value", "attribute", "import"]


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A named definition.

    Attributes:
        kind: The kind; an ``attribute`` is assigned to ``self`` in a method.
        name: Its chain.
        module: The module that contains it.
        node: Its syntax; for an attribute or value the expression, None if there is none.
        annotation: Its type.
        target: The chain that an import names.
        within: The function that assigns an attribute.
        line: Its first line.
    """

    kind: Kind
    name: Chain
    module: Module
    node: ast.AST | None = None
    annotation: ast.expr | None = None
    target: Chain = ()
    within: ast.FunctionDef | None = None
    line: int = 1

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.module.file}:{self.line}"


@dataclass(slots=True, eq=False)
class Module:
    """A module's names.

    Attributes:
        name: Its chain.
        file: Its path, starting with the package's own name.
        text: Its source text.
        tree: The parsed text.
        is_package: Whether it is a package's ``__init__``.
        members: Its definitions, by name.
        stars: The modules that it imports all names from.
    """

    name: Chain
    file: str
    text: str
    tree: ast.Module
    is_package: bool
    members: dict[str, Definition] = field(default_factory=dict)
    stars: list[Chain] = field(default_factory=list)

    def origin(self, node: ast.ImportFrom) -> Chain:
        """Return the module that a statement imports from."""
        named = tuple(node.module.split(".")) if node.module else ()
        if not node.level:
            return named
        cut = node.level - self.is_package
        return (*self.name[: len(self.name) - cut], *named)


class Package:
    """The modules of a package, read on demand.

    Args:
        folder: The package's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: dict[Chain, Module | None] = {}

    @cached_property
    def name(self) -> str:
        """The package's name."""
        return self.folder.name

    def module(self, name: Chain) -> Module | None:
        """Return a module by its full name, or None if there is no such file."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def modules(self, *below: str) -> Iterator[Module]:
        """Yield the modules of a subpackage, in order."""
        folder = self.folder.joinpath(*below)
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(self.folder).with_suffix("").parts
            found = self.module((self.name, *(part for part in parts if part != "__init__")))
            if found is not None:
                yield found

    def _read(self, name: Chain) -> Module | None:
        path = self.folder.joinpath(*name[1:])
        places = [path / "__init__.py", path.with_suffix(".py")]
        places += [path / "__init__.pyi", path.with_suffix(".pyi")]
        for place in places:
            if place.is_file():
                text = place.read_text(encoding="utf-8")
                file = place.relative_to(self.folder.parent).as_posix()
                module = Module(name, file, text, ast.parse(text), place.stem == "__init__")
                _fill(module)
                return module
        return None


def flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, including those nested in ``if``, ``try`` and ``with``, in order."""
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from flat(node.body)
            for handler in getattr(node, "handlers", ()):
                yield from flat(handler.body)
            yield from flat([*getattr(node, "orelse", ()), *getattr(node, "finalbody", ())])


def _fill(module: Module) -> None:
    for node in flat(module.tree.body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                target = tuple(alias.name.split("."))
                bound = (alias.asname, target) if alias.asname else (target[0], target[:1])
                _add(module.members, _imported(module, *bound, node))
        elif isinstance(node, ast.ImportFrom):
            origin = module.origin(node)
            for alias in node.names:
                if alias.name == "*":
                    module.stars.append(origin)
                    continue
                bound = alias.asname or alias.name, (*origin, alias.name)
                _add(module.members, _imported(module, *bound, node))
        else:
            for found in _defined(module, module.name, node):
                _add(module.members, found)


def _imported(module: Module, name: str, target: Chain, node: ast.stmt) -> Definition:
    return Definition("import", (*module.name, name), module, target=target, line=node.lineno)


def _defined(module: Module, scope: Chain, node: ast.stmt) -> Iterator[Definition]:
    match node:
        case ast.ClassDef(name=name):
            yield Definition("class", (*scope, name), module, node, line=node.lineno)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield Definition("function", (*scope, name), module, node, line=node.lineno)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=type_, value=value):
            yield Definition("value", (*scope, name), module, value, type_, line=node.lineno)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Name):
                    chain = (*scope, target.id)
                    yield Definition("value", chain, module, value, line=node.lineno)


def _add(members: dict[str, Definition], found: Definition) -> None:
    """Add a definition, unless it is a stand-in for a class or function that may be missing."""
    name, known = found.name[-1], members.get(found.name[-1])
    if known is not None and known.kind in ("class", "function", "import"):
        decorators = [ast.unparse(d) for d in getattr(found.node, "decorator_list", ())]
        if found.kind in ("value", "import") or any(
            text.endswith((".setter", ".deleter")) for text in decorators
        ):
            return
    members[name] = found


def class_members(found: Definition) -> dict[str, Definition]:
    """Return a class's own members: names from its body, and what methods assign to ``self``."""
    assert isinstance(found.node, ast.ClassDef)
    members: dict[str, Definition] = {}
    for node in flat(found.node.body):
        for member in _defined(found.module, found.name, node):
            _add(members, member)
    for method in found.node.body:
        if isinstance(method, ast.FunctionDef) and method.args.args:
            for member in _assigned(found, method):
                members.setdefault(member.name[-1], member)
    return members


def _assigned(found: Definition, method: ast.FunctionDef) -> Iterator[Definition]:
    own = method.args.args[0].arg
    for node in ast.walk(method):
        match node:
            case ast.AnnAssign(target=target, annotation=type_, value=value):
                targets: list[ast.expr] = [target]
            case ast.Assign(targets=targets, value=value):
                type_ = None
            case _:
                continue
        for target in targets:
            match target:
                case ast.Attribute(value=ast.Name(id=base), attr=name) if base == own:
                    chain = (*found.name, name)
                    yield Definition(
                        "attribute", chain, found.module, value, type_, (), method, node.lineno
                    )
                case _:
                    pass
