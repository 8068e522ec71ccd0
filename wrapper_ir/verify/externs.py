"""Calls of library ops, against the schema under which the op is declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import (
    Access,
    BufferArg,
    DeviceArg,
    DTypeArg,
    EnumArg,
    ListArg,
    NoneArg,
    ObjectArg,
    Relation,
    ResultBuffer,
    ResultObject,
    ScalarArg,
    StringArg,
    TorchOp,
)
from wrapper_ir.lines.effects import handed_over
from wrapper_ir.verify import rules
from wrapper_ir.verify.calls import counted, described, report_access
from wrapper_ir.verify.tables import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.lines import Arg, ExternKernel, OpResult, OpSchema, SchemaArg, SchemaType
    from wrapper_ir.verify.state import State
    from wrapper_ir.verify.symbols import Symbols
    from wrapper_ir.verify.tables import Kernels

_INTS: Final = ("int",)
_BOOLS: Final = ("bool",)
_FLOATS: Final = ("float", "int")
_NUMBERS: Final = ("int", "float", "bool", "complex")

#: Kinds of number that each scalar type of a schema takes.
_SCALARS: Final = {
    **dict.fromkeys(("int", "SymInt"), _INTS),
    **dict.fromkeys(("bool", "SymBool"), _BOOLS),
    **dict.fromkeys(("float", "SymFloat"), _FLOATS),
    **dict.fromkeys(("Scalar", "number", "complex"), _NUMBERS),
}

#: Classes of argument that the other types take; a type in neither table takes anything.
_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "Tensor": (BufferArg,),
    "str": (StringArg,),
    "ScalarType": (DTypeArg, ScalarArg),
    "Device": (DeviceArg,),
    "Layout": (EnumArg, ScalarArg),
    "MemoryFormat": (EnumArg, ScalarArg),
}

_SIZED_LIST: Final = re.compile(r"\[\d+\]$")


class Externs:
    """The checks of 'extern' lines."""

    def __init__(self, state: State, symbols: Symbols, kernels: Kernels) -> None:
        self.state = state
        self.symbols = symbols
        self.kernels = kernels

    def check(self, line: ExternKernel) -> list[tuple[SchemaArg, Arg]]:
        """Checks one call against its op's schema; gives each argument with what that says of it.

        None where the op or its schema is not known.
        """
        kernel = self.kernels.find(line.op)
        if kernel is None:
            return []
        if not isinstance(kernel.source, TorchOp):
            self.state.report(
                rules.WRONG_CALL,
                name=shown(line.op),
                what="a kernel of this program",
                mnemonic=line.mnemonic,
                fix="call it with a call line",
            )
            return []
        schema = self.kernels.schema(line.op)
        if schema is None:
            return []
        bound = self._bind(line, schema)
        for declared, arg in bound:
            self._check_arg(line, declared, arg)
        self._check_results(line, schema, bound)
        return bound

    def _bind(self, line: ExternKernel, schema: OpSchema) -> list[tuple[SchemaArg, Arg]]:
        """Each argument with what the schema says of it; checks that all are there, once."""
        positional = schema.positional
        if len(line.args) > len(positional):
            self.state.report(
                rules.ARGUMENT_COUNT,
                name=shown(line.op),
                expected=f"at most {counted(len(positional), 'argument')} by position",
                given=f"{len(line.args)} are",
                fix="arguments behind the '*' of the schema are given by name",
            )
        bound = {d.name: (d, arg) for d, arg in zip(positional, line.args, strict=False)}
        for name, arg in line.kwargs:
            declared = schema.arg(name)
            if declared is None:
                names = [a.name for a in schema.args]
                self.state.report(
                    rules.UNKNOWN_KEYWORD,
                    name=shown(line.op),
                    keyword=name,
                    names=", ".join(names) or "none",
                    near=self.state.near(name, names),
                )
            elif name in bound:
                self.state.report(rules.ARGUMENT_TWICE, name=shown(line.op), keyword=name)
            else:
                bound[name] = (declared, arg)
        missing = [a.name for a in schema.args if a.default is None and a.name not in bound]
        if missing:
            self.state.report(
                rules.ARGUMENT_COUNT,
                name=shown(line.op),
                expected=f"{', '.join(missing)} as well",
                given="nothing is",
                fix="only arguments with a default may be left out",
            )
        return list(bound.values())

    # Arguments.

    def _check_arg(self, line: ExternKernel, declared: SchemaArg, arg: Arg) -> None:
        which = f"argument '{declared.name}'"
        fault = self._misfit(
            arg, declared.type.class_name or declared.type.base, declared.type.suffix
        )
        if fault == "none" and _may_be_undefined(line.op, declared):
            fault = None
        if fault is not None:
            wanted = (declared.type.class_name or declared.type.base) + declared.type.suffix
            rule = rules.UNWANTED_NONE if fault == "none" else rules.ARGUMENT_KIND
            self.state.report(rule, which=which, name=shown(line.op), expected=wanted, given=fault)
        for buffer in buffers_in(arg):
            if declared.type.writes and not buffer.access.writes:
                report_access(
                    self.state, which, shown(line.op), buffer, Access.READ_WRITE, "schema"
                )
            elif not declared.type.writes and buffer.access is not Access.READ:
                report_access(self.state, which, shown(line.op), buffer, Access.READ, "schema")

    def _misfit(self, arg: Arg, base: str, suffix: str) -> str | None:
        """Describe an argument that is not of the type ``base + suffix``; None if it fits."""
        if isinstance(arg, NoneArg):
            return None if suffix.endswith("?") or base == "NoneType" else "none"
        suffix = suffix.removesuffix("?")
        if not suffix.endswith("]"):
            return self._misfit_leaf(arg, base)
        inner = suffix[: suffix.rindex("[")]
        if isinstance(arg, ListArg):
            found = (self._misfit(item, base, inner) for item in arg.items)
            return next((f"a list with {fault}" for fault in found if fault is not None), None)
        if _SIZED_LIST.search(suffix) and not isinstance(arg, BufferArg):
            return self._misfit(arg, base, inner)
        return described(arg)

    def _misfit_leaf(self, arg: Arg, base: str) -> str | None:
        if base in _SCALARS:
            if not isinstance(arg, ScalarArg):
                return described(arg)
            self.symbols.check_kinds(arg.value, self.state.here())
            kind = self.symbols.kind_of(arg.value)
            return None if kind in _SCALARS[base] else f"{described(arg)} ({kind})"
        if "::" in base:
            return self._misfit_object(arg, base)
        if base in _CLASSES:
            return None if isinstance(arg, _CLASSES[base]) else described(arg)
        return None

    def _misfit_object(self, arg: Arg, class_name: str) -> str | None:
        if not isinstance(arg, ObjectArg):
            return described(arg)
        given = self.state.objects.get(arg.object, class_name)
        return None if given == class_name else f"{described(arg)} ({given})"

    # Results.

    def _check_results(
        self, line: ExternKernel, schema: OpSchema, bound: list[tuple[SchemaArg, Arg]]
    ) -> None:
        seen: set[tuple[int | str, ...]] = set()
        for result in line.results:
            type_ = self._leaf(line, schema, result, repeated=result.path in seen)
            seen.add(result.path)
            if type_ is not None:
                self._check_kind(line, result, type_)
            if isinstance(result, ResultBuffer):
                check_alias_source(self.state, result, [arg for _, arg in bound])
                if type_ is not None and type_.is_tensor:
                    self._check_relation(line, result, type_, bound)

    def _leaf(
        self, line: ExternKernel, schema: OpSchema, result: OpResult, *, repeated: bool
    ) -> SchemaType | None:
        """The type that the schema gives for a result's path, ``None`` where it gives none."""
        type_, why = _resolve(schema, result.path)
        if repeated:
            why = " that is not bound already"
        if why:
            self.state.report(
                rules.BAD_RESULT_PATH,
                name=shown(line.op),
                path=_path(result.path),
                why=why,
                returns=", ".join(r.base + r.suffix for r in schema.returns) or "none",
            )
            return None
        return type_

    def _check_kind(self, line: ExternKernel, result: OpResult, type_: SchemaType) -> None:
        """Checks that a result is of the kind that the op returns."""
        wanted, given = self._misfit_result(result, type_)
        if wanted:
            self.state.report(
                rules.BAD_RESULT_KIND,
                name=shown(line.op),
                path=_path(result.path),
                expected=wanted,
                given=given,
            )

    def _misfit_result(self, result: OpResult, type_: SchemaType) -> tuple[str, str]:
        """Describe what the op returns and what the result is; two empty texts if it fits."""
        if isinstance(result, ResultBuffer):
            given, fits = "a buffer", not type_.class_name and type_.base not in _SCALARS
        elif isinstance(result, ResultObject):
            given = f"an object of class {result.class_name}"
            fits = type_.class_name == result.class_name
        else:
            given, fits = "a symbol", not type_.class_name and not type_.is_tensor
            info = self.state.program.symbols.get(result.symbol)
            kinds = _SCALARS.get(type_.base)
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
        line: ExternKernel,
        result: ResultBuffer,
        type_: SchemaType,
        bound: list[tuple[SchemaArg, Arg]],
    ) -> None:
        """Checks a result's relation to the arguments against the schema's alias sets."""
        sets = type_.alias_sets
        given = result.relation.value.replace("_", "-")
        if not sets:
            if result.relation is Relation.ALIAS:
                self._report_relation(line, result, given, "fresh")
            return
        legal = {
            buffer.buffer
            for declared, arg in bound
            if "*" in sets or sets & declared.type.alias_sets
            for buffer in buffers_in(arg)
        }
        position = handed_over(line.op)
        if position is not None and position < len(line.args):
            legal.update(buffer.buffer for buffer in buffers_in(line.args[position]))
        listed = ", ".join(f"%{name}" for name in sorted(legal)) or "an argument"
        if result.relation is Relation.FRESH:
            self._report_relation(line, result, given, f"a view of {listed}")
        elif not legal.issuperset(result.of):
            sources = ", ".join(f"%{name}" for name in result.of)
            self._report_relation(line, result, f"{given} of {sources}", f"a view of {listed}")

    def _report_relation(
        self, line: ExternKernel, result: ResultBuffer, given: str, expected: str
    ) -> None:
        self.state.report(
            rules.BAD_RELATION,
            result=result.out,
            given=given,
            name=shown(line.op),
            expected=expected,
        )


