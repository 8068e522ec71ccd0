"""Resolution of chains through packages, as far as annotations and constructors give types."""

from __future__ import annotations

import ast
import builtins
from enum import Enum
from typing import TYPE_CHECKING

from tools.radar.modules import CALL, Chain, Definition, Module, class_members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.radar.modules import Package

__all__ = ["UNKNOWN", "Lookup", "Unknown", "without_wrapping"]


class Unknown(Enum):
    """The result for a chain that passes a value of unknown type."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN

Result = Definition | Unknown | None

#: Bases without relevant attributes.
_PLAIN = {
    *dir(builtins),
    "Protocol",
    "Generic",
    "ABC",
    "NamedTuple",
    "TypedDict",
    "Enum",
    "IntEnum",
}

#: Annotations that qualify a name rather than give its type.
_WRAPPERS = ("Optional", "Final", "ClassVar", "Annotated", "type", "Type")


class Lookup:
    """A resolver of chains.

    Args:
        packages: Packages by name.
    """

    def __init__(self, packages: Mapping[str, Package]) -> None:
        self.packages = packages
        self._found: dict[Chain, Result] = {}
        self._members: dict[Chain, dict[str, Definition]] = {}

    def find(self, chain: Chain) -> Result:
        """Return what a chain resolves to, or None if there is no such name."""
        if chain not in self._found:
            self._found[chain] = UNKNOWN  # guards against definitions that refer to themselves
            start = self._module(chain[:1])
            self._found[chain] = self._walk(start, chain[1:]) if start else UNKNOWN
        return self._found[chain]

    def members(self, found: Definition) -> dict[str, Definition]:
        """Return the members that a class itself defines."""
        if found.name not in self._members:
            self._members[found.name] = class_members(found)
        return self._members[found.name]

    def lineage(self, found: Definition) -> Iterator[Result]:
        """Yield a class and its bases, depth first; an external base yields what is known of it."""
        yield found
        assert isinstance(found.node, ast.ClassDef)
        for base in found.node.bases:
            named = self.evaluate(base, found.module)
            if isinstance(named, Definition) and named.kind == "class" and named is not found:
                yield from self.lineage(named)
            elif ast.unparse(without_wrapping(base)).rpartition(".")[2] not in _PLAIN:
                yield UNKNOWN

    def evaluate(self, expr: ast.expr, module: Module, within: Definition | None = None) -> Result:
        """Return what an expression or an annotation of a module refers to.

        Args:
            expr: The expression.
            module: The module that resolves its names.
            within: The attribute whose method contains it; the method's parameters have types, too.
        """
        expr = without_wrapping(expr)
        match expr:
            case ast.Constant(value=str(text)):
                try:
                    return self.evaluate(ast.parse(text, mode="eval").body, module)
                except SyntaxError:
                    return UNKNOWN
            case ast.Name(id=name):
                if within is not None and within.within is not None:
                    for arg in (*within.within.args.args, *within.within.args.kwonlyargs):
                        if arg.arg == name:
                            return self._annotated(arg.annotation, module)
                return self._first(self._member(module, name), ())
            case ast.Attribute(value=value, attr=name):
                base = self.evaluate(value, module, within)
                return self._walk(base, (name,)) if isinstance(base, Definition) else base
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                found = self.evaluate(left, module)
                return found if isinstance(found, Definition) else self.evaluate(right, module)
            case ast.Call(func=func):
                called = self.evaluate(func, module, within)
                return self._walk(called, (CALL,)) if isinstance(called, Definition) else UNKNOWN
        return UNKNOWN

    def type_of(self, found: Definition) -> Result:
        """Return the class of a definition's value or property."""
        if found.kind == "function":
            decorators = [ast.unparse(d) for d in getattr(found.node, "decorator_list", ())]
            if any("property" in text for text in decorators):
                return self._annotated(getattr(found.node, "returns", None), found.module)
            return UNKNOWN
        if found.annotation is not None:
            return self._annotated(found.annotation, found.module)
        if isinstance(found.node, ast.expr):
            return self.evaluate(found.node, found.module, found)
        return UNKNOWN

    def _annotated(self, annotation: ast.expr | None, module: Module) -> Result:
        return UNKNOWN if annotation is None else self.evaluate(annotation, module)

    def _walk(self, found: Result, rest: Chain) -> Result:
        if not rest or not isinstance(found, Definition):
            return found
        result: Result = None
        for step in self._steps(found, rest[0]):
            result = self._walk(step, rest[1:])
            if isinstance(result, Definition):
                return result
        return result

    def _first(self, steps: Iterator[Result], rest: Chain) -> Result:
        return next((self._walk(step, rest) for step in steps), UNKNOWN)

    def _steps(self, found: Definition, part: str) -> Iterator[Result]:
        if part == CALL:
            yield self._called(found)
        elif found.kind == "module":
            yield from self._member(found.module, part)
            submodule = self._module((*found.name, part))
            if submodule is not None:
                yield submodule
            elif "__getattr__" in found.module.members:
                yield UNKNOWN
        elif found.kind == "class":
            yield self._of_class(found, part)
        else:
            holder = self.type_of(found)
            is_else = isinstance(holder, Definition) and holder is not found
            yield self._walk(holder, (part,)) if is_else else UNKNOWN

    def _called(self, found: Definition) -> Result:
        if found.kind == "class":
            return found
        if found.kind == "function":
            return self._annotated(getattr(found.node, "returns", None), found.module)
        return self.type_of(found)

    def _of_class(self, found: Definition, part: str) -> Result:
        hidden = False
        for holder in self.lineage(found):
            if not isinstance(holder, Definition):
                hidden = True
                continue
            members = self.members(holder)
            if part in members:
                return members[part]
            hidden = hidden or "__getattr__" in members
        return UNKNOWN if hidden else None

    def _member(self, module: Module, name: str) -> Iterator[Result]:
        """Yield what a module's name may refer to."""
        found = module.members.get(name)
        if found is not None:
            yield self.find(found.target) if found.kind == "import" else found
            return
        for star in module.stars:
            behind = self.find((*star, name))
            if behind is not None:
                yield behind

    def _module(self, name: Chain) -> Definition | None:
        package = self.packages.get(name[0])
        module = package.module(name) if package is not None else None
        if module is None:
            return None
        return Definition("module", name, module, module.tree)


def without_wrapping(expr: ast.expr) -> ast.expr:
    """Return the core of an annotation such as ``Final[X]``, and the origin of ``X[Y]``."""
    while isinstance(expr, ast.Subscript):
        origin = ast.unparse(expr.value).rpartition(".")[2]
        if origin in _WRAPPERS:
            inner = expr.slice
            expr = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
        else:
            expr = expr.value
    return expr
