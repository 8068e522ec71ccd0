"""C++ kernels as ops of torch's registry, so that graphs can call them like any other op.

An op is named after its kernel and a digest of all that the kernel is (text, parameters,
instruction set, flags). So it is declared once a process however often it is emitted, two programs
with the same kernel share it, and two kernels that merely have the same name do not. What a kernel
writes is said by the schema: ``Tensor(a0!)``.

Declaring costs microseconds and compiles nothing. The kernels of a program are compiled together,
when it is loaded or when the first of them is run. A kernel's binding is then the op's
implementation for the CPU as it is, without a Python function in between.

A kernel has further ops where a call hands it memory of which it sees several parts, one of them
written. To make a graph functional, torch gives a call its own copy of what it writes, and other
arguments as they were before: through those, a kernel would read old values. Such an op takes that
memory once, and for each part the byte at which it begins: see :class:`KernelForm`.

A kernel of more parameters than an op may have takes them in lists: see ``packing``.
"""

from __future__ import annotations

import hashlib
import json
import keyword
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor
from typing_extensions import override

from wrapper_ir.emitters.fx import checks as _checks  # noqa: F401 - graphs need its ops too
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.checks import KernelDeviceError
from wrapper_ir.emitters.fx.library import is_packed, packed_params, unpack
from wrapper_ir.emitters.fx.triton import declare_launched, kernel_index
from wrapper_ir.emitters.kernel_types import cpp_type
from wrapper_ir.lines.kernels import BufferParam, CppKernel, KernelDefinition, ScalarType
from wrapper_ir.runtime import CppSource, load_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wrapper_ir.lines.kernels import Param


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


@dataclass(slots=True)
class _Kernel:
    """A declared kernel; ``siblings`` are the ops that are compiled with it."""

    name: str
    source: CppSource
    kinds: tuple[str, ...]
    siblings: tuple[str, ...] = ()
    function: Callable[..., None] | None = field(default=None)


_declared: Final[dict[str, _Kernel]] = {}
_forms: Final[dict[str, KernelForm]] = {}


@dataclass(frozen=True, slots=True)
class KernelForm:
    """Form in which a call hands a kernel memory of which it sees several parts.

    Its op takes each such memory, then the kernel's parameters in their order, where a part of
    memory is the number of bytes from the memory's first element::

        cat_5d1e9a0b7c6f4e21_at_x_0_0(
            Tensor(m0!) memory0, Tensor in_ptr0, SymInt out_ptr0, SymInt out_ptr1) -> ()

    Attributes:
        definition: The kernel.
        memories: For each parameter the number of the memory that it is part of; ``None`` for
            what is handed over as it is.
    """

    definition: KernelDefinition
    memories: tuple[int | None, ...]

    @property
    def count(self) -> int:
        """Number of memories."""
        return 1 + max((number for number in self.memories if number is not None), default=-1)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of arguments that the op takes, packed or not."""
        own = zip(kernel_kinds(self.definition), self.memories, strict=True)
        return ("Tensor!",) * self.count + tuple(k if n is None else "SymInt" for k, n in own)

    @property
    def name(self) -> str:
        """The name of the op, the same in every process."""
        parts = ["x" if number is None else str(number) for number in self.memories]
        return f"{op_name(self.definition)}_at_{'_'.join(parts)}"

    @property
    def schema(self) -> str:
        """The schema of the op, without the namespace."""
        if is_packed(self.kinds):
            return f"{self.name}({', '.join(packed_params(self.kinds))}) -> ()"
        taken: set[str] = set()
        texts = [f"Tensor(m{n}!) {_param_name(f'memory{n}', n, taken)}" for n in range(self.count)]
        for position, (param, number) in enumerate(
            zip(self.definition.params, self.memories, strict=True)
        ):
            if number is None:
                texts.append(_schema_param(param, position, taken))
            else:
                texts.append(f"SymInt {_param_name(param.name, position, taken)}")
        return f"{self.name}({', '.join(texts)}) -> ()"


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


def kernel_kinds(definition: KernelDefinition) -> tuple[str, ...]:
    """Return the kinds of arguments that a kernel's op takes, packed or not."""
    return tuple(map(_kind, definition.params))


def _kind(param: Param) -> str:
    if isinstance(param, BufferParam):
        return "Tensor!" if param.access.writes else "Tensor"
    return _SCHEMA_SCALARS[param.type]


def op_schema(definition: KernelDefinition) -> str:
    """The schema of a kernel's op, without the namespace."""
    taken: set[str] = set()
    kinds = kernel_kinds(definition)
    if is_packed(kinds):
        texts = packed_params(kinds)
    else:
        texts = [_schema_param(param, n, taken) for n, param in enumerate(definition.params)]
    return f"{op_name(definition)}({', '.join(texts)}) -> ()"


def _schema_param(param: Param, position: int, taken: set[str]) -> str:
    name = _param_name(param.name, position, taken)
    if isinstance(param, BufferParam):
        alias = f"(a{position}!)" if param.access.writes else ""
        return f"Tensor{alias} {name}"
    return f"{_SCHEMA_SCALARS[param.type]} {name}"


