"""Arguments of library ops, for functions of the C shim and for calls by schema."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CType
from wrapper_ir.emitters.cpp.literals import device_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.emitters.cpp.kernels import Shim, ShimParam
    from wrapper_ir.emitters.cpp.region import RegionBase


#: The constants of c10::Layout and c10::MemoryFormat, in the order of their numbers.
_LAYOUTS: Final = (
    *("strided", "sparse_coo", "sparse_csr", "_mkldnn"),
    *("sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"),
)
_MEMORY_FORMATS: Final = (
    *("contiguous_format", "preserve_format"),
    *("channels_last", "channels_last_3d"),
)

_TYPES: Final = {
    **dict.fromkeys(("int", "SymInt"), CType.INT),
    **dict.fromkeys(("float", "SymFloat"), CType.REAL),
    **dict.fromkeys(("bool", "SymBool"), CType.BOOL),
}
_EXACT: Final = 2**53


class NotPassableError(Exception):
    """An argument cannot be passed that way; the message says which and why."""


def bound_arguments(line: ir.ExternKernel, schema: ir.OpSchema) -> dict[str, ir.Arg]:
    """Return the arguments of a call by the schema's names."""
    found = {d.name: arg for d, arg in zip(schema.positional, line.args, strict=False)}
    found.update(line.kwargs)
    return found


# Calls by schema.


def dispatcher_argument(region: RegionBase, declared: ir.SchemaArg, arg: ir.Arg) -> str:
    """Return an argument of a call by schema.

    Raises:
        NotPassableError: C++ has no such argument.
    """
    base, suffix = declared.type.base, declared.type.suffix
    count = suffix.partition("[")[2].partition("]")[0]  # the length of a fixed-length list
    if count.isdecimal() and isinstance(arg, ir.ScalarArg):
        arg = ir.ListArg((arg,) * int(count))  # a single number fills the list
    return _argument(region, base, arg)


def _argument(region: RegionBase, base: str, arg: ir.Arg) -> str:
    match arg:
        case ir.BufferArg():
            return region.handle(arg.buffer)
        case ir.ObjectArg():
            return region.objects[arg.object]
        case ir.NoneArg():
            return "wir::none"
        case ir.StringArg():
            return literals.string(arg.value)
        case ir.DTypeArg():
            return f"wir::Dtype{{{literals.dtype(arg.dtype)}}}"
        case ir.DeviceArg():
            return f"wir::Device{{{', '.join(device_parts(arg.device))}}}"
        case ir.EnumArg():
            return _enum(arg)
        case ir.ListArg():
            return _list(region, base, arg)
        case ir.ScalarArg():
            return _number(region, base, arg)


def _enum(arg: ir.EnumArg) -> str:
    is_layout = arg.kind is ir.EnumKind.LAYOUT
    names = _LAYOUTS if is_layout else _MEMORY_FORMATS
    if arg.name not in names:
        raise NotPassableError(f"torch has no constant '{arg.name}'")
    number = names.index(arg.name)
    return f"wir::{'Layout' if is_layout else 'MemoryFormat'}{{{number} /* {arg.name} */}}"


def _list(region: RegionBase, base: str, arg: ir.ListArg) -> str:
    if _TYPES.get(base) is CType.INT and all(isinstance(item, ir.ScalarArg) for item in arg.items):
        numbers = (
            region.expr(item.value, CType.INT64).text
            for item in arg.items
            if isinstance(item, ir.ScalarArg)
        )
        return f"wir::Ints{{{', '.join(numbers)}}}"
    return f"wir::List{{{', '.join(_argument(region, base, item) for item in arg.items)}}}"


def _number(region: RegionBase, base: str, arg: ir.ScalarArg) -> str:
    value = arg.value
    if isinstance(value, complex):
        return f"wir::Complex{{{literals.real(value.real)}, {literals.real(value.imag)}}}"
    type_ = _TYPES.get(base)
    expr = region.expr(value, type_)
    # C++ sees an integer literal as an integer, whatever it was converted to.
    if type_ is CType.REAL and expr.is_literal and not isinstance(value, float):
        return f"{expr.text}.0"
    return expr.text


# Calls of the C shim.


def shim_arguments(
    region: RegionBase,
    shim: Shim,
    schema: ir.OpSchema,
    given: Mapping[str, ir.Arg],
    results: Mapping[int, str],
) -> list[str]:
    """Return the arguments of a function of the C shim.

    ``given`` are the arguments by name, ``results`` the variables of the results that are used.

    Raises:
        NotPassableError: With these arguments the function does not do exactly what the op does.
    """
    if not _may_round(region, schema, given):
        raise NotPassableError("a number would be passed as another kind of number")
    items: list[str] = []
    for param in shim.params:
        if param.is_result:
            is_number = param.type != "AtenTensorHandle*"
            unwanted = "wir::Unwanted<std::int64_t>()" if is_number else "wir::Tensor()"
            items.append(f"{results.get(int(param.name.removeprefix('ret')), unwanted)}.out()")
        elif param.name.endswith("_len_"):
            arg = given.get(param.name.removesuffix("_len_"))
            items.append(str(len(arg.items)) if isinstance(arg, ir.ListArg) else "0")
        else:
            declared = schema.arg(param.name)
            if declared is None:
                raise NotPassableError(f"the schema has no '{param.name}'")
            items.append(_shim_argument(region, param, declared, given.get(param.name)))
    return items


