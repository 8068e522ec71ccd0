"""The program's own tables: names, layouts, constants; declarations of kernels and ops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wrapper_ir.lines import DeviceKernel, SchemaError, TorchOp, parse_schema
from wrapper_ir.lines.schema import QUALIFIED_OP_NAME
from wrapper_ir.verify import rules

if TYPE_CHECKING:
    from collections.abc import Container

    from wrapper_ir.lines import KernelDefinition, OpSchema
    from wrapper_ir.verify.state import Place, State


# The program's own tables: names, layouts, constants.


def check_tables(state: State) -> None:
    """Checks the tables of the program, before its lines are looked at."""
    program = state.program
    check_name(state, program.name, "program", state.here())
    _check_constants(state)
    for name in program.symbols:
        check_name(state, name, "symbol", state.here(f"symbols.{name}"))


def check_layouts_used(state: State, defined: Container[str]) -> None:
    """Checks that each layout belongs to something that is defined, once all lines are known."""
    for name in state.program.buffers:
        if name not in defined and name not in state.buffer_names:
            place = state.here(f"buffers.{name}")
            state.report(rules.LAYOUT_OF_NOTHING, place=place, name=name)


def _check_constants(state: State) -> None:
    constants = state.program.constants
    for name, constant in constants.items():
        place = state.here(f"constants.{name}")
        layout = state.program.buffers.get(name)
        if layout is not None and layout.symbols:
            symbols = ", ".join(sorted(layout.symbols))
            state.report(rules.SYMBOLIC_CONSTANT, place=place, name=name, symbols=symbols)
        tied = constant.tied_to
        if tied is None:
            continue
        holder = constants.get(tied)
        if holder is None:
            why = "is not a constant of the program"
        elif holder.tied_to is not None:
            why = "is itself tied to another" if tied != name else "is itself"
        else:
            continue
        state.report(rules.BAD_TIE, place=place, name=name, tied=tied, why=why)


# Declarations of kernels and library ops: once, before use, outside regions, well formed.

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Kernels:
    """Kernels and ops that calls may name, as far as the program declared them."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._declared: dict[str, tuple[KernelDefinition, Place]] = {}
        self._schemas: dict[str, OpSchema] = {}

    def declare(self, line: KernelDefinition) -> None:
        """Checks a declaration and enters it."""
        place = self.state.here()
        if self.state.frame is not self.state.root:
            self.state.report(rules.KERNEL_IN_REGION, name=shown(line.name))
        if line.name in self._declared:
            first = f"at {self._declared[line.name][1]}"
            self.state.report(rules.KERNEL_TWICE, name=shown(line.name), first=first)
            return
        self._declared[line.name] = (line, place)
        if isinstance(line.source, TorchOp):
            self._check_op(line, line.source)
        else:
            check_name(self.state, line.name, "kernel")
            self._check_params(line)
            self._check_entry(line)

    def find(self, name: str) -> KernelDefinition | None:
        """The declaration of ``name``, which must have come before; reports it otherwise."""
        found = self._declared.get(name)
        if found is not None:
            return found[0]
        names = self.state.kernel_names
        self.state.report(
            rules.UNKNOWN_KERNEL,
            name=shown(name),
            later=self.state.later(name, names),
            near=self.state.near(name, names),
        )
        return None

    def schema(self, name: str) -> OpSchema | None:
        """The schema of a declared op, ``None`` where it could not be read."""
        return self._schemas.get(name)

    def _check_op(self, line: KernelDefinition, source: TorchOp) -> None:
        if QUALIFIED_OP_NAME.fullmatch(line.name) is None:
            self.state.report(rules.BAD_NAME, name=line.name, what="library op")
        try:
            schema = parse_schema(source.schema)
        except SchemaError as error:
            fields = error.fields
            self.state.report(
                rules.BAD_SCHEMA,
                name=shown(line.name),
                reason=fields["reason"],
                column=fields["column"],
            )
            return
        if schema.name != line.name:
            why = f"with the schema of {schema.name}"
            self.state.report(rules.BAD_OP_DECLARATION, name=shown(line.name), why=why)
        elif line.params:
            why = "with parameters besides its schema"
            self.state.report(rules.BAD_OP_DECLARATION, name=shown(line.name), why=why)
        elif source.is_method and not _is_method(schema):
            why = "as a method, but its first argument is no object of the class"
            self.state.report(rules.BAD_OP_DECLARATION, name=shown(line.name), why=why)
        else:
            self._schemas[line.name] = schema

    def _check_params(self, line: KernelDefinition) -> None:
        seen: set[str] = set()
        for param in line.params:
            check_name(self.state, param.name, "parameter")
            if param.name in seen:
                self.state.report(rules.BAD_PARAM, name=shown(line.name), param=param.name)
            seen.add(param.name)

    def _check_entry(self, line: KernelDefinition) -> None:
        if not isinstance(line.source, TorchOp):
            check_name(self.state, line.source.entry, "kernel's entry")
        if isinstance(line.source, DeviceKernel):
            self._check_group(line, line.source)

    def _check_group(self, line: KernelDefinition, source: DeviceKernel) -> None:
        if len(source.group) > 3 or any(size < 1 for size in source.group):
            sizes = ", ".join(map(str, source.group))
            self.state.report(rules.BAD_GROUP, name=shown(line.name), sizes=sizes)


def _is_method(schema: OpSchema) -> bool:
    """Return whether the first argument is of the class that the name begins with."""
    class_name, _, method = schema.name.partition(".")
    return bool(method and schema.args) and schema.args[0].type.class_name == class_name


def shown(name: str) -> str:
    """A kernel's or op's name as the text form writes it in calls."""
    return name if "::" in name else f"@{name}"


def check_name(state: State, name: str, what: str, place: Place | None = None) -> None:
    """Checks that a name is ASCII letters, digits and underscores, not beginning with a digit."""
    if IDENTIFIER.fullmatch(name) is None:
        state.report(rules.BAD_NAME, place=place, name=name, what=what)
