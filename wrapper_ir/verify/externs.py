"""Checks of library op calls against schemas, and of objects of custom classes."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.ops import changes_tensor
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.lines.schema import CLASS_NAME
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import Fault, Kernels, check_access, counted, described, shown
from wrapper_ir.verify.tables import check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.verify.lifetimes import Lifetimes
    from wrapper_ir.verify.state import Place, State
    from wrapper_ir.verify.symbols import Symbols

#: The kinds of number that each scalar type of a schema accepts.
_SCALARS: Final = {
    **dict.fromkeys(("int", "SymInt"), ("int",)),
    **dict.fromkeys(("bool", "SymBool"), ("bool",)),
    **dict.fromkeys(("float", "SymFloat"), ("float", "int")),
    **dict.fromkeys(("Scalar", "number", "complex"), ("int", "float", "bool", "complex")),
}

#: The kinds of symbols that a returned number can be bound to: no integer is a float's name.
_RETURNED: Final = {**_SCALARS, **dict.fromkeys(("float", "SymFloat"), ("float",))}

#: The classes of arguments that other types accept. A type in neither table accepts anything.
_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "Tensor": (ir.BufferArg,),
    "str": (ir.StringArg,),
    "ScalarType": (ir.DTypeArg, ir.ScalarArg),
    "Device": (ir.DeviceArg,),
    "Layout": (ir.EnumArg, ir.ScalarArg),
    "MemoryFormat": (ir.EnumArg, ir.ScalarArg),
}

Bound: TypeAlias = list[tuple[ir.SchemaArg, ir.Arg]]
"""Arguments with their declarations."""

_SIZED_LIST: Final = re.compile(r"\[\d+\]$")


class Externs:
    """Checks of 'extern' lines."""

    def __init__(self, state: State, symbols: Symbols, kernels: Kernels) -> None:
        self.state = state
        self.symbols = symbols
        self.kernels = kernels

    def check(self, line: ir.ExternKernel) -> Bound:
        """Check a call; return its arguments with their declarations, none if it has no schema."""
        schema = None if self.kernels.find(line) is None else self.kernels.schema(line.op)
        if schema is None:
            return []
        fault = partial(self.state.report, name=shown(line.op))
        if changes_tensor(line.op):
            fault(rules.CHANGED_TENSOR)
        bound = self._bind(line, schema, fault)
        for declared, arg in bound:
            here = partial(fault, which=f"argument '{declared.name}'")
            self._check_arg(line, declared, arg, here)
        self._check_results(line, schema, bound, fault)
        return bound

    def _bind(self, line: ir.ExternKernel, schema: ir.OpSchema, fault: Fault) -> Bound:
        """Pair arguments with their declarations, and check that all are given, once."""
        positional = schema.positional
        if len(line.args) > len(positional):
            expected = f"at most {counted(len(positional), 'argument')} by position"
            fix = "arguments after the '*' of the schema must be given by name"
            fault(rules.ARGUMENT_COUNT, expected=expected, given=f"{len(line.args)} are", fix=fix)
        bound = {d.name: (d, arg) for d, arg in zip(positional, line.args, strict=False)}
        for name, arg in line.kwargs:
            declared = schema.arg(name)
            if declared is None:
                names = [a.name for a in schema.args]
                known, near = ", ".join(names) or "none", self.state.near(name, names)
                fault(rules.UNKNOWN_KEYWORD, keyword=name, names=known, near=near)
            elif name in bound:
                fault(rules.ARGUMENT_TWICE, keyword=name)
            else:
                bound[name] = (declared, arg)
        missing = [a.name for a in schema.args if a.default is None and a.name not in bound]
        if missing:
            expected = f"a value for {', '.join(missing)}"
            fix = "only arguments with a default may be left out"
            fault(rules.ARGUMENT_COUNT, expected=expected, given="none is", fix=fix)
        return list(bound.values())

    # Arguments.

    def _check_arg(
        self, line: ir.ExternKernel, declared: ir.SchemaArg, arg: ir.Arg, fault: Fault
    ) -> None:
        type_ = declared.type
        base = type_.class_name or type_.base
        given = self._misfit(arg, base, type_.suffix)
        if given == "none" and _may_be_undefined(line.op, declared):
            given = None
        if given is not None:
            rule = rules.UNWANTED_NONE if given == "none" else rules.ARGUMENT_KIND
            fault(rule, expected=base + type_.suffix, given=given)
        for buffer in buffers_in([arg]):
            if not type_.writes:
                check_access(buffer, ir.Access.READ, "schema", fault)
            elif not buffer.access.writes:
                check_access(buffer, ir.Access.READ_WRITE, "schema", fault)

    def _misfit(self, arg: ir.Arg, base: str, suffix: str) -> str | None:
        """Describe an argument that does not have type ``base + suffix``; None if it does."""
        if isinstance(arg, ir.NoneArg):
            return None if suffix.endswith("?") or base == "NoneType" else "none"
        suffix = suffix.removesuffix("?")
        if not suffix.endswith("]"):
            return self._misfit_leaf(arg, base)
        inner = suffix[: suffix.rindex("[")]
        if isinstance(arg, ir.ListArg):
            found = (self._misfit(item, base, inner) for item in arg.items)
            return next((f"a list with {fault}" for fault in found if fault is not None), None)
        if _SIZED_LIST.search(suffix) and not isinstance(arg, ir.BufferArg):
            return self._misfit(arg, base, inner)
        return described(arg)

    def _misfit_leaf(self, arg: ir.Arg, base: str) -> str | None:
        if base in _SCALARS and isinstance(arg, ir.ScalarArg):
            self.symbols.check_kinds(arg.value, self.state.here())
            kind = self.symbols.kind_of(arg.value)
            return None if kind in _SCALARS[base] else f"{described(arg)} ({kind})"
        if "::" in base and isinstance(arg, ir.ObjectArg):
            given = self.state.objects.get(arg.object, base)
            return None if given == base else f"{described(arg)} ({given})"
        takes_any = base not in _SCALARS and "::" not in base and base not in _CLASSES
        return None if takes_any or isinstance(arg, _CLASSES.get(base, ())) else described(arg)

    # Results.

    def _check_results(
        self,
        line: ir.ExternKernel,
        schema: ir.OpSchema,
        bound: Bound,
        fault: Fault,
    ) -> None:
        seen: set[tuple[int | str, ...]] = set()
        returns = ", ".join(r.base + r.suffix for r in schema.returns) or "none"
        for result in line.results:
            here = partial(fault, path="".join(f"[{s!r}]" for s in result.path) or "the top")
            type_, why = _resolve(schema, result.path)
            if result.path in seen:
                why = " that is not bound already"
            seen.add(result.path)
            if why:
                type_ = None
                here(rules.BAD_RESULT_PATH, why=why, returns=returns)
            if type_ is not None:
                wanted, given = self._misfit_result(result, type_)
                if wanted:
                    here(rules.BAD_RESULT_KIND, expected=wanted, given=given)
            if isinstance(result, ir.ResultBuffer):
                check_alias_source(self.state, result, [arg for _, arg in bound])
                if type_ is not None and type_.is_tensor:
                    self._check_relation(line, result, type_, bound, fault)

    def _misfit_result(self, result: ir.OpResult, type_: ir.SchemaType) -> tuple[str, str]:
        """Describe the return type and the mismatched result; both are empty if they match."""
        if isinstance(result, ir.ResultBuffer):
            given, fits = "a buffer", not type_.class_name and type_.base not in _SCALARS
        elif isinstance(result, ir.ResultObject):
            given = f"an object of class {result.class_name}"
            fits = type_.class_name == result.class_name
        else:
            given, fits = "a symbol", not type_.class_name and not type_.is_tensor
            info = self.state.program.symbols.get(result.symbol)
            kinds = _RETURNED.get(type_.base)
            if info is not None and kinds is not None and info.kind.value not in kinds:
                given, fits = f"symbol {result.symbol} ({info.kind.value})", False
        if fits:
            return "", ""
        if type_.class_name:
            return f"an object of class {type_.class_name}", given
        if type_.is_tensor:
            return "a tensor", given
        return f"a number ({type_.base})" if type_.base in _SCALARS else type_.base, given

    def _check_relation(
        self,
        line: ir.ExternKernel,
        result: ir.ResultBuffer,
        type_: ir.SchemaType,
        bound: Bound,
        fault: Fault,
    ) -> None:
        """Check the relation of a result to the arguments against the alias sets of the schema."""
        sets, relation = type_.alias_sets, result.relation
        args = [a for d, a in bound if "*" in sets or sets & d.type.alias_sets]
        legal = {buffer.buffer for buffer in buffers_in(args)}
        position = handed_over(line.op)
        if position is not None and position < len(line.args):
            legal.update(buffer.buffer for buffer in buffers_in([line.args[position]]))
        expected = f"a view of {', '.join(f'%{name}' for name in sorted(legal)) or 'an argument'}"
        given = _worded(relation)
        if not sets:
            is_fault, expected = relation is ir.Relation.ALIAS, "fresh"
        elif relation is ir.Relation.FRESH:
            is_fault = True
        else:
            is_fault = not legal.issuperset(result.of)
            given += f" of {', '.join(f'%{name}' for name in result.of)}"
        if is_fault:
            fault(rules.BAD_RELATION, result=result.out, given=given, expected=expected)


def check_alias_source(state: State, result: ir.ResultBuffer, args: Iterable[ir.Arg]) -> None:
    """Check that views name an argument as their source, and other results name none."""
    args = list(args)
    known = {buffer.buffer for buffer in buffers_in(args)}
    stranger = next((name for name in result.of if name not in known), "")
    why = fix = ""
    if result.relation in (ir.Relation.FRESH, ir.Relation.HELD):
        if result.of:
            why, fix = "but names a source", "declare it as alias or may-alias"
        elif result.relation is ir.Relation.HELD and not any(
            isinstance(a, ir.ObjectArg) for a in args
        ):
            why, fix = "but the call is given no object", "declare it as fresh"
    elif not result.of:
        why, fix = "but names no source", "name the argument that it is a view of"
    elif stranger:
        why, fix = f"but %{stranger} is not an argument of the call", "name an argument"
    if fix:
        given = _worded(result.relation)
        state.report(rules.BAD_ALIAS_SOURCE, result=result.out, given=given, why=why, fix=fix)


def _worded(relation: ir.Relation) -> str:
    return relation.value.replace("_", "-")


def _resolve(schema: ir.OpSchema, path: tuple[int | str, ...]) -> tuple[ir.SchemaType | None, str]:
    """Return the type at a path, or why there is none. Unmodelled types return neither."""
    returns = schema.returns
    if not returns:
        return None, ": it returns nothing"
    rest = path
    if schema.returns_tuple:
        if not path or not isinstance(path[0], int) or not 0 <= path[0] < len(returns):
            return None, f": it returns {len(returns)} values"
        type_, rest = returns[path[0]], path[1:]
    else:
        type_ = returns[0]
    if not type_.base.isidentifier() and not type_.class_name:
        return None, ""
    suffix = type_.suffix.removesuffix("?")
    for step in rest:
        if not suffix.endswith("]") or not isinstance(step, int) or step < 0:
            return None, f": it is not a list there, but {type_.base}{type_.suffix}"
        suffix = suffix[: suffix.rindex("[")].removesuffix("?")
    return (None, ": it is a list there") if suffix else (type_, "")


def _may_be_undefined(op: str, declared: ir.SchemaArg) -> bool:
    """Return whether an argument may be none although its schema does not say so.

    Torch passes an undefined tensor for it. Backward ops accept that for tensors that their forward
    did not have, and so do third-party ops with careless schemas. Torch's other ops fail.
    """
    namespace, _, name = op.rpartition("::")
    takes_any = namespace != "aten" or name.partition(".")[0].endswith("_backward")
    return takes_any and (declared.type.base, declared.type.suffix) == ("Tensor", "")


class Objects:
    """Checks of objects of custom classes: their uses, and the memory that they may hold."""

    def __init__(self, state: State, lifetimes: Lifetimes) -> None:
        self._state = state
        self._lifetimes = lifetimes

    def define_constants(self) -> None:
        """Check the table of objects that belong to the program."""
        for name, constant in self._state.program.objects.items():
            self._enter(name, constant.class_name, self._state.here(f"objects.{name}"))

    def define(self, item: ir.ObjectInput | ir.ResultObject, place: Place) -> None:
        """Enter an input of the program or a result of an op. Regions have no objects."""
        if self._state.frame is not self._state.root:
            self._refuse(item.object, place)
        elif item.object in self._state.objects:
            self._report_taken(item.object, "another object", place)
        else:
            self._state.objects[item.object] = item.class_name
            self._enter(item.object, item.class_name, place)

    def _enter(self, name: str, class_name: str, place: Place) -> None:
        check_name(self._state, name, "object", place)
        if CLASS_NAME.fullmatch(class_name) is None:
            self._state.report(rules.BAD_NAME, place=place, name=class_name, what="class")
        if name in self._state.names.buffers or name in self._state.program.buffers:
            self._report_taken(name, f"buffer %{name}", place)

    def _report_taken(self, name: str, other: str, place: Place) -> None:
        self._state.report(rules.OBJECT_NAME_TAKEN, place=place, name=name, other=other)

    def check(self, found: ir.Effects) -> None:
        """Check the objects that a line passes on, and record the storage that they may hold."""
        for name in found.objects:
            if name not in self._state.objects or self._state.frame is not self._state.root:
                self._refuse(name)
        for name in found.held:
            for storage in self._lifetimes.storages(name):
                storage.held = True
                if storage.slot is not None:
                    what = f"which lies in pool %{storage.slot.pool.owner}"
                    self._state.report(rules.HELD_STORAGE, name=name, what=what)

    def _refuse(self, name: str, place: Place | None = None) -> None:
        is_known = name in self._state.objects
        where = "that a region may have" if is_known else "of the program"
        near = self._state.near(name, self._state.objects)
        self._state.report(rules.UNKNOWN_OBJECT, place=place, name=name, where=where, near=near)