def _may_round(region: RegionBase, schema: ir.OpSchema, given: Mapping[str, ir.Arg]) -> bool:
    """Return whether arguments of type Scalar mean the same as the doubles that the C shim takes.

    They do among floating-point tensors, where an op converts them to the tensors' type anyway. The
    exception is the type without a zero, float8_e8m0fnu: PyTorch takes the integer 0 there and
    rejects 0.0.
    """
    scalars = [given.get(a.name) for a in schema.args if a.type.base == "Scalar"]
    if not scalars:
        return True
    if not all(_is_exact(arg.value) for arg in scalars if isinstance(arg, ir.ScalarArg)):
        return False
    tensors = (arg for arg in given.values() if isinstance(arg, ir.BufferArg))
    dtypes = [region.layout(arg.buffer).dtype for arg in tensors]
    return all(d.is_floating and d is not ir.DType.FLOAT8_E8M0FNU for d in dtypes)


def _is_exact(value: ir.Scalar) -> bool:
    return isinstance(value, float) or (type(value) is int and -_EXACT <= value <= _EXACT)


def _shim_argument(
    region: RegionBase, param: ShimParam, declared: ir.SchemaArg, arg: ir.Arg | None
) -> str:
    if arg is None:
        return _default(param, declared)
    if isinstance(arg, ir.NoneArg):
        if not param.type.endswith("*"):
            raise NotPassableError(f"'{param.name}' cannot be left out")
        return "nullptr"
    type_ = param.type.removesuffix("*")
    match arg:
        case ir.BufferArg() if param.type == "AtenTensorHandle":
            return region.handle(arg.buffer)
        case ir.BufferArg() if param.type == "AtenTensorHandle*":
            return f"wir::some<AtenTensorHandle>({region.handle(arg.buffer)})"
        case ir.ListArg() if found := _shim_list(region, param.type, arg):
            return found
        case ir.StringArg() if param.type == "const char*":
            return literals.string(arg.value)
        case _ if type_ in _STANDARD and not isinstance(arg, (ir.BufferArg, ir.ListArg)):
            number = _shim_number(region, type_, declared, arg)
            return (
                number if type_ == param.type else f"wir::some<{_STANDARD[type_].value}>({number})"
            )
        case _:
            raise NotPassableError(f"'{param.name}' has no form in the C shim")


def _shim_list(region: RegionBase, type_: str, arg: ir.ListArg) -> str:
    """Return a list for a parameter of the C shim; "" if it has no form there."""
    handles = [region.handle(a.buffer) for a in arg.items if isinstance(a, ir.BufferArg)]
    if type_ == "const AtenTensorHandle*" and len(handles) == len(arg.items):
        return f"wir::Handles{{{', '.join(handles)}}}.begin()"
    numbers = [a.value for a in arg.items if isinstance(a, ir.ScalarArg)]
    if type_ == "const int64_t*" and len(numbers) == len(arg.items):
        texts = (region.expr(number, CType.INT64).text for number in numbers)
        return f"wir::Ints{{{', '.join(texts)}}}.begin()" if numbers else "nullptr"
    return ""


_STANDARD: Final = {"int64_t": CType.INT64, "int32_t": CType.INT32, "double": CType.REAL}


def _shim_number(region: RegionBase, type_: str, declared: ir.SchemaArg, arg: ir.Arg) -> str:
    match arg:
        case ir.DTypeArg():
            return literals.dtype(arg.dtype)
        case ir.ScalarArg() if not isinstance(arg.value, complex):
            is_bool = declared.type.base == "bool"
            return region.expr(arg.value, CType.BOOL if is_bool else _STANDARD[type_]).text
        case _:
            raise NotPassableError("an argument has no form in the C shim")


def _default(param: ShimParam, declared: ir.SchemaArg) -> str:
    """Return the schema's default for an omitted argument."""
    text = declared.default
    if text == "None" and param.type.endswith("*"):
        return "nullptr"
    if param.type in _STANDARD and text is not None:
        if text in ("True", "False"):
            return text.lower()
        if _is_number(text):
            return text
    raise NotPassableError(f"the default of '{param.name}' has no form in the C shim")


def _is_number(text: str) -> bool:
    """Return whether a default is a finite number, which C++ writes the same way."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
