"""A program while it is being built: what was said so far, and which names are taken."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.build.arguments import buffers_in
from wrapper_ir.build.errors import (
    ArgumentError,
    ForeignValueError,
    IllegalNameError,
    NameTakenError,
)
from wrapper_ir.build.values import Buffer, Kernel, Object
from wrapper_ir.lines import (
    CPU,
    AnyLine,
    Arg,
    Constant,
    Device,
    Event,
    Frame,
    Input,
    KernelDefinition,
    Layout,
    MemoryPool,
    ObjectConstant,
    Origin,
    Stream,
    SymbolInfo,
    SymbolKind,
    real_symbol,
    symbol,
)
from wrapper_ir.lines.schema import CLASS_NAME

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    import sympy

_HERE: Final = str(Path(__file__).parent)


class Draft:
    """The state that all calls of one builder share."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.definitions: dict[str, KernelDefinition] = {}
        self.layouts: dict[str, Layout] = {}
        self.symbols: dict[str, SymbolInfo] = {}
        self.constants: dict[str, Constant] = {}
        self.objects: dict[str, ObjectConstant] = {}
        self.streams: list[Stream] = []
        self.events: list[Event] = []
        self.mempools: list[MemoryPool] = []
        #: Where lines go that do not say so.
        self.stream = self.mempool = 0
        self.values: dict[str, object] = {}
        self.origins: list[Origin] = []
        #: Lines of the region being built, innermost last.
        self.bodies: list[list[AnyLine]] = [[]]
        #: Symbols that a line or an input binds.
        self.bound: set[str] = set()
        self.input_origins: dict[Input, int] = {}
        self._origin_ids: dict[tuple[str, int], int] = {}
        self._counts: dict[str, int] = {}
        self._object_names: set[str] = set()

    def add(self, line: AnyLine) -> None:
        """Appends a line to the region being built."""
        self.bodies[-1].append(line)

    def take_input(self, item: Input) -> None:
        """Appends an input."""
        self.inputs.append(item)
        self.input_origins.setdefault(item, self.here())

    def tied(self, value: object) -> str | None:
        """The constant that has this very tensor for its value already."""
        if value is None:
            return None
        same = (name for name, known in self.values.items() if known is value)
        return next(same, None)

    def place(self, args: Sequence[Arg], default: Device) -> tuple[Device, int]:
        """Return the default device and stream of a call: its first buffer's, and the block's."""
        for arg in args:
            for name in buffers_in(arg):
                return self.layouts[name].device, self.stream_on(self.layouts[name].device)
        return default, self.stream_on(default)

    def stream_on(self, device: Device) -> int:
        """The stream of the block, where a device has streams."""
        return 0 if device == CPU else self.stream

    def here(self) -> int:
        """The origin of the user's line that called the builder."""
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to ask for one frame, not all
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
            frame = frame.f_back
        file, number = frame.f_code.co_filename, frame.f_lineno
        known = self._origin_ids.get((file, number))
        if known is not None:
            return known
        code = linecache.getline(file, number).strip()
        self.origins.append(Origin(frames=(Frame(file, number, frame.f_code.co_name, code),)))
        return self._origin_ids.setdefault((file, number), len(self.origins) - 1)

    def origin(self, index: int) -> str:
        """An origin in words, for errors."""
        frame = self.origins[index].frames[0]
        return f"{frame.file}:{frame.line}"

    def define(self, name: str | None, layout: Layout, stem: str = "buf") -> Buffer:
        """A handle of a new buffer."""
        if name is None:
            name = self._fresh(stem, self.layouts)
        self._check(name, "buffer", self.layouts)
        self._check(name, "buffer", self._object_names)
        self.layouts[name] = layout
        return Buffer(name, layout, self)

    def define_object(self, name: str | None, class_name: str) -> Object:
        """A handle of a new object; it shares no name with a buffer."""
        if name is None:
            name = self._fresh("object", {**self.layouts, **dict.fromkeys(self._object_names)})
        self._check(name, "object", self.layouts)
        self._check(name, "object", self._object_names)
        if CLASS_NAME.fullmatch(class_name) is None:
            raise IllegalNameError(name=class_name, what="class")
        self._object_names.add(name)
        return Object(name, class_name, self)

    def declare(self, name: str | None, info: SymbolInfo, stem: str = "u") -> sympy.Symbol:
        """A new symbol."""
        if name is None:
            name = self._fresh(stem, self.symbols)
        self._check(name, "symbol", self.symbols)
        self.symbols[name] = info
        return self.symbol(name)

    def symbol(self, name: str) -> sympy.Symbol:
        """The symbol of a declared name."""
        is_real = self.symbols[name].kind is SymbolKind.FLOAT
        return real_symbol(name) if is_real else symbol(name)

    def define_kernel(self, definition: KernelDefinition) -> Kernel:
        """A handle of a new kernel."""
        self._check(definition.name, "kernel", self.definitions)
        self.definitions[definition.name] = definition
        return Kernel(definition, self)

    def define_op(self, definition: KernelDefinition) -> None:
        """Keeps the declaration of an op."""
        self.definitions[definition.name] = definition

    def own(self, handle: Buffer) -> Buffer:
        """The handle, which must be of this program.

        Raises:
            ArgumentError: it is no buffer.
            ForeignValueError: it is another program's.
        """
        given: object = handle
        if not isinstance(given, Buffer):
            raise ArgumentError(callee="the builder", reason=f"{given!r} is no buffer of its")
        if handle.owner is not self:
            raise ForeignValueError(what="buffer", name=handle.name)
        return handle

    def own_object(self, handle: Object) -> Object:
        """The handle, which must be of this program.

        Raises:
            ForeignValueError: it is another program's.
        """
        if handle.owner is not self:
            raise ForeignValueError(what="object", name=handle.name)
        return handle

    def own_kernel(self, handle: Kernel) -> KernelDefinition:
        """Return the definition that a handle stands for; it must belong to this program.

        Raises:
            ArgumentError: it is no kernel.
            ForeignValueError: it is another program's.
        """
        given: object = handle
        if not isinstance(given, Kernel):
            raise ArgumentError(callee="the builder", reason=f"{given!r} is no kernel of its")
        if handle.owner is not self:
            raise ForeignValueError(what="kernel", name=handle.definition.name)
        return handle.definition

    def _fresh(self, stem: str, taken: Mapping[str, object]) -> str:
        while True:
            count = self._counts.get(stem, 0)
            self._counts[stem] = count + 1
            if f"{stem}{count}" not in taken:
                return f"{stem}{count}"

    def _check(self, name: str, what: str, taken: Container[str]) -> None:
        if not (name.isascii() and name.isidentifier()):
            raise IllegalNameError(name=name, what=what)
        if name in taken:
            raise NameTakenError(name=name, what=what)
