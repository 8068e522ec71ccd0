"""Calls of kernels, in C++ and in Triton, users' Triton kernels included."""

from __future__ import annotations

import ast
import copy
import dataclasses
from math import prod
from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir import lines
from wrapper_ir.frontends.common.ops import to_device
from wrapper_ir.frontends.inductor import notes, triton_tuning
from wrapper_ir.frontends.inductor.compat import GPU_ALIGN_BYTES, ir
from wrapper_ir.frontends.inductor.convert.triton_trials import can_be_tried, example
from wrapper_ir.frontends.inductor.convert.values import to_dtype
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError
from wrapper_ir.frontends.inductor.settings import kernel_flags
from wrapper_ir.lines import expr as ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import torch

    from wrapper_ir.frontends.inductor.convert.state import Scope


_SCALARS: Final = {
    "i1": lines.ScalarType.BOOL,
    "u1": lines.ScalarType.BOOL,
    "i32": lines.ScalarType.INT32,
    "i64": lines.ScalarType.INT64,
    "u64": lines.ScalarType.UINT64,
    "fp32": lines.ScalarType.FLOAT32,
    "fp64": lines.ScalarType.FLOAT64,
}


def kernels_to_tune(call: notes.CallNote | None) -> Iterator[notes.TritonNote]:
    """Yield the kernels that must be tuned for a call."""
    if isinstance(call, notes.TritonNote):
        yield call
    elif isinstance(call, notes.AlternativesNote) and call.shapes is None:
        yield from call.kernels


def convert_triton_call(scope: Scope, line: Any, note: notes.TritonNote) -> None:
    """Convert a ``KernelCallLine`` of a Triton kernel, using the note that was taken for it."""
    passed = launch_arguments(line)
    note = _with_first_writes(scope, note)
    name, kernel, pinned = _definition(scope, note, line.device, passed)
    by_name = _by_name(line, pinned, passed)
    args = [_argument(scope, note, param, by_name[param.name]) for param in kernel.params]
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(arg, lines.BufferArg) and pinned.signature[param.name].endswith(":16"):
            scope.shared.aligned[scope.draft.owner(arg.buffer)] = GPU_ALIGN_BYTES
    grid = _grid(scope, note, pinned, by_name)
    told = (note.buffers[p.name] for p in kernel.params if isinstance(p, lines.BufferParam))
    call = lines.KernelCall(
        kernel=name,
        args=tuple(args),
        device=to_device(line.device),
        grid=grid,
        reach=_reach(scope, told, grid),
    )
    scope.emit_call(call, note.nodes, reads=_reads(note.buffers.get(p.name) for p in kernel.params))


def _reads(buffers: Iterable[notes.BufferNote | notes.SizeNote | None]) -> list[str]:
    """Return Inductor's name of the buffer that each argument holds before the call, or ""."""
    return [each.before if isinstance(each, notes.BufferNote) else "" for each in buffers]


def _reach(
    scope: Scope, buffers: Iterable[notes.BufferNote], grid: tuple[lines.Dim, ...] = ()
) -> tuple[lines.Dim, ...]:
    """Return how far a kernel reaches into each buffer; nothing if it is known of none."""
    found = [
        (
            lines.dim(scope.dim(each.reach) * prod(grid))
            if each.is_per_block
            else scope.dim(each.reach)
        )
        for each in buffers
    ]
    return tuple(found) if any(each != 0 for each in found) else ()


def launch_arguments(line: Any) -> list[Any]:
    """Return the launcher's arguments: names of buffers, nodes, or numbers."""
    if line.raw_keys is None:
        return list(line.call_args)
    pairs = zip(line.raw_args, line.call_args, strict=True)
    return [raw if isinstance(raw, ir.IRNode) else printed for raw, printed in pairs]


def _by_name(line: Any, pinned: triton_tuning.Pinned, passed: list[Any]) -> dict[str, Any]:
    """Return the argument of each parameter, and of the extra names that the grid uses."""
    extra = pinned.grid.extra
    names = pinned.signature if line.raw_keys is None else line.raw_keys
    count = len(passed) - len(extra)
    own = zip(names, passed[:count], strict=False)
    return dict([*own, *zip(extra, passed[count:], strict=True)])


