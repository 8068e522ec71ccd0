"""Custom ops: checks of tensors and numbers, results in fixed layouts, probes."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental.symbolic_shapes import statically_known_true

from wrapper_ir import runtime
from wrapper_ir.emitters.fx import library
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.runtime.addresses import realigned
from wrapper_ir.runtime.checks import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program
    from wrapper_ir.lines.trace import Probe


# Checks as ops: they survive tracing, dead code elimination and export, and cost one call each.
#
# They run the same code, and raise the same errors, as the checks in emitted Python. Under tracing
# they compare the known parts and add guards for the rest (``torch._check``), so that symbolic
# sizes are related as in the program.
#
# Expected layouts are JSON, parsed once: ``["x", "float32", [8, 8], [8, 1], "cpu"]``, with ``null``
# for a size or stride that is not fixed, and ``true`` at the end for an input that must be plain.


class KernelDeviceError(WrapperIRError):
    """A C++ kernel was called with a tensor that is not in host memory.

    Fields: ``kernel`` and ``device``.
    """

    code = "WIR2301"
    template = "kernel '{kernel}' is a C++ function: it cannot take a tensor on {device}"


_DEVICE: Final = 4
"""The position of a device in a layout as JSON."""

_KINDS: Final = {"int": int, "float": float, "bool": bool, "none": type(None)}


def spec_of(
    name: str, layout: Layout, *, anywhere: bool = False, plain: bool = False
) -> list[object]:
    """Return the known parts of a layout, for JSON.

    It may be ``anywhere``: on any device; ``plain`` is as in :class:`TensorSpec`.
    """

    def known(values: Sequence[object]) -> list[int | None]:
        return [value if isinstance(value, int) else None for value in values]

    sizes, strides = known(layout.size), known(layout.stride)
    device = None if anywhere else str(layout.device)
    return [name, layout.dtype.torch_name, sizes, strides, device, *([True] if plain else ())]


OF_LAYOUTS: Final = ("check_inputs", "check_result", "check_sizes")
"""The checks whose second argument is such a list."""


def bound_specs(text: str, here: torch.device) -> str:
    """Return a JSON list of layouts with those on the current device on the given one."""
    rows = json.loads(text)
    for row in rows:
        if row[_DEVICE] == here.type:
            row[_DEVICE] = str(here)
    return json.dumps(rows)


@functools.lru_cache(maxsize=4096)
def specs_of(text: str) -> tuple[runtime.TensorSpec, ...]:
    """Return the layouts in a JSON list of :func:`spec_of`."""
    return tuple(
        runtime.TensorSpec(
            name,
            getattr(torch, dtype),
            tuple(size),
            tuple(stride),
            device and torch.device(device),
            *plain,
        )
        for name, dtype, size, stride, device, *plain in json.loads(text)
    )


@functools.lru_cache(maxsize=4096)
def _input_checks(text: str) -> runtime.InputChecks:
    return runtime.InputChecks(*specs_of(text))


@functools.lru_cache(maxsize=4096)
def _result_check(text: str) -> Callable[[Tensor], None]:
    (spec,) = specs_of(text)
    return runtime.result_check(
        spec.name, spec.dtype, _static(spec.size), _static(spec.stride), spec.device
    )


def _static(values: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(value for value in values if value is not None)


def _fake_compare(tensor: Tensor, check: Callable[..., None], spec: runtime.TensorSpec) -> None:
    """Check the known parts of a fake tensor; turn the rest into facts about symbols."""
    size, stride = spec.size, spec.stride
    if _are_known(*tensor.shape, *tensor.stride(), *size, *stride):
        check(tensor, spec.name, spec.dtype, spec.device, size, stride)
        return
    actual = [n if _are_known(n) else 0 for n in tensor.shape]
    sample = torch.empty(actual, dtype=tensor.dtype, device=tensor.device)
    pairs = list(zip(size, tensor.shape, strict=False))
    known = [
        expected if _are_known(expected, actual_size) else None for expected, actual_size in pairs
    ]
    known += [None] * (len(size) - len(known))
    check(sample, spec.name, spec.dtype, spec.device, tuple(known), (None,) * len(stride))
    for expected, actual_size in pairs:
        if expected is not None and not _are_known(expected, actual_size):
            library.know(actual_size == expected)


def _are_known(*numbers: Any) -> bool:
    """Return whether no number is symbolic; ``None`` matches any number."""
    return all(n is None or isinstance(n, int) for n in numbers)


def _check_output(
    tensor: Tensor,
    name: str,
    dtype: torch.dtype,
    device: torch.device | None,
    size: Any,
    stride: Any,
) -> None:
    """Check the result of an op, with the parameters of :func:`check_layout`."""
    runtime.check_result(tensor, name, dtype, size, stride, device)


# check_inputs: the fixed parts of all inputs at once.


def _check_inputs(tensors: Sequence[Tensor], specs: str) -> None:
    _input_checks(specs)(*tensors)


def _fake_check_inputs(tensors: Sequence[Tensor], specs: str) -> None:
    for tensor, spec in zip(tensors, specs_of(specs), strict=True):
        _fake_compare(tensor, runtime.check_layout, spec)


# check_result: an op result with a fixed layout.


def check_fixed_result(tensor: Tensor, spec: str) -> None:
    """Check a tensor against a fixed layout."""
    _result_check(spec)(tensor)


def _fake_check_result(tensor: Tensor, spec: str) -> None:
    _fake_compare(tensor, _check_output, *specs_of(spec))


# check_sizes: an input or result with a symbolic layout.


def _check_sizes(
    tensor: Tensor,
    spec: str,
    size: Sequence[int],
    stride: Sequence[int],
    is_input: bool,  # noqa: FBT001 - as the schema has it
) -> None:
    (parsed,) = specs_of(spec)
    check = runtime.check_layout if is_input else _check_output
    check(tensor, parsed.name, parsed.dtype, parsed.device, tuple(size), tuple(stride))


def _fake_check_sizes(
    tensor: Tensor,
    spec: str,
    size: Sequence[int],
    stride: Sequence[int],
    is_input: bool,  # noqa: FBT001 - as the schema has it
) -> None:
    (parsed,) = specs_of(spec)
    check = runtime.check_layout if is_input else _check_output
    _fake_compare(tensor, check, replace(parsed, size=tuple(size), stride=tuple(stride)))


# check_alignment.


def _check_alignment(tensor: Tensor, name: str, alignment: int) -> None:
    if tensor.data_ptr() % alignment:
        runtime.refuse_misaligned(tensor, name, alignment)


def _realigned(tensor: Tensor, alignment: int) -> Tensor:
    """Return the tensor as it is where others trace: what they make of the graph is theirs."""
    return tensor if is_fake(tensor) else realigned(tensor, alignment)


# check_apart: inputs that share no memory.


def _check_apart(tensors: Sequence[Tensor], names: Sequence[str], written: int) -> None:
    runtime.check_apart(names, written, *tensors)


# check_number: the type of a scalar input and the range of any symbol.


def _check_number(
    value: float | None, name: str, kind: str, low: int | None, high: int | None
) -> None:
    check_number(name, value, _KINDS[kind], low, high)


def _fake_check_number(value: Any, name: str, kind: str, low: int | None, high: int | None) -> None:
    if isinstance(value, (bool, int, float, type(None))):
        check_number(name, value, _KINDS[kind], low, high)
        return
    if low is not None:
        library.know(value >= low)
    if high is not None:
        library.know(value <= high)


# check_that: a relation among symbols.


def _check_that(holds: Any, relation: str, names: Sequence[str], values: Sequence[int]) -> None:
    if not holds:
        pairs = zip(names, values, strict=True)
        text = ", ".join(f"{name} is {value}" for name, value in pairs)
        raise runtime.SymbolError(relation=relation, values=text or "it does not hold")


def _fake_check_that(
    holds: Any, relation: str, names: Sequence[str], values: Sequence[int]
) -> None:
    if isinstance(holds, bool):
        _check_that(holds, relation, names, values)
    else:
        library.know(holds)


def _op(
    schema: str,
    function: Callable[..., Any],
    fake: Callable[..., None] | None = None,
    direct: Callable[..., Any] | None = None,
) -> Any:
    """Register an op and its implementation; an op without ``fake`` is composed of other ops."""
    overload = library.define(schema, fake)
    key = "CompositeImplicitAutograd" if fake is None else "CompositeExplicitAutograd"
    library.implement(schema.partition("(")[0], function, key, direct=direct)
    return overload


CHECK_INPUTS: Final = _op(
    "check_inputs(Tensor[] inputs, str specs) -> ()", _check_inputs, _fake_check_inputs
)
CHECK_RESULT: Final = _op(
    "check_result(Tensor result, str spec) -> ()", check_fixed_result, _fake_check_result
)
CHECK_SIZES: Final = _op(
    "check_sizes(Tensor x, str spec, SymInt[] size, SymInt[] stride, bool is_input) -> ()",
    _check_sizes,
    _fake_check_sizes,
)
CHECK_ALIGNMENT: Final = _op(
    "check_alignment(Tensor x, str name, int alignment) -> ()", _check_alignment, library.nothing
)
REALIGNED: Final = _op(
    "realigned(Tensor(a) x, int alignment) -> Tensor(a)", _realigned, direct=realigned
)
"""The op for an input that is copied if its address is no multiple of so many bytes."""

CHECK_APART: Final = _op(
    "check_apart(Tensor[] tensors, str[] names, int written) -> ()", _check_apart, library.nothing
)
CHECK_NUMBER: Final = _op(
    "check_number(Scalar? value, str name, str kind, int? low, int? high) -> ()",
    _check_number,
    _fake_check_number,
)
CHECK_THAT: Final = _op(
    "check_that(Scalar holds, str relation, str[] names, SymInt[] values) -> ()",
    _check_that,
    _fake_check_that,
)


# Results of library ops in the program's layout.
#
# Views of a result, and kernels that read it, rely on that layout. When a graph runs as emitted, an
# op that returns another layout is an error. When the graph is traced, an op may be replaced by one
# that computes the same in another layout, as torch's decompositions of attention do. So these ops
# are composed of other ops: they return a result in the right layout as it is, and copy any other
# result into the right layout if they are traced. In both cases the trace contains a check that
# passes at run time.


def _lay_out(result: Tensor, spec: str) -> Tensor:
    if torch.compiler.is_compiling():
        result = _with_stride(result, _static(specs_of(spec)[0].stride))
    CHECK_RESULT(result, spec)
    return result


def _lay_out_directly(result: Tensor, spec: str) -> Tensor:
    check_fixed_result(result, spec)
    return result


def _lay_out_sizes(result: Tensor, spec: str, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    if torch.compiler.is_compiling():
        result = _with_stride(result, stride)
    CHECK_SIZES(result, spec, size, stride, False)  # noqa: FBT003 - as the schema has it
    return result


def _with_stride(result: Tensor, stride: Sequence[Any]) -> Tensor:
    """Return a tensor with the given strides, copied if necessary, or as it is if impossible."""
    if len(stride) != result.dim() or _are_same(result.stride(), stride):
        return result
    if any(isinstance(step, int) and step == 0 for step in stride):
        return result
    copy = torch.empty_strided(result.shape, stride, dtype=result.dtype, device=result.device)
    return copy.copy_(result)


def _are_same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Return whether numbers are equal for all values of their symbols."""
    return all(statically_known_true(a == b) for a, b in zip(ours, theirs, strict=True))


