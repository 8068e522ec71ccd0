"""Calls: conversion of arguments for torch, and checks of results against their lines."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch
from torch import Tensor

import wrapper_ir.lines as ir
from wrapper_ir.devices import DeviceKind, KernelLanguage, named
from wrapper_ir.emitters.kernel_types import cpp_source, declared_type, launch_problem
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.frame import Buffer, Frame, device_of, dtype_of, torch_device
from wrapper_ir.lines.traits import calls_kernel
from wrapper_ir.runtime import CppSource, InputLayoutError, check_layout, class_of, current_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


# Kernels as functions, and arguments for torch.


Launch: TypeAlias = tuple[str, ir.Device]
"""The name of a kernel and the device to run it on."""


def called_kernels(
    program: ir.Program,
    stand_in: Callable[[ir.KernelDefinition], Callable[..., None]] | None = None,
) -> dict[Launch, Callable[..., None]]:
    """Return the kernels of a program, compiled for the devices that they are called on.

    The functions take the grid, which is empty for C++ kernels, and the arguments. ``stand_in``
    makes one for a kernel of another device than the host.
    """
    found: dict[Launch, Callable[..., None]] = {}
    sources: dict[tuple[DeviceKind, str, tuple[str, ...]], dict[Launch, CppSource]] = {}
    launched: dict[tuple[KernelLanguage, ir.Device], dict[str, ir.KernelDefinition]] = {}
    for _, line in ir.walk(program):
        if not calls_kernel(line):
            continue
        definition, device = program.kernels[line.kernel], line.device
        if stand_in is not None and device != ir.CPU:
            found[line.kernel, device] = stand_in(definition)
            continue
        problem = launch_problem(definition.source, device, launchers=True)
        if problem:
            raise UnsupportedError(what=problem, where="the interpreter")
        if isinstance(definition.source, ir.DeviceKernel):
            members = launched.setdefault((definition.source.language, device), {})
            members[line.kernel] = definition
        else:
            source = _source(definition)
            group = (device.kind, source.isa, source.extra_flags)
            sources.setdefault(group, {})[line.kernel, device] = source
    for (kind, isa, flags), called in sources.items():
        distinct = dict.fromkeys(called.values())
        place, options = kind.collection
        kernels = named(place)(isa, extra_flags=flags, **options)
        for source in distinct:
            kernels.add(source.name, source.arg_types, source.code, entry=source.entry)
        loaded = dict(zip(distinct, kernels.load(), strict=True))
        found |= {launch: partial(_call, loaded[source]) for launch, source in called.items()}
    for (language, device), definitions in launched.items():
        for name, launch in _launchers(language, device, definitions):
            found[name, device] = launch
    return found


def _source(line: ir.KernelDefinition) -> CppSource:
    try:
        return cpp_source(line)
    except ValueError:
        what = f"kernel '{line.name}'"
        hint = "it runs C++ kernels, and kernels whose language has a launcher"
        raise UnsupportedError(what=what, where="the interpreter", hint=hint) from None


def _call(kernel: Callable[..., None], _: tuple[int, ...], *args: object) -> None:
    kernel(*args)


def _launchers(
    language: KernelLanguage, device: ir.Device, definitions: Mapping[str, ir.KernelDefinition]
) -> Iterator[tuple[str, Callable[..., None]]]:
    """Load the kernels of a vendor's language for a device, as :class:`devices.Launcher` says."""
    here = current_device(str(device))
    kernels = named(language.launcher)(here)
    for name, definition in definitions.items():
        source = definition.source
        assert isinstance(source, ir.DeviceKernel)
        params = [declared_type(param) for param in definition.params]
        add = partial(kernels.add, name, params, source.code, entry=source.entry)
        add(group=source.group, options=dict(source.options) or None)
    for name, launch in zip(definitions, kernels.load(), strict=True):
        yield name, partial(_launch, launch, language, here)


def _launch(
    launch: Callable[..., None],
    language: KernelLanguage,
    device: torch.device,
    grid: tuple[int, ...],
    *args: object,
) -> None:
    stream = [named(language.stream)(device.index or 0)] if language.stream else []
    launch(grid, *stream, *args)


