"""C++ kernels as ops in torch's registry, so that graphs can call them like any other op.

An op is named after its kernel and a digest of the kernel (text, parameters, instruction set,
flags). So it is declared once per process, programs with the same kernel share it, and different
kernels of the same name do not collide. The schema marks the written arguments: ``Tensor(a0!)``.

Declaring an op costs microseconds and compiles nothing. The kernels of a program are compiled
together, when it is loaded or when the first of them runs. After that, the kernel's binding is the
op's CPU implementation, without a Python function in between.

A kernel has more ops for calls with arguments that overlap and are written. To functionalize a
graph, torch gives a call its own copy of each written argument and leaves the others as they were,
so the kernel would read stale values through those. Such an op takes the shared memory once, and
for each argument the byte offset into it: see :class:`KernelForm`.

An op of a kernel with more parameters than torch allows takes them in lists: see ``library.pack``.
"""

from __future__ import annotations

import hashlib
import json
import keyword
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor
from typing_extensions import override

from wrapper_ir.emitters.fx import checks as _checks  # noqa: F401 - graphs need its ops too
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.checks import KernelDeviceError
from wrapper_ir.emitters.fx.library import is_packed, packed_params, unpack
from wrapper_ir.emitters.fx.triton import declare_launched, kernel_index
from wrapper_ir.emitters.kernel_types import cpp_source
from wrapper_ir.lines.kernels import BufferParam, CppKernel, KernelDefinition, Param, ScalarType
from wrapper_ir.runtime import load_kernels

KERNELS: Final = "wrapper_ir_kernels"
"""The attribute of a graph module that holds its :class:`KernelSet`."""

_SCHEMA_SCALARS: Final = {
    ScalarType.INT64: "SymInt",
    ScalarType.INT32: "SymInt",
    ScalarType.UINT64: "SymInt",
    # Not float and bool, which would specialize a symbolic number to its hint.
    ScalarType.FLOAT64: "Scalar",
    ScalarType.FLOAT32: "Scalar",
    ScalarType.BOOL: "Scalar",
}

#: The maximum length of a kernel's name in the name of its op: Inductor's may list fifty ops.
_NAME_LENGTH: Final = 48


@dataclass(slots=True)
class _Kernel:
    """A declared kernel; ``siblings`` are the ops that are compiled together with it."""

    form: KernelForm
    siblings: tuple[str, ...] = ()
    function: Callable[..., None] | None = None


_declared: Final[dict[str, _Kernel]] = {}
_forms: Final[dict[str, KernelForm]] = {}


@dataclass(frozen=True, slots=True)
class KernelForm:
    """The form of a call to a kernel: the plain one, or one with shared memory and places in it.

    If arguments share memory, the op takes each shared memory first, then the kernel's parameters
    in order. A parameter in shared memory is given by its offset in bytes from the memory's first
    element::

        cat_5d1e9a0b7c6f4e21_at_x_0_0(
            Tensor(m0!) memory0, Tensor in_ptr0, SymInt out_ptr0, SymInt out_ptr1) -> ()

    Attributes:
        definition: The kernel.
        memories: For each parameter the index of its shared memory, or ``None`` if it is passed as
            it is. Empty for the plain form.
    """

    definition: KernelDefinition
    memories: tuple[int | None, ...] = ()

    @property
    def count(self) -> int:
        """The number of shared memories."""
        return 1 + max((number for number in self.memories if number is not None), default=-1)

    @property
    def parts(self) -> tuple[tuple[Param, int | None], ...]:
        """The kernel's parameters, each with the index of its shared memory."""
        params = self.definition.params
        return tuple(zip(params, self.memories or (None,) * len(params), strict=True))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the op's arguments, before packing."""
        own = (_kind(param) if number is None else "SymInt" for param, number in self.parts)
        return ("Tensor!",) * self.count + tuple(own)

    @property
    def name(self) -> str:
        """The name of the op, which is the same in every process."""
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
        """Convert unpacked arguments of the op to arguments of the kernel's function."""
        memories, own = args[: self.count], args[self.count :]
        pairs = zip(self.parts, own, strict=True)
        return [arg if number is None else (memories[number], arg) for (_, number), arg in pairs]


