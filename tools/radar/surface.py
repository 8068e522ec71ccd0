"""New things in a release that our programs would need a form for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.radar.modules import Definition
from tools.radar.texts import normalised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.radar.facts import Release
    from tools.radar.modules import Chain, Module

__all__ = ["surface", "texts_of"]

Named = tuple[str, str, str]
"""The kind of thing, its name, its place."""


def surface(release: Release, settings: Iterable[Chain], functions: Iterable[str]) -> list[Named]:
    """Return everything of each kind in a release.

    Args:
        release: The release.
        settings: Settings modules.
        functions: Functions that we rely on; the hooks that they look up are included.
    """
    lines = [c for c in release.classes.values() if release.derives(c, "WrapperLine")]
    found = [("line class", line.name[-1], line.place) for line in lines]
    for module in release.package.modules("_inductor"):
        found += _kernels(module) if "ExternKernelChoice" in module.text else ()
    for module in release.package.modules("_higher_order_ops"):
        found += _higher_order(release, module)
    found += [
        ("raw text", f"{text!r} by {scope}", at) for (scope, text), at in release.texts.items()
    ]
    found += [("loader symbol", name, "libtorch_cpu.so") for name in release.native.looked_up]
    for chain in settings:
        found += _settings(release, chain)
    for function in functions:
        found += _hooks(release, function)
    return found


def _kernels(module: Module) -> Iterator[Named]:
    """Yield the names under which library kernels are registered as choices."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id="ExternKernelChoice"), args=[kernel, *_]):
                named = [k.value for k in node.keywords if k.arg == "name"]
                name = normalised(named[0]) if named else ast.unparse(kernel).rpartition(".")[2]
                yield "extern kernel", name, f"{module.file}:{node.lineno}"


def _higher_order(release: Release, module: Module) -> Iterator[Named]:
    """Yield the higher-order ops, by their registered names."""
    for member in module.members.values():
        if member.kind == "class" and release.derives(member, "HigherOrderOperator"):
            assert member.node is not None
            for node in ast.walk(member.node):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr="__init__"),
                        args=[ast.Constant(value=str(name)), *_],
                    ):
                        yield "higher-order op", name, member.place
                    case _:
                        pass


def _settings(release: Release, chain: Chain) -> Iterator[Named]:
    module = release.package.module(chain)
    members = module.members if module is not None else {}
    for name, member in members.items():
        full = ".".join((*chain, name))
        if member.kind == "value" and not name.startswith("_"):
            yield "setting", full, member.place
        elif member.kind == "class":
            for inner, value in release.lookup.members(member).items():
                if value.kind == "value":
                    yield "setting", f"{full}.{inner}", value.place


def texts_of(release: Release, function: str) -> set[str]:
    """Return the text constants in a function."""
    found = release.lookup.find(tuple(function.split(".")))
    nodes = ast.walk(found.node) if isinstance(found, Definition) and found.node else ()
    return {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def _hooks(release: Release, function: str) -> Iterator[Named]:
    """Yield the hooks that a function looks up by name."""
    found = release.lookup.find(tuple(function.split(".")))
    if isinstance(found, Definition) and isinstance(found.node, ast.FunctionDef):
        for node in ast.walk(found.node):
            match node:
                case ast.Call(
                    func=ast.Name(id="getattr" | "hasattr"),
                    args=[_, ast.Constant(value=str(name)), *_],
                ):
                    place = f"{found.module.file}:{node.lineno}"
                    yield "hook", f"{name} in {function}", place
                case _:
                    pass