def find_op(program: ir.Program, name: str) -> Callable[..., Any]:
    """Return the op of torch's registry named ``namespace::name.overload``, or a method."""
    definition = program.kernels.get(name)
    source = None if definition is None else definition.source
    if isinstance(source, ir.TorchOp) and source.is_method:
        method = name.rpartition(".")[2]
        return lambda receiver, *args, **kwargs: getattr(receiver, method)(*args, **kwargs)
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base)
    op: Callable[..., Any] = getattr(packet, overload or "default")
    return op


def value_of(frame: Frame, arg: ir.Arg) -> Any:  # noqa: ANN401 - whatever a call takes
    """Return an argument as torch's value."""
    match arg:
        case ir.BufferArg():
            return frame.find(arg.buffer).tensor
        case ir.ScalarArg():
            return frame.number(arg.value)
        case ir.ObjectArg():
            return frame.objects[arg.object]
        case ir.NoneArg():
            return None
        case ir.StringArg():
            return arg.value
        case ir.DTypeArg():
            return getattr(torch, arg.dtype.torch_name)
        case ir.DeviceArg():
            return torch_device(arg.device)
        case ir.EnumArg():
            return getattr(torch, arg.name)
        case ir.ListArg():
            return [value_of(frame, item) for item in arg.items]


def part(call: str, result: Any, path: tuple[int | str, ...]) -> Any:  # noqa: ANN401 - a result
    """Return the leaf of a result at a path."""
    try:
        for step in path:
            result = result[step] if isinstance(step, int) else getattr(result, step)
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        what = f"it returns nothing at {''.join(f'[{step!r}]' for step in path)}"
        raise mem.BrokenPromiseError(call=call, what=what) from error
    return result


# Writes of calls, compared with the writes that they may make.


class _Memory(NamedTuple):
    """The memory behind some arguments, and a host copy of it from before the call."""

    bytes: Tensor
    before: Tensor
    may_change: Tensor
    names: list[str]
    start: int


class Watch:
    """The memory that a call can reach through its buffers, with its contents before the call."""

    def __init__(self, call: str, args: Sequence[tuple[Buffer, ir.Access]]) -> None:
        self._call = call
        self._args = args
        self._shapes = [_shape(buffer.tensor) for buffer, _ in args]
        self._memories: dict[int, _Memory] = {}
        for buffer, access in args:
            is_object = any(storage.is_object for storage in buffer.storages)
            if not is_object and is_plain(buffer.tensor) and mem.memory_of(buffer.tensor):
                self._note(buffer, access)

    def _note(self, buffer: Buffer, access: ir.Access) -> None:
        key = mem.memory_of(buffer.tensor)
        if key not in self._memories:
            found = mem.all_bytes(buffer.tensor)
            mask = torch.zeros(found.shape, dtype=torch.bool)
            start = next((s.block.start for s in buffer.storages if s.block is not None), 0)
            before = torch.empty_like(found, device="cpu").copy_(found)
            self._memories[key] = _Memory(found, before, mask, [], start)
        memory = self._memories[key]
        memory.names.append(buffer.name)
        if access is not ir.Access.READ:
            elements(memory.may_change, buffer.tensor).fill_(True)  # noqa: FBT003 - a value

    def check(self, storages: Iterable[mem.Storage]) -> None:
        """Compare memory with its contents before the call, and examine red zones of storages."""
        for (buffer, _), before in zip(self._args, self._shapes, strict=True):
            if _shape(buffer.tensor) != before:
                what = f"it resized or moved %{buffer.name}"
                raise mem.BrokenPromiseError(call=self._call, what=what)
        for storage in storages:
            damage = storage.block.damage() if storage.block is not None else ""
            if damage:
                raise mem.RedZoneError(call=self._call, name=storage.owner, where=damage)
        for memory in self._memories.values():
            self._compare(memory)

    def _compare(self, memory: _Memory) -> None:
        stray = (memory.bytes.cpu() != memory.before) & ~memory.may_change
        changed = stray.nonzero()
        if len(changed):
            name, at = memory.names[0], int(changed[0]) - memory.start
            raise mem.StrayWriteError(call=self._call, count=len(changed), name=name, at=at)


