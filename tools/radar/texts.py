"""Text that code generators write into wrappers directly, without a line class."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.radar.modules import Module

__all__ = ["normalised", "writing", "written"]


def normalised(node: ast.expr) -> str:
    """Return a text with ``{}`` for interpolated parts; empty if it is not a text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(normalised(p) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (normalised(left) or "{}") + (normalised(right) or "{}")
        case ast.IfExp(body=body):
            return normalised(body)
    return ""


def written(module: Module, wrappers: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """Yield each text that a module writes into a wrapper: function, text, line.

    Args:
        module: A module of Inductor's.
        wrappers: Classes of wrappers or lines, and the name that writes in them, such as ``self``.
    """
    for scope, text, line in _all(module, wrappers):
        if text.strip("{}") and not text.lstrip().startswith("#"):
            yield scope, text, line


def writing(module: Module, wrappers: Mapping[str, str]) -> set[str]:
    """Return the functions of a module that write any text into a wrapper, constant or not.

    Args:
        module: A module of Inductor's.
        wrappers: As for ``written``.
    """
    return {scope for scope, text, _ in _all(module, wrappers) if not text.lstrip().startswith("#")}


def _all(module: Module, wrappers: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    if ".writeline" in module.text:
        yield from _below(module.tree, ".".join(module.name[1:]), "", wrappers)


def _below(
    node: ast.AST, scope: str, class_: str, wrappers: Mapping[str, str]
) -> Iterator[tuple[str, str, int]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield from _below(child, f"{scope}.{name}", name, wrappers)
            case ast.FunctionDef(name=name):
                yield from _below(child, f"{scope}.{name}", class_, wrappers)
            case _:
                yield from _calls(child, scope, wrappers.get(class_))
                yield from _below(child, scope, class_, wrappers)


def _calls(node: ast.AST, scope: str, writer: str | None) -> Iterator[tuple[str, str, int]]:
    match node:
        case ast.Call(func=ast.Attribute(value=to, attr="writeline" | "writelines"), args=[what]):
            holder = ast.unparse(to)
            if holder == writer or holder.rpartition(".")[2] in ("wrapper", "wrapper_code"):
                lines = what.elts if isinstance(what, (ast.List, ast.Tuple)) else [what]
                for line in lines:
                    if not isinstance(line, ast.Call):  # not an instance of a line class
                        yield scope, normalised(line), line.lineno