def _with_first_writes(scope: Scope, note: notes.TritonNote) -> notes.TritonNote:
    """Narrow the access to memory that nothing has written to: it holds nothing to read."""
    buffers = dict(note.buffers)
    for param, buffer in buffers.items():
        if buffer.access is lines.Access.READ_WRITE and scope.is_unwritten(buffer.buffer):
            buffers[param] = dataclasses.replace(buffer, access=lines.Access.WRITE)
    return dataclasses.replace(note, buffers=buffers)


def _definition(
    scope: Scope, note: notes.TritonNote, device: torch.device, passed: list[Any]
) -> tuple[str, lines.KernelDefinition, triton_tuning.Pinned]:
    """Return the kernel's definition, made and tuned on first use."""
    shared = scope.shared
    access = tuple((param, buffer.access) for param, buffer in note.buffers.items())
    key = (note.name, note.code, access)
    if key not in shared.triton_kernels:
        pinned = _pinned(scope, note, device, passed)
        name = scope.draft.fresh(note.name, scope.draft.definitions, first=2)
        types = {p: t for p, t in pinned.signature.items() if t != "constexpr"}
        tables = tuple(types.items()), tuple(pinned.constants.items())
        how: Any = (pinned.warps, pinned.stages, pinned.options)
        source = lines.TritonKernel(pinned.code, note.entry, *tables, *how)
        params = tuple(_parameter(note, param, type_) for param, type_ in types.items())
        definition = lines.KernelDefinition(name, params, source, origin=scope.origin(*note.nodes))
        triton_tuning.keep_machine_code(name, source, pinned)
        scope.draft.definitions[name] = definition
        shared.triton_kernels[key] = (name, definition, pinned)
    entry: tuple[str, lines.KernelDefinition, triton_tuning.Pinned] = shared.triton_kernels[key]
    return entry


def _pinned(
    scope: Scope, note: notes.TritonNote, device: torch.device, passed: list[Any]
) -> triton_tuning.Pinned:
    """Return a kernel with its configuration. It is tuned once, however it accesses its buffers."""
    key, cache = (note.name, note.code), scope.shared.pinned
    if key not in cache:
        tuner = scope.shared.tuners.get(note)
        cache[key] = triton_tuning.pin(note, tuner, device, _examples(scope, note, passed))
    pinned: triton_tuning.Pinned = cache[key]
    return pinned


def _examples(
    scope: Scope, note: notes.TritonNote, passed: list[Any]
) -> Callable[[], list[Any]] | None:
    """Return what makes arguments to try a kernel with; None if it cannot be tried."""
    if not can_be_tried(scope, note, passed):
        return None
    return lambda: [example(scope, note, value) for value in passed]


def _parameter(note: notes.TritonNote, param: str, type_: str) -> lines.Param:
    plain = type_.removesuffix(":16")
    if plain.startswith("*"):
        buffer = note.buffers.get(param)
        if buffer is None:
            why = f"its parameter '{param}' is not a buffer of the graph"
            raise triton_tuning.unsupported(note, why)
        return lines.BufferParam(param, to_dtype(buffer.dtype), buffer.access)
    if plain.startswith("tensordesc"):
        why = "kernels cannot take one that is made on the host"
        hint = "Inductor makes it in the kernel with triton.enable_host_side_tma=False"
        raise UnsupportedLineError("tensor descriptor", f"{note.name}, {param}", why, hint=hint)
    if plain not in _SCALARS:
        raise triton_tuning.unsupported(note, f"its parameter '{param}' has the type '{plain}'")
    return lines.ScalarParam(param, _SCALARS[plain])


def _argument(scope: Scope, note: notes.TritonNote, param: lines.Param, value: Any) -> lines.Arg:
    if isinstance(param, lines.BufferParam):
        if isinstance(value, ir.IRNode):
            return lines.BufferArg(scope.reference(value), param.access)
        buffer = note.buffers[param.name]
        return lines.BufferArg(scope.resolve(buffer.buffer), param.access)
    if param.name in note.buffers:
        return lines.ScalarArg(_value_of(scope, note.buffers[param.name].buffer, param.type))
    return lines.ScalarArg(scope.scalar(_number(value)))


