"""The uses of torch in our Python: chains into torch, found by data flow through our functions.

A value is followed from imports through assignments, attributes of our classes, arguments and
results of our functions, and tables from class names to their handlers. If its type is unknown,
only the name of an attribute read from it is recorded.
"""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import TYPE_CHECKING

from tools.radar.lookup import Lookup
from tools.radar.modules import CALL, Chain, Definition, Module, Package
from tools.radar.texts import normalised
from tools.radar.uses import Use
from tools.radar.values import CARRIES, Chains, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["python_uses"]


def python_uses(
    ours: Package, torch: Package, classes: Mapping[str, Chain], tick: Callable[[str], None]
) -> tuple[list[Use], list[Chain]]:
    """Return the uses of torch in a package's modules, and the settings modules among them.

    Args:
        ours: The package.
        torch: The release.
        classes: Inductor's classes by name alone.
        tick: Called with the name of the next step.
    """
    values = Values(Lookup({ours.name: ours, torch.name: torch}), classes)
    near = {_package_of(m) for m in ours.modules() if _is_private(m)}
    imports = {d.target for m in ours.modules() for d in m.members.values()}
    values.configs = sorted(t for t in imports if t[:1] == ("torch",) and t[-1] == "config")
    for step in range(4):  # facts about a function's arguments take effect on the next pass
        tick(f"our sources, {step + 1} of 4")
        values.uses.clear()
        known = values.size()
        for module in ours.modules():
            is_near = any(module.name[: len(package)] == package for package in near)
            _Reader(values, module, is_near=is_near).visit(module.tree)
        if values.size() == known:
            break
    return sorted(values.uses), values.configs


def _is_private(module: Module) -> bool:
    return any(d.target[:2] == ("torch", "_inductor") for d in module.members.values())


def _package_of(module: Module) -> Chain:
    return module.name if module.is_package else module.name[:-1]