def is_plain(tensor: Tensor) -> bool:
    """Return True if a tensor's elements are stored in its memory as they are."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return False
    return not (tensor.is_conj() or tensor.is_neg() or mem.is_bare(tensor))


def _shape(tensor: Tensor) -> object:
    if tensor.layout is not torch.strided:
        return tensor.shape
    return tensor.shape, tensor.stride(), tensor.storage_offset(), mem.memory_of(tensor)


def elements(mask: Tensor, tensor: Tensor) -> Tensor:
    """Return the part of a byte mask that the elements of a tensor occupy."""
    item = tensor.element_size()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    kept = [(n, step) for n, step in pairs if step != 0 or n == 0]
    size = [*(n for n, _ in kept), item]
    stride = [*(step * item for _, step in kept), 1]
    return mask.as_strided(size, stride, tensor.storage_offset() * item)


def byte_mask(tensor: Tensor) -> Tensor:
    """Return which bytes of the memory behind a tensor its elements occupy."""
    mask = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.bool)
    elements(mask, tensor).fill_(True)  # noqa: FBT003 - a value
    return mask


_PACKING: Final = frozenset(
    {"_quantized::_wrapped_linear_prepack", "_quantized::wrapped_fbgemm_pack_gemm_matrix_fp16"}
)
"""Ops whose result is a C++ object in a tensor's memory: a packed weight."""


# Results of calls, compared with their lines and bound to names.


def bind_results(
    frame: Frame,
    call: str,
    results: Sequence[ir.OpResult],
    value: object,
    alive: Iterable[mem.Storage],
) -> list[mem.Storage]:
    """Bind an op's results to names; return the new storages, given all that are alive."""
    known = list(alive)
    made: list[mem.Storage] = []
    for result in results:
        leaf = part(call, value, result.path)
        if isinstance(result, ir.ResultSymbol):
            frame.bind(result.symbol, leaf)
            continue
        if isinstance(result, ir.ResultObject):
            frame.objects[result.object] = _object(call, result, leaf)
            continue
        if not isinstance(leaf, Tensor):
            what = f"%{result.out} is a value of type {type(leaf).__name__}, not a tensor"
            raise mem.BrokenPromiseError(call=call, what=what)
        buffer = _bind_tensor(frame, call, result, leaf, [*known, *made])
        made += [s for s in buffer.storages if s not in known and s not in made]
        buffer.is_new, buffer.maker = True, call
        settle(frame, buffer)
    return made


def _object(call: str, result: ir.ResultObject, leaf: object) -> object:
    found = class_of(leaf)
    if found != result.class_name:
        given = f"one of class {found}" if found else f"a value of type {type(leaf).__name__}"
        what = f"&{result.object} is {given}, not an object of class {result.class_name}"
        raise mem.BrokenPromiseError(call=call, what=what)
    return leaf


def _bind_tensor(
    frame: Frame, call: str, result: ir.ResultBuffer, leaf: Tensor, alive: Sequence[mem.Storage]
) -> Buffer:
    if result.relation is ir.Relation.HELD:
        return frame.define(_held(result.out, leaf))
    sources = [s for name in result.of for s in frame.find(name).storages]
    holders = [s for s in sources if s.holds(leaf)]
    if holders or (sources and not mem.memory_of(leaf)):
        _check_offset(frame, call, result, leaf)
        storages = (*holders, *(s for s in sources if s not in holders))
        return frame.define(Buffer(result.out, leaf, tuple(dict.fromkeys(storages))))
    if result.relation is ir.Relation.ALIAS:
        names = " and ".join(f"%{name}" for name in result.of)
        what = f"%{result.out} is not a view of {names}"
        raise mem.BrokenPromiseError(call=call, what=what)
    holder = next((s for s in alive if mem.memory_of(leaf) and s.holds(leaf)), None)
    if holder is not None:
        what = f"%{result.out} is not new, but lies in the storage of %{holder.owner}"
        raise mem.BrokenPromiseError(call=call, what=what)
    if call in _PACKING:
        storage = mem.Storage(result.out, mem.Kind.OWNED, leaf, 0, leaf.nbytes, is_object=True)
        tensor = leaf
    else:
        storage, tensor = guarded(result.out, leaf)
    if result.relation is ir.Relation.FRESH:
        return frame.own(storage, tensor)
    return frame.define(Buffer(result.out, tensor, (storage, *sources)))


