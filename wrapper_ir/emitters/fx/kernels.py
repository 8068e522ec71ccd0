"""C++ kernels as ops of torch's registry, so that graphs can call them like any other op.

An op is named after its kernel and a digest of all that the kernel is (text, parameters,
instruction set, flags). So it is declared once a process however often it is emitted, two programs
with the same kernel share it, and two kernels that merely have the same name do not. What a kernel
writes is said by the schema: ``Tensor(a0!)``.

Declaring costs microseconds and compiles nothing. The kernels of a program are compiled together,
when it is loaded or when the first of them is run. A kernel's binding is then the op's
implementation for the CPU as it is, without a Python function in between.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor
from typing_extensions import override

from wrapper_ir.emitters.fx import checks as _checks  # noqa: F401 - graphs need its ops too
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx import probes as _probes  # noqa: F401 - likewise
from wrapper_ir.emitters.fx.errors import KernelDeviceError
from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.lines.kernels import BufferParam, CppKernel, KernelDefinition, ScalarType
from wrapper_ir.runtime import CppSource, load_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines.program import Program

__all__ = [
    "KERNELS",
    "KernelSet",
    "build",
    "declare",
    "declare_kernels",
    "op_name",
    "op_schema",
]

KERNELS: Final = "wrapper_ir_kernels"
"""The attribute of a graph module that holds its :class:`KernelSet`."""

_SCHEMA_SCALARS: Final = {
    ScalarType.INT64: "SymInt",
    ScalarType.INT32: "SymInt",
    ScalarType.UINT64: "SymInt",
    # Not float and bool: those would take a number that is symbolic for the one it is by chance.
    ScalarType.FLOAT64: "Scalar",
    ScalarType.FLOAT32: "Scalar",
    ScalarType.BOOL: "Scalar",
}

#: An op's name has this much of its kernel's: Inductor's may list fifty ops.
_NAME_LENGTH: Final = 48

_PLAIN_PARAM: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)


@dataclass(slots=True)
class _Kernel:
    """A declared kernel; ``siblings`` are the ops that are compiled with it."""

    name: str
    source: CppSource
    siblings: tuple[str, ...] = ()
    function: Callable[..., None] | None = field(default=None)


_declared: Final[dict[str, _Kernel]] = {}


def op_name(definition: KernelDefinition) -> str:
    """The name of a kernel's op, the same in every process."""
    source = definition.source
    assert isinstance(source, CppKernel)
    params = [
        (
            (p.name, p.dtype.short, p.access.value)
            if isinstance(p, BufferParam)
            else (p.name, p.type.value)
        )
        for p in definition.params
    ]
    parts = [source.code, source.entry, source.isa, source.flags, params]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return f"{definition.name.strip('_')[:_NAME_LENGTH].strip('_') or 'kernel'}_{digest}"


def op_schema(definition: KernelDefinition) -> str:
    """The schema of a kernel's op, without the namespace."""
    taken: set[str] = set()
    texts = []
    for position, param in enumerate(definition.params):
        name = _param_name(param.name, position, taken)
        if isinstance(param, BufferParam):
            alias = f"(a{position}!)" if param.access.writes else ""
            texts.append(f"Tensor{alias} {name}")
        else:
            texts.append(f"{_SCHEMA_SCALARS[param.type]} {name}")
    return f"{op_name(definition)}({', '.join(texts)}) -> ()"


#: Words that schemas are made of, and what torch's own functions on ops call their parameters.
_SCHEMA_WORDS: Final = frozenset(
    ("bool", "complex", "device", "float", "int", "layout", "op", "self", "str", "t", "tensor")
)


def _param_name(name: str, position: int, taken: set[str]) -> str:
    """A parameter's name, or a plain one where a schema could not have it."""
    plain = _PLAIN_PARAM.fullmatch(name) and not keyword.iskeyword(name)
    if not plain or name in _SCHEMA_WORDS or name in taken:
        name = f"arg{position}"
        while name in taken:
            name += "x"
    taken.add(name)
    return name


def declare(definitions: Iterable[KernelDefinition]) -> dict[str, Any]:
    """Declare C++ kernels that are to be compiled together; gives the op of each by kernel name."""
    wanted = {op_name(definition): definition for definition in definitions}
    with library.LOCK:
        for name, definition in wanted.items():
            if name not in _declared:
                _declare(name, definition, tuple(wanted))
    return {each.name: library.overload(name) for name, each in wanted.items()}


def _declare(name: str, definition: KernelDefinition, siblings: tuple[str, ...]) -> None:
    source = definition.source
    assert isinstance(source, CppKernel)
    types = tuple(cpp_type(param) or "" for param in definition.params)
    cpp = CppSource(definition.name, source.code, types, source.entry, source.isa, source.flags)
    library.define(op_schema(definition), _nothing)

    def first(*args: object) -> None:
        for arg in args:
            if isinstance(arg, Tensor) and arg.device.type != "cpu":
                raise KernelDeviceError(kernel=definition.name, device=str(arg.device))
        build(siblings)
        function = _declared[name].function
        assert function is not None
        function(*args)

    # Where a backend has an implementation of its own, this one does not count: so once a kernel
    # is compiled nothing has to be taken back, and calls that are under way are not disturbed.
    library.implement(name, first, "CompositeExplicitAutograd")
    _declared[name] = _Kernel(name, cpp, siblings)


def _nothing(*_: object) -> None:
    """What a kernel does to tensors without data."""


def build(names: Sequence[str]) -> None:
    """Compile what is not compiled yet of declared kernels, all at once.

    Raises:
        WrapperIRError: As ``wrapper_ir.toolchain.build_kernels`` says.
    """
    missing = [name for name in names if _declared[name].function is None]
    if not missing:
        return
    functions = load_kernels(*(_declared[name].source for name in missing))
    with library.LOCK:
        for name, function in zip(missing, functions, strict=True):
            if _declared[name].function is None:
                library.implement(name, function, "CPU")
                _declared[name].function = function


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels that a graph calls. Unpickling one declares them.

    A graph module carries it, so that one that was pickled finds its ops in another process.
    """

    definitions: tuple[KernelDefinition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the ops."""
        return tuple(dict.fromkeys(map(op_name, self.definitions)))

    def build(self) -> None:
        """Compile what is not compiled yet."""
        build(self.names)

    @override
    def __reduce__(self) -> tuple[Callable[..., KernelSet], tuple[object, ...]]:
        return _declared_set, (self.definitions,)

    def __deepcopy__(self, _: object) -> KernelSet:
        return self


def _declared_set(definitions: tuple[KernelDefinition, ...]) -> KernelSet:
    declare(definitions)
    return KernelSet(definitions)


def declare_kernels(program: Program) -> KernelSet:
    """Declare the C++ kernels of a program, so that graphs made of it elsewhere find their ops.

    For files of torch's own that name ops and do not hold them: ``torch.export.save``,
    ``GraphModule.to_folder``.

    Args:
        program: The program that the graph was emitted from.
    """
    found = [d for d in program.kernels.values() if isinstance(d.source, CppKernel)]
    return _declared_set(tuple(found))