#: Words that schemas are made of, and what torch's own functions on ops call their parameters.
_SCHEMA_WORDS: Final = frozenset(
    ("bool", "complex", "device", "float", "int", "layout", "op", "self", "str", "t", "tensor")
)


def _param_name(name: str, position: int, taken: set[str]) -> str:
    """A parameter's name, or a plain one where a schema could not have it."""
    is_name = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    # Words of small letters with single underscores between them.
    if (
        not (is_name and name.islower() and all(name.split("_")))
        or name in _SCHEMA_WORDS
        or name in taken
    ):
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
    kinds = kernel_kinds(definition)
    library.define(op_schema(definition), _nothing)

    def direct(*args: object) -> None:
        _refuse_devices(definition.name, args)
        _built(name)(*args)

    def first(*args: Any) -> None:
        direct(*unpack(kinds, args))

    # Where a backend has an implementation of its own, this one does not count: so once a kernel
    # is compiled nothing has to be taken back, and calls that are under way are not disturbed.
    library.implement(name, first, "CompositeExplicitAutograd", direct=direct)
    _declared[name] = _Kernel(name, cpp, kinds, siblings)


def declare_form(form: KernelForm) -> Any:
    """Declare the op of one form of a kernel, which is declared already; gives its overload."""
    with library.LOCK:
        if form.name not in _forms:
            _declare_form(form)
            _forms[form.name] = form
    return library.overload(form.name)


def form_named(name: str) -> KernelForm | None:
    """The form of a kernel that an op is, if it is one."""
    return _forms.get(name)


def kinds_named(name: str) -> tuple[str, ...]:
    """Return the kinds of arguments of a kernel's op by its name; none if it is not one."""
    return _declared[name].kinds if name in _declared else ()


def _declare_form(form: KernelForm) -> None:
    count, memories, plain = form.count, form.memories, op_name(form.definition)
    kinds = form.kinds
    library.define(form.schema, _nothing)

    def elsewhere(*packed: Any) -> None:
        _refuse_devices(form.definition.name, unpack(kinds, packed))
        run(*packed)

    def run(*packed: Any) -> None:
        args = unpack(kinds, packed)
        parts = zip(memories, args[count:], strict=True)
        _built(plain)(*[arg if n is None else (args[n], arg) for n, arg in parts])

    library.implement(form.name, elsewhere, "CompositeExplicitAutograd")
    library.implement(form.name, run, "CPU")


def _built(name: str) -> Callable[..., None]:
    """The compiled function of a declared kernel."""
    kernel = _declared[name]
    if kernel.function is None:
        build(kernel.siblings)
    assert kernel.function is not None
    return kernel.function


def _refuse_devices(kernel: str, args: Iterable[object]) -> None:
    for arg in args:
        if isinstance(arg, Tensor) and arg.device.type != "cpu":
            raise KernelDeviceError(kernel=kernel, device=str(arg.device))


def _nothing(*_: object) -> None:
    """Do what a kernel does to tensors without data: nothing."""


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
                _implement(_declared[name], function)
                _declared[name].function = function


def _implement(kernel: _Kernel, function: Callable[..., None]) -> None:
    """Makes a kernel's binding the implementation of its op, as it is if it takes no lists."""
    if not is_packed(kernel.kinds):
        library.implement(kernel.name, function, "CPU")
        return

    def unpacked(*args: Any) -> None:
        function(*unpack(kernel.kinds, args))

    library.implement(kernel.name, unpacked, "CPU", direct=function)


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels that a graph calls. Unpickling one declares them.

    A graph module carries it, so that one that was pickled finds its ops in another process.

    Attributes:
        definitions: The C++ kernels.
        forms: The forms that they are called in besides their own.
        launched: Kernels that are launched over a grid.
    """

    definitions: tuple[KernelDefinition, ...]
    forms: tuple[KernelForm, ...] = ()
    launched: tuple[KernelDefinition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels' own ops."""
        return tuple(dict.fromkeys(map(op_name, self.definitions)))

    @property
    def called(self) -> dict[str, tuple[KernelDefinition, tuple[int | None, ...]]]:
        """The kernels by what nodes call them by: an op's name, or the index of a launched kernel.

        With each comes what its form says of memories, nothing for its own op.
        """
        found: dict[str, tuple[KernelDefinition, tuple[int | None, ...]]] = {}
        found.update((op_name(each), (each, ())) for each in self.definitions)
        found.update((str(kernel_index(each)), (each, ())) for each in self.launched)
        found.update((form.name, (form.definition, form.memories)) for form in self.forms)
        return found

    def build(self) -> None:
        """Compile what is not compiled yet; what is launched, when it is known where it runs."""
        build(self.names)
        declare_launched(self.launched)

    @override
    def __reduce__(self) -> tuple[Callable[..., KernelSet], tuple[object, ...]]:
        return _declared_set, (self.definitions, self.forms, self.launched)

    def __deepcopy__(self, _: object) -> KernelSet:
        return self


def _declared_set(
    definitions: tuple[KernelDefinition, ...],
    forms: tuple[KernelForm, ...] = (),
    launched: tuple[KernelDefinition, ...] = (),
) -> KernelSet:
    declare(definitions)
    for form in forms:
        declare_form(form)
    declare_launched(launched)
    return KernelSet(definitions, forms, launched)