LAY_OUT: Final = _op(
    "lay_out(Tensor(a) result, str spec) -> Tensor(a)", _lay_out, direct=_lay_out_directly
)
"""The op for a result with a fixed layout."""

LAY_OUT_SIZES: Final = _op(
    "lay_out_sizes(Tensor(a) result, str spec, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    _lay_out_sizes,
)
"""The op for a result with a symbolic layout."""


# Probes as nodes of one op, with the same output as probes of emitted Python.
#
# The node holds the probe's description as JSON, which is turned into a function once. Tracing
# keeps the node, so the probe still works after torch transforms or compiles the graph.


def probe_spec(line: Probe, program: Program) -> str:
    """Return the description of a probe as JSON."""
    spec: dict[str, Any] = {
        "label": line.label,
        "when": line.when.value,
        "level": line.level.value,
        "buffers": program.shown_names(line),
        "scalars": [str(value) for value in line.scalars],
    }
    source = program.source_of(line)
    return json.dumps({**spec, "source": source} if source else spec)


@functools.lru_cache(maxsize=4096)
def _probe(text: str) -> Callable[..., None]:
    spec = json.loads(text)
    source = spec.get("source")
    keywords = {"source": source} if source and spec["level"] != "names" else {}
    args = (spec["label"], spec["when"], spec["level"])
    return runtime.make_probe(*args, tuple(spec["buffers"]), tuple(spec["scalars"]), **keywords)


def _show(buffers: Sequence[Tensor], spec: str, scalars: Sequence[float]) -> None:
    _probe(spec)(*buffers, *scalars)


SHOW: Final = _op(
    "show(Tensor[] buffers, str spec, Scalar[] scalars) -> ()", _show, library.nothing
)
