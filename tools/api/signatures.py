"""Text forms of public objects: signatures, values of constants, remarks on fields."""

from __future__ import annotations

import ast
import enum
import functools
import inspect
import json
import re
import sys
import textwrap
import types
import typing
from typing import TYPE_CHECKING, Any

from typing_extensions import is_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 88
_LONGEST_VALUE = 160


def class_line(cls: type) -> str:
    """Return a class with its constructor, which enumerations and protocols lack."""
    if issubclass(cls, enum.Enum):
        return f"class {cls.__name__}(enum.Enum)"
    if is_protocol(cls):
        return f"class {cls.__name__}(Protocol)"
    return f"class {signature(cls, cls.__name__)}".removesuffix("()")


def signature(value: Any, name: str) -> str:
    """Return the signature of a function or class, on several lines if it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parts = list(_parameters(found))
    arrow = "" if isinstance(value, type) else _arrow(found.return_annotation)
    whole = f"{name}({', '.join(parts)}){arrow}"
    if len(whole) <= _WIDTH:
        return whole
    inside = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{inside}){arrow}"


def _parameters(found: inspect.Signature) -> Iterator[str]:
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    kinds = [each.kind for each in found.parameters.values()]
    for index, each in enumerate(found.parameters.values()):
        if each.name == "self":
            continue
        is_named = each.kind is inspect.Parameter.KEYWORD_ONLY
        if is_named and not {*kinds[:index]} & {each.kind, inspect.Parameter.VAR_POSITIONAL}:
            yield "*"
        text = marks.get(each.kind, "") + each.name
        if each.annotation is not inspect.Parameter.empty:
            text += f": {_annotation(each.annotation)}"
        if each.default is not inspect.Parameter.empty:
            text += f" = {_shown(each.default)}" if ":" in text else f"={_shown(each.default)}"
        yield text
        rest = kinds[index + 1 :]
        only = inspect.Parameter.POSITIONAL_ONLY
        if each.kind is only and only not in rest:
            yield "/"


def _arrow(annotation: Any) -> str:
    return "" if annotation is inspect.Signature.empty else f" -> {_annotation(annotation)}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)
    return text.strip("'\"").replace("typing.", "")


def _shown(value: Any) -> str:
    """Return a default, or ``...`` if its text differs from process to process."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") or len(text) > _WIDTH else text


def constant(value: Any, name: str) -> str:
    """Return a constant with its value, or with its type if the value is long."""
    if isinstance(value, types.UnionType):
        names = " | ".join(each.__name__ for each in typing.get_args(value))
        return "\n    ".join(textwrap.wrap(f"{name} = {names}", _WIDTH))
    text = _annotation(value) if not isinstance(value, str) else _shown(value)
    if inspect.isroutine(value):
        return f"def {signature(value, name)}"
    if isinstance(value, enum.Enum) or " at 0x" in text or len(text) > _LONGEST_VALUE:
        return f"{name}: {type(value).__name__}"
    return f"{name} = {text}"


@functools.cache
def remarks(module: str) -> dict[str, str]:
    """Return the remarks on a module's constants and on its classes' fields.

    A remark is a string after the assignment, or comments before it that begin with ``#:``.
    """
    source = inspect.getsource(sys.modules[module])
    lines = source.splitlines()
    found: dict[str, str] = {}
    for prefix, body in _bodies(ast.parse(source)):
        for statement, after in zip(body, [*body[1:], None], strict=True):
            name = _assigned(statement)
            text = _text(after) or _comments(lines, statement.lineno)
            if name and text:
                found[prefix + name] = textwrap.dedent(text)
    return found


def _bodies(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield "", tree.body
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield f"{node.name}.", node.body


def _assigned(statement: ast.stmt) -> str:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _comments(lines: list[str], number: int) -> str:
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.strip().startswith("#:"):
            break
        above.append(line.strip().removeprefix("#:").strip())
    return "\n".join(reversed(above))