def _number(value: Any) -> Any:
    """Return a number that is passed, by its symbol if an earlier line computed it."""
    return getattr(value, "inner", value)


def _value_of(scope: Scope, buffer: str, type_: lines.ScalarType) -> lines.Scalar:
    """Read the only element of a tensor on the host, for a GPU kernel that takes it by value."""
    is_real = type_ in (lines.ScalarType.FLOAT32, lines.ScalarType.FLOAT64)
    kind = lines.SymbolKind.FLOAT if is_real else lines.SymbolKind.INT
    name = scope.bind_fresh(f"{scope.name(buffer)}_value", kind)
    scope.emit(lines.BindSymbol(name, lines.ItemOf(scope.resolve(buffer))))
    return scope.draft.symbol(name)


def _grid(
    scope: Scope, note: notes.TritonNote, pinned: triton_tuning.Pinned, by_name: Mapping[str, Any]
) -> tuple[lines.Dim, ...]:
    try:
        return grid_of(pinned.grid, lambda name: scope.dim(_number(by_name[name])))
    except UnknownGridError as error:
        raise triton_tuning.unsupported(note, str(error)) from error


# Calls of one of several equivalent kernels (Inductor's ``triton.multi_kernel``).
#
# Inductor picks the fastest in the first call. For matrices of unknown sizes it picks in each call
# the kernel that was tuned for the nearest size. A program must not vary, so the choice is made
# now, and the program contains only the chosen kernel.


def convert_choice(scope: Scope, line: Any, note: notes.AlternativesNote) -> None:
    """Convert a call of several equivalent kernels to a call of the chosen one."""
    passed = launch_arguments(line)
    if note.shapes is None:
        tuners = [*map(scope.shared.tuners.get, note.kernels)]
        number = triton_tuning.fastest(
            note, tuners, line.device, _examples(scope, note.kernels[0], passed)
        )
    else:
        number = triton_tuning.nearest(note, list(_shapes(scope, passed)))
    shared, extra = note.taken_by(number, len(passed))
    call = copy.copy(line)
    call.kernel_name = note.kernels[number].name
    call.call_args = (*line.call_args[shared], *line.call_args[extra])
    convert_triton_call(scope, call, note.kernels[number])


def _shapes(scope: Scope, passed: list[Any]) -> Iterator[tuple[int, ...]]:
    """Yield the expected shapes of the tensors that are passed."""
    for value in passed:
        if isinstance(value, (str, ir.IRNode)):
            name = value if isinstance(value, str) else scope.reference(value)
            layout = scope.layout(scope.resolve(name))
            yield tuple(int(scope.draft.expected(size)) for size in layout.size)


# Grids of Triton kernels: from the text of Inductor's launcher to expressions of a program.
#
# For each kind of kernel Inductor has a class that writes the number of blocks as a line of Python
# over the kernel's parameters. All of them use the same few operations, so the line is evaluated
# with our expressions in place of numbers, whatever the kind.


class UnknownGridError(ValueError):
    """A grid uses an operation, or a name, that has no form here."""


def grid_of(
    grid: triton_tuning.LaunchGrid, argument: Callable[[str], lines.Dim]
) -> tuple[lines.Dim, ...]:
    """Return one to three sizes, without trailing ones.

    ``argument`` returns the argument for a parameter, or raises ``KeyError``.

    Raises:
        UnknownGridError: An expression has no form here.
    """
    steps: dict[str, Any] = {}

    def value(name: str) -> Any:
        try:
            return steps[name] if name in steps else argument(name)
        except KeyError:
            raise UnknownGridError(f"it uses '{name}', which is not passed") from None

    for step in grid.steps:
        name, _, text = step.partition("=")
        steps[name.strip()] = _evaluate(text, value)
    sizes = [ours.dim(_evaluate(str(size), value)) for size in grid.sizes]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return tuple(sizes)


def _evaluate(text: str, value: Callable[[str], Any]) -> Any:
    return _value(ast.parse(text.strip(), mode="eval").body, value)