def op_name(definition: KernelDefinition) -> str:
    """Return the name of a kernel's op, which is the same in every process."""
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


#: Keywords of schemas, and parameter names of torch's own functions on ops.
_SCHEMA_WORDS: Final = frozenset(
    ("bool", "complex", "device", "float", "int", "layout", "op", "self", "str", "t", "tensor")
)


def _param_name(name: str, position: int, taken: set[str]) -> str:
    """Return a parameter's name, or a generic one if a schema does not allow it."""
    is_name = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    # Schemas allow lower-case words joined by single underscores.
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
    """Declare C++ kernels that compile together, and return the op of each by kernel name."""
    by_op = {op_name(definition): definition for definition in definitions}
    with library.LOCK:
        for name, definition in by_op.items():
            if name not in _declared:
                _declared[name] = _Kernel(KernelForm(definition), tuple(by_op))
            declare_form(_declared[name].form)
    return {each.name: library.overload(name) for name, each in by_op.items()}


def declare_form(form: KernelForm) -> Any:
    """Declare the op of one form of a declared kernel, and return its overload."""
    with library.LOCK:
        if form.name not in _forms:
            _register(form)
            _forms[form.name] = form
    return library.overload(form.name)


def form_named(name: str) -> KernelForm | None:
    """Return the kernel form that an op calls, or ``None`` for other ops."""
    return _forms.get(name)


def _register(form: KernelForm) -> None:
    kinds, kernel, plain = form.kinds, form.definition.name, op_name(form.definition)
    library.define(form.schema, library.nothing)

    def direct(*args: object) -> None:
        _refuse_devices(kernel, args)
        _built(plain)(*form.passed(args))

    def first(*args: Any) -> None:
        direct(*unpack(kinds, args))

    # A backend's own implementation takes precedence over this one. So nothing has to be undone
    # when the kernel has been compiled, and calls in progress are not disturbed.
    library.implement(form.name, first, "CompositeExplicitAutograd", direct=direct)


def _built(name: str) -> Callable[..., None]:
    """Return the compiled function of a declared kernel; compile it if necessary."""
    kernel = _declared[name]
    if kernel.function is None:
        build(kernel.siblings)
    assert kernel.function is not None
    return kernel.function


def _refuse_devices(kernel: str, args: Iterable[object]) -> None:
    for arg in args:
        if isinstance(arg, Tensor) and arg.device.type != "cpu":
            raise KernelDeviceError(kernel=kernel, device=str(arg.device))


def build(names: Sequence[str]) -> None:
    """Compile the declared kernels that are not compiled yet, all at once.

    Raises:
        WrapperIRError: See ``wrapper_ir.toolchain.build_kernels``.
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
    """Register a kernel's binding as the implementation of its op, unless that takes lists."""
    kinds = form.kinds
    if not is_packed(kinds):
        library.implement(form.name, function, "CPU")
        return

    def unpacked(*args: Any) -> None:
        function(*unpack(kinds, args))

    library.implement(form.name, unpacked, "CPU", direct=function)


@dataclass(frozen=True, slots=True)
class KernelSet:
    """The kernels that a graph calls; unpickling it declares them.

    A graph module carries one, so that a pickled module finds its ops in another process. ``forms``
    are those in which C++ kernels are called, apart from the plain ones.
    """

    definitions: tuple[KernelDefinition, ...]
    forms: tuple[KernelForm, ...] = ()
    launched: tuple[KernelDefinition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels' plain ops."""
        return tuple(dict.fromkeys(map(op_name, self.definitions)))

    @property
    def called(self) -> dict[str, tuple[KernelDefinition, tuple[int | None, ...]]]:
        """The kernels by the name of an op, or by the index of a launched kernel.

        Each comes with the ``memories`` of its form. The ATen front end reads it.
        """
        forms = [*map(KernelForm, self.definitions), *self.forms]
        launched = {str(kernel_index(each)): (each, ()) for each in self.launched}
        return {**launched, **{form.name: (form.definition, form.memories) for form in forms}}

    def build(self) -> None:
        """Compile the C++ kernels; declare launched ones, whose device is not known yet."""
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
