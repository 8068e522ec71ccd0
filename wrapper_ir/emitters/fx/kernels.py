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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from torch import Tensor
from typing_extensions import override

from wrapper_ir.emitters.fx import checks as _checks  # noqa: F401 - graphs need its ops too
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.checks import KernelDeviceError
from wrapper_ir.emitters.fx.library import is_packed, packed_params, unpack
from wrapper_ir.emitters.fx.triton import declare_launched, kernel_index
from wrapper_ir.emitters.kernel_types import cpp_source
from wrapper_ir.lines.kernels import BufferParam, CppKernel, KernelDefinition, ScalarType
from wrapper_ir.runtime import load_kernels

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

    form: KernelForm
    siblings: tuple[str, ...] = ()
    function: Callable[..., None] | None = None


_declared: Final[dict[str, _Kernel]] = {}
_forms: Final[dict[str, KernelForm]] = {}


@dataclass(frozen=True, slots=True)
class KernelForm:
    """Form in which a kernel is called: its own, or one that hands it memory and places in that.

    Where a call sees several parts of one memory, its op takes each such memory, then the kernel's
    parameters in their order, where a part of memory is the number of bytes from the memory's first
    element::

        cat_5d1e9a0b7c6f4e21_at_x_0_0(
            Tensor(m0!) memory0, Tensor in_ptr0, SymInt out_ptr0, SymInt out_ptr1) -> ()

    Attributes:
        definition: The kernel.
        memories: For each parameter the number of the memory that it is part of; ``None`` for
            what is handed over as it is. Nothing for the kernel's own op.
    """

    definition: KernelDefinition
    memories: tuple[int | None, ...] = ()

    @property
    def count(self) -> int:
        """Number of memories."""
        return 1 + max((number for number in self.memories if number is not None), default=-1)

    @property
    def parts(self) -> tuple[tuple[Param, int | None], ...]:
        """The kernel's parameters, each with the number of its memory."""
        params = self.definition.params
        return tuple(zip(params, self.memories or (None,) * len(params), strict=True))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of arguments that the op takes, packed or not."""
        own = (_kind(param) if number is None else "SymInt" for param, number in self.parts)
        return ("Tensor!",) * self.count + tuple(own)

    @property
    def name(self) -> str:
        """The name of the op, the same in every process."""
        plain = op_name(self.definition)
        numbers = ["x" if number is None else str(number) for number in self.memories]
        return f"{plain}_at_{'_'.join(numbers)}" if numbers else plain

    @property
    def schema(self) -> str:
        """The schema of the op, without the namespace."""
        if is_packed(self.kinds):
            return f"{self.name}({', '.join(packed_params(self.kinds))}) -> ()"
        taken: set[str] = set()
        texts = [f"Tensor(m{n}!) {_param_name(f'memory{n}', n, taken)}" for n in range(self.count)]
        for position, (param, number) in enumerate(self.parts):
            name = _param_name(param.name, position, taken)
            alias = f"Tensor(a{position}!)" if _kind(param) == "Tensor!" else _kind(param)
            texts.append(f"{alias if number is None else 'SymInt'} {name}")
        return f"{self.name}({', '.join(texts)}) -> ()"

    def passed(self, args: Sequence[Any]) -> list[Any]:
        """Return what the kernel's function takes for the arguments of the op, not packed."""
        memories, own = args[: self.count], args[self.count :]
        pairs = zip(self.parts, own, strict=True)
        return [arg if number is None else (memories[number], arg) for (_, number), arg in pairs]


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


def _kind(param: Param) -> str:
    if isinstance(param, BufferParam):
        return "Tensor!" if param.access.writes else "Tensor"
    return _SCHEMA_SCALARS[param.type]


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
                _declared[name] = _Kernel(KernelForm(definition), tuple(wanted))
            declare_form(_declared[name].form)
    return {each.name: library.overload(name) for name, each in wanted.items()}


def declare_form(form: KernelForm) -> Any:
    """Declare the op of one form of a kernel, which is declared already; gives its overload."""
    with library.LOCK:
        if form.name not in _forms:
            _register(form)
            _forms[form.name] = form
    return library.overload(form.name)


def form_named(name: str) -> KernelForm | None:
    """The form of a kernel that an op is, if it is one."""
    return _forms.get(name)


def _register(form: KernelForm) -> None:
    kinds, kernel, plain = form.kinds, form.definition.name, op_name(form.definition)
    library.define(form.schema, _nothing)

    def direct(*args: object) -> None:
        _refuse_devices(kernel, args)
        _built(plain)(*form.passed(args))

    def first(*args: Any) -> None:
        direct(*unpack(kinds, args))

    # Where a backend has an implementation of its own, this one does not count: so once a kernel
    # is compiled nothing has to be taken back, and calls that are under way are not disturbed.
    library.implement(form.name, first, "CompositeExplicitAutograd", direct=direct)


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
    functions = load_kernels(*(cpp_source(_declared[n].form.definition) for n in missing))
    with library.LOCK:
        for name, function in zip(missing, functions, strict=True):
            if _declared[name].function is None:
                _implement(_declared[name].form, function)
                _declared[name].function = function


def _implement(form: KernelForm, function: Callable[..., None]) -> None:
    """Makes a kernel's binding the implementation of its op, as it is if it takes no lists."""
    kinds = form.kinds
    if not is_packed(kinds):
        library.implement(form.name, function, "CPU")
        return

    def unpacked(*args: Any) -> None:
        function(*unpack(kinds, args))

    library.implement(form.name, unpacked, "CPU", direct=function)


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
        forms = [*map(KernelForm, self.definitions), *self.forms]
        launched = {str(kernel_index(each)): (each, ()) for each in self.launched}
        return {**launched, **{form.name: (form.definition, form.memories) for form in forms}}

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