def _value(node: ast.expr, value: Callable[[str], Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return sympy.Integer(number)
        case ast.Name(id=name):
            return sympy.sympify(value(name))
        case ast.UnaryOp(
            op=ast.USub(),
            operand=ast.BinOp(
                left=left, op=ast.FloorDiv(), right=ast.UnaryOp(op=ast.USub(), operand=right)
            ),
        ):
            return ours.CeilDiv(_value(left, value), _divisor(_value(right, value)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_value(left, value), _value(right, value))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, value) for argument in args))
        case ast.IfExp(
            test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]), body=body, orelse=rest
        ):
            condition = sympy.Eq(_value(left, value), _value(right, value))
            return ours.Where(condition, _value(body, value), _value(rest, value))
        case _:
            raise UnknownGridError(f"its grid is computed by '{ast.unparse(node)}'")


def _divisor(value: Any) -> Any:
    """Return a divisor that is never zero: a range without elements has 0 blocks."""
    return value if value.is_number else sympy.Max(1, value)


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: lambda left, right: ours.FloorDiv(left, _divisor(right)),
    ast.Mod: lambda left, right: ours.Mod(left, _divisor(right)),
    ast.Pow: lambda left, right: left**right,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"max": sympy.Max, "min": sympy.Min}


# Calls of C++ kernels, and the dispatch over all kinds of kernels.


def convert_kernel_call(scope: Scope, line: Any, note: notes.CallNote | None) -> None:
    """Convert a ``KernelCallLine``, using the note that its scheduling took; there must be one."""
    if note is None:
        why = "its scheduling left no note of it"
        raise UnsupportedLineError("KernelCallLine", line.kernel_name, why)
    if isinstance(note, notes.ForeignNote):
        raise UnsupportedLineError(
            f"kernel in {note.language}",
            note.name,
            "programs hold kernels in C++ and Triton",
            hint="have Inductor take another backend (max_autotune_gemm_backends, cuda_backend, "
            "BACKEND of flex_attention); with on_unsupported='stock' Inductor's own wrapper is "
            "used for such graphs",
        )
    if isinstance(note, notes.AlternativesNote):
        convert_choice(scope, line, note)
        return
    if isinstance(note, notes.TritonNote):
        convert_triton_call(scope, line, note)
        return
    name, device = _cpp_definition(scope, note), to_device(line.device)
    args = tuple(_cpp_argument(scope, param) for param in note.params)
    reach = _reach(scope, (each for each in note.params if isinstance(each, notes.BufferNote)))
    call = lines.KernelCall(kernel=name, args=args, device=device, reach=reach)
    scope.emit_call(call, note.nodes, reads=_reads(note.params))


def _cpp_argument(scope: Scope, param: notes.BufferNote | notes.SizeNote) -> lines.Arg:
    if isinstance(param, notes.BufferNote):
        return lines.BufferArg(scope.kernel_argument(param.buffer), param.access)
    return lines.ScalarArg(scope.scalar(param.value))


def _cpp_definition(scope: Scope, note: notes.KernelNote) -> str:
    """Return the name of the kernel's definition, made on first use.

    Inductor shares a kernel between calls with equal text, even if they may assume different things
    about the buffers. The access belongs to the definition, so each such call gets its own.
    """
    shared = scope.shared
    params = tuple(map(_cpp_parameter, note.params))
    key = (note.name, note.code, params)
    if key not in shared.kernel_names:
        name = scope.draft.fresh(note.name, scope.draft.definitions, first=2)
        isa, flags = kernel_flags()
        source = lines.CppKernel(note.code, entry=note.name, isa=isa, flags=flags)
        origin = scope.origin(*note.nodes)
        scope.draft.definitions[name] = lines.KernelDefinition(name, params, source, origin=origin)
        shared.kernel_names[key] = name
    return shared.kernel_names[key]


def _cpp_parameter(param: notes.BufferNote | notes.SizeNote) -> lines.Param:
    if isinstance(param, notes.BufferNote):
        return lines.BufferParam(param.param, to_dtype(param.dtype), param.access)
    return lines.ScalarParam(param.param, param.type)