def _held(name: str, leaf: Tensor) -> Buffer:
    """Return a buffer of a result that an object may hold. It is not moved between red zones."""
    storage = borrowed(name, mem.Kind.INPUT, leaf)
    storage.is_held = True
    return Buffer(name, leaf, (storage,), owns=True)


def borrowed(name: str, kind: mem.Kind, tensor: Tensor) -> mem.Storage:
    """Return the storage of a tensor that the interpreter did not allocate."""
    start = int(tensor.storage_offset()) * tensor.element_size() if is_plain(tensor) else 0
    return mem.Storage(name, kind, tensor, start, tensor.nbytes)


def _check_offset(frame: Frame, call: str, result: ir.ResultBuffer, leaf: Tensor) -> None:
    """Check the storage offset of a view against its layout, if both are known."""
    layout = frame.program.layout(result.out)
    if result.relation is not ir.Relation.ALIAS or not leaf.numel() or not is_plain(leaf):
        return
    if not layout.symbols <= frame.symbols.keys():
        return
    item = leaf.element_size()
    begin, wanted = int(leaf.storage_offset()) * item, frame.dim(layout.offset) * item
    starts = [frame.begin(frame.find(name)) for name in result.of]
    if all(begin - start != wanted for start in starts):
        what = f"%{result.out} begins {begin - starts[0]} bytes into %{result.of[0]}"
        raise mem.BrokenPromiseError(call=call, what=f"{what}'s storage, not {wanted}")


def guarded(name: str, tensor: Tensor) -> tuple[mem.Storage, Tensor]:
    """Copy a tensor's memory, if it is plain, to new storage; return that and the tensor in it."""
    if not is_plain(tensor) or type(tensor) is not Tensor:
        has_memory = tensor.layout is torch.strided and not mem.is_bare(tensor)
        nbytes = tensor.untyped_storage().nbytes() if has_memory else 0
        return mem.Storage(name, mem.Kind.OWNED, tensor, 0, nbytes), tensor
    memory = mem.all_bytes(tensor)
    block = mem.Block(memory.numel(), tensor.device)
    block.bytes.copy_(memory)
    item = tensor.element_size()
    start = (block.start // item + int(tensor.storage_offset())) * item
    made = mem.from_start(block.bytes, tensor.dtype, tensor.shape, tensor.stride(), start)
    nbytes = memory.numel() + block.start - start
    return mem.Storage(name, mem.Kind.OWNED, made, start, nbytes, block), made


def check_fixed(program: ir.Program, name: str, value: Tensor) -> None:
    """Check a tensor against the numbers in its layout. :func:`settle` checks the symbols."""
    layout = program.layout(name)
    size, stride = (
        tuple(n if isinstance(n, int) else None for n in dims)
        for dims in (layout.size, layout.stride)
    )
    check_layout(value, name, dtype_of(layout), device_of(layout), size, stride)


def settle(frame: Frame, buffer: Buffer) -> None:
    """Check a buffer against its layout once all symbols of the layout have values."""
    layout = frame.program.layout(buffer.name)
    if not buffer.is_new or not layout.symbols <= frame.symbols.keys():
        return
    buffer.is_new = False
    try:
        frame.check(buffer.name, buffer.tensor)
    except InputLayoutError as error:
        if not buffer.maker:
            raise
        found = error.fields
        what = f"%{buffer.name} is {found['got']}, not {found['expected']}"
        raise mem.BrokenPromiseError(call=buffer.maker, what=what) from error