def check_alias_source(state: State, result: ResultBuffer, args: Iterable[Arg]) -> None:
    """Checks that a view says of which argument, and that any other result is a view of none."""
    given = result.relation.value.replace("_", "-")
    fault = ("", "")
    if result.relation is Relation.FRESH:
        if result.of:
            fault = ("but names what it is a view of", "declare it as alias or may-alias")
    elif result.relation is Relation.HELD:
        if result.of:
            fault = ("but names what it is a view of", "declare it as alias or may-alias")
        elif not any(isinstance(arg, ObjectArg) for arg in args):
            fault = ("but the call is given no object", "declare it as fresh")
    elif not result.of:
        fault = ("but not of what", "name the argument that it is a view of")
    else:
        buffers = {buffer.buffer for arg in args for buffer in buffers_in(arg)}
        strangers = [name for name in result.of if name not in buffers]
        if strangers:
            fault = (f"but %{strangers[0]} is not an argument of the call", "name an argument")
    if fault[0]:
        state.report(
            rules.BAD_ALIAS_SOURCE, result=result.out, given=given, why=fault[0], fix=fault[1]
        )


def buffers_in(arg: Arg) -> Iterator[BufferArg]:
    """The buffers of an argument, those in lists included."""
    if isinstance(arg, BufferArg):
        yield arg
    elif isinstance(arg, ListArg):
        for item in arg.items:
            yield from buffers_in(item)


def _resolve(schema: OpSchema, path: tuple[int | str, ...]) -> tuple[SchemaType | None, str]:
    """The type at a path, or why there is none; types that are not modelled give neither."""
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
    if suffix:
        return None, ": it is a list there"
    return type_, ""


def _path(path: tuple[int | str, ...]) -> str:
    return "".join(f"[{step!r}]" for step in path) or "the top"


def _may_be_undefined(op: str, declared: SchemaArg) -> bool:
    """Return whether an argument may be none though its schema does not say so.

    Torch makes an undefined tensor of it, for every op. Backward ops take that for what their
    forward did not have, and so do ops from outside whose schema is careless; torch's others fail.
    """
    namespace, _, name = op.rpartition("::")
    takes_any = namespace != "aten" or name.partition(".")[0].endswith("_backward")
    return takes_any and (declared.type.base, declared.type.suffix) == ("Tensor", "")