class _Reader(ast.NodeVisitor):
    """A visitor that reads one module."""

    def __init__(self, values: Values, module: Module, *, is_near: bool) -> None:
        self._values = values
        self._module = module
        self._is_near = is_near
        self._scope: Chain = module.name
        self._class: Chain | None = None
        self._local: dict[str, Chains] = {}

    def _note(self, kind: str, name: str, node: ast.AST) -> None:
        where = f"{self._module.file}:{getattr(node, 'lineno', 1)}"
        self._values.uses.add(Use(kind, name, where))

    def _note_chains(self, chains: Iterable[Chain], node: ast.AST, kind: str = "name") -> None:
        for chain in chains:
            if chain[0] == "torch" and chain[-1] != CALL:
                plain = self._values.plain(chain)
                is_typed = kind == "name" and len(plain) < len(chain)
                self._note("member" if is_typed else kind, ".".join(plain), node)

    # Possible values of an expression.

    def _chains(self, node: ast.AST | None) -> Chains:
        match node:
            case ast.Name(id=name):
                local = self._local.get(name)
                return self._values.named(self._module, name) if local is None else local
            case ast.Attribute(value=value, attr=name):
                bases = self._chains(value)
                return frozenset(c for base in bases for c in self._values.attribute(base, name))
            case ast.IfExp(body=one, orelse=other):
                return self._chains(one) | self._chains(other)
            case ast.BoolOp(values=parts):
                return frozenset(c for part in parts for c in self._chains(part))
            case ast.Call(func=func, args=args):
                return self._call(func, args)
        return frozenset()

    def _call(self, func: ast.expr, args: list[ast.expr]) -> Chains:
        match func, args:
            case ast.Name(id="getattr"), [base, ast.Constant(value=str(name)), *_]:
                return self._chains(ast.Attribute(base, name, ast.Load()))
            case ast.Name(id="super"), _:
                stock = self._values.stock[self._class] if self._class else ()
                return frozenset((*chain, CALL) for chain in stock)
            case (ast.Attribute(attr="import_module"), [ast.Constant(value=str(name)), *_]):
                return frozenset([tuple(name.split("."))])
        return frozenset(c for f in self._chains(func) for c in self._values.called(f))

    # Uses of torch.

    def visit_Import(self, node: ast.Import) -> None:
        self._note_chains((tuple(alias.name.split(".")) for alias in node.names), node)
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            target = tuple((alias.name if alias.asname else name).split("."))
            self._local[name] = self._values.imported(target)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = self._module.origin(node)
        for alias in node.names:
            target = (*origin, alias.name)
            self._note_chains([target], node)
            self._local[alias.asname or alias.name] = self._values.imported(target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._read(node, node.value, node.attr)
        self.generic_visit(node)

    def _read(self, node: ast.expr, base: ast.expr, name: str) -> None:
        chains = self._chains(node)
        self._note_chains(chains, node)
        holders = {chain[0] for chain in self._chains(base)}
        find = self._values.lookup.find
        is_found = any(isinstance(find(c), Definition) for c in chains)
        if self._is_near and not is_found and not holders - {"torch", CARRIES}:
            self._note("attribute", name, node)

    def visit_Call(self, node: ast.Call) -> None:
        functions = self._chains(node.func)
        given = [*takewhile(lambda arg: not isinstance(arg, ast.Starred), node.args)]
        for key in (*range(len(given)), *(k.arg for k in node.keywords if k.arg is not None)):
            self._note_chains(((*chain, f"{key}") for chain in functions), node, "argument")
        match node:
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr"),
                args=[base, ast.Constant(value=str(name)), *_],
            ):
                self._read(ast.Attribute(base, name, ast.Load(), lineno=node.lineno), base, name)
            case ast.Call(func=ast.Name(id="type"), args=[_, ast.Tuple(elts=bases), _]):
                self._derive(None, bases)
            case ast.Call(func=ast.Attribute(attr="import_module")):
                self._note_chains(self._chains(node), node)
            case ast.Call(func=ast.Attribute(value=module, attr="patch")):
                keys = [key.arg for key in node.keywords]
                keys += [k for a in node.args if isinstance(a, ast.Dict) for k in _keys(a)]
                for chain in self._chains(module):
                    self._note_chains(((*chain, *str(key).split(".")) for key in keys), node)
        for function in functions:
            self._pass(function, node)
        self.generic_visit(node)

    def _pass(self, function: Chain, call: ast.Call) -> None:
        """Bind the arguments of a call to one of our functions."""
        found = self._values.lookup.find(function)
        if isinstance(found, Definition) and found.kind == "class" and found.name[0] != "torch":
            found = self._values.lookup.find((*found.name, "__init__"))
        if not isinstance(found, Definition) or found.name[0] == "torch":
            return
        if isinstance(found.node, ast.FunctionDef):
            names = [arg.arg for arg in found.node.args.args]
            if isinstance(call.func, ast.Attribute) or found.name[-1] == "__init__":
                names = names[1:] if names[:1] == ["self"] else names
            given = [*zip(names, call.args, strict=False)]
            given += [(key.arg or "", key.value) for key in call.keywords]
            for name, value in given:
                self._values.bind((*found.name, name), self._chains(value))

    def visit_Dict(self, node: ast.Dict) -> None:
        keys = _keys(node)
        for key, value in zip(node.keys, node.values, strict=True):
            match key:
                case ast.Constant(value=str(name)) if name in self._values.classes:
                    for handler in self._chains(value):
                        self._handled(handler, self._values.classes[name])
        for config in self._values.configs if self._is_near else ():
            chains = [(*config, *key.split(".")) for key in keys]
            if all(isinstance(self._values.lookup.find(c), Definition) for c in chains):
                self._note_chains(chains, node)
        self.generic_visit(node)

    def _handled(self, handler: Chain, handled: Chain) -> None:
        found = self._values.lookup.find(handler)
        if isinstance(found, Definition) and isinstance(found.node, ast.FunctionDef):
            last = found.node.args.args[-1:]
            self._values.bound.setdefault((*found.name, *(arg.arg for arg in last)), set()).add(
                (CARRIES, *handled, CALL)
            )

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            parts = node.value.split(".")
            if parts[0] == "torch" and len(parts) > 1 and all(p.isidentifier() for p in parts):
                self._note("name", node.value, node)
            elif self._is_near and node.value in self._values.classes:
                self._note("class", node.value, node)
            elif self._is_near and len(node.value) > 3:
                self._note("text", node.value, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        if self._is_near:
            self._note("text", normalised(node), node)
        self.generic_visit(node)

    # Scopes.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        name = (*self._scope, node.name)
        self._derive(name, node.bases)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                stock = self._values.stock[name]
                self._note_chains(
                    ((*chain, statement.name) for chain in stock), statement, "override"
                )
        self._within(node, name, {}, name)

    def _derive(self, name: Chain | None, bases: Iterable[ast.expr]) -> None:
        """Record a class with bases of ours and torch's; ``self`` in its methods is all of them."""
        chains = [chain for base in bases for chain in self._chains(base)]
        stock = self._values.stock
        theirs = {chain for chain in chains if chain[0] == "torch"}
        ours = [chain for chain in chains if chain[0] != "torch"]
        for chain in ours:
            stock[chain] |= theirs
        if name is not None:
            stock[name] |= theirs.union(*(stock[chain] for chain in ours))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        name = (*self._scope, node.name)
        local: dict[str, Chains] = {}
        arguments = node.args
        for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            typed = self._values.annotated(arg.annotation, self._module)
            local[arg.arg] = frozenset([*self._values.bound[(*name, arg.arg)], *typed])
        for rest in filter(None, (arguments.vararg, arguments.kwarg)):
            local[rest.arg] = frozenset()
        is_static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
        if self._class and self._scope == self._class and arguments.args and not is_static:
            stock = ((*chain, CALL) for chain in self._values.stock[self._class])
            local[arguments.args[0].arg] = frozenset([(*self._class, CALL), *stock])
        self._within(node, name, local, self._class)

    def _within(
        self, node: ast.AST, name: Chain, local: Mapping[str, Chains], class_: Chain | None
    ) -> None:
        outer = self._scope, self._class, self._local
        self._scope, self._class, self._local = name, class_, {**self._local, **local}
        self.generic_visit(node)
        self._scope, self._class, self._local = outer

    def visit_Return(self, node: ast.Return) -> None:
        self._values.bind((*self._scope, CALL), self._chains(node.value))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, self._chains(node.value))
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        typed = self._values.annotated(node.annotation, self._module)
        self._assign(node.target, self._chains(node.value) | frozenset(typed))
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._assign(node.target, frozenset())
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._assign(node.target, frozenset())
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._assign(item.optional_vars, frozenset())
        self.generic_visit(node)

    def _assign(self, target: ast.expr, chains: Chains) -> None:
        match target:
            case ast.Name(id=name):
                if self._scope in (self._module.name, self._class):
                    self._values.bind((*self._scope, name), chains)
                else:
                    self._local[name] = chains
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if self._class is not None:
                self._values.bind((*self._class, name), chains)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._assign(part, frozenset())


def _keys(node: ast.Dict) -> list[str]:
    return [k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]
