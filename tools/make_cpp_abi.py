"""Generate wrapper_ir/emitters/cpp/abi_table.txt from PyTorch's headers.

Run it for each new PyTorch version to support. A test compares the table with the headers of the
installed version.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.emitters.cpp.kernels import ANY_DEVICE, shim_symbol
from wrapper_ir.lines.schema import OpSchema, SchemaError, parse_schema

if TYPE_CHECKING:
    from collections.abc import Collection

OLDEST: Final = (2, 11)
"""The oldest version that generated code supports; newer functions are left out."""

TARGET: Final = Path(__file__).parents[1] / "wrapper_ir" / "emitters" / "cpp" / "abi_table.txt"

PASSED: Final = frozenset(
    (
        *("AtenTensorHandle", "AtenTensorHandle*", "const AtenTensorHandle*"),
        *("int64_t", "int64_t*", "double", "double*", "int32_t", "int32_t*"),
        *("const int64_t*", "const char*"),
    )
)
"""The C types that the emitter can pass; functions with others are called by schema."""

_VERSION = re.compile(r"#if TORCH_FEATURE_VERSION >= TORCH_VERSION_(\d+)_(\d+)_0")
_FUNCTION = re.compile(
    r"AOTI_TORCH_EXPORT AOTITorchError (aoti_torch_(?:cpu|cuda|aten)_(\w+))\((.*)\);"
)

HEADER: Final = """\
# The functions of PyTorch's C shim that generated code calls, for every PyTorch since {oldest}.
# Written by tools/make_cpp_abi.py. A row: the op; the devices that have a function of these
# parameters, aoti_torch_DEVICE_OP, where 'aten' serves any device; and its parameters.
"""


def functions(*headers: str) -> dict[str, tuple[str, str]]:
    """Return name and parameters of the headers' functions, by the name without prefix."""
    folder = Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch/generated"
    found: dict[str, tuple[str, str]] = {}
    for name in headers:
        since = OLDEST
        for line in (folder / name).read_text().splitlines():
            if version := _VERSION.match(line):
                since = (int(version[1]), int(version[2]))
            elif line.startswith("#endif"):
                since = OLDEST
            elif (function := _FUNCTION.match(line)) and since <= OLDEST:
                found[function[2]] = (function[1], function[3])
    return found


def schemas() -> dict[str, OpSchema]:
    """Return the schemas of torch's own ops, by the shim's spelling of their names."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            try:
                parsed = parse_schema(str(schema))
            except SchemaError:
                continue
            found[parsed.name.removeprefix("aten::").replace(".", "_")] = parsed
    return found


def is_callable(params: str, schema: OpSchema, given: Collection[str]) -> bool:
    """Check that the emitter can pass a function's arguments and gets every result of the op.

    Args:
        params: The function's parameters.
        schema: The op's schema.
        given: Result types that may be left unused, besides tensors.
    """
    pairs = [param.rsplit(" ", 1) for param in params.split(", ")]
    names = {name for _, name in pairs}
    if any(type_ not in PASSED for type_, _ in pairs) or "device_index_" in names:
        return False
    returned = [pair for pair in pairs if re.fullmatch(r"ret\d+", pair[1])]
    writes = any(arg.type.writes for arg in schema.args)
    legal = {"AtenTensorHandle*", *given}
    if len(returned) != len(schema.returns) or any(type_ not in legal for type_, _ in returned):
        return writes and not returned and names_match(names, schema)
    return names_match(names - {name for _, name in returned}, schema)


def names_match(names: set[str], schema: OpSchema) -> bool:
    """Check that parameter names match the schema's, apart from list lengths."""
    lists = {f"{arg.name}_len_" for arg in schema.args if arg.type.is_list}
    return names - lists == {arg.name for arg in schema.args}


def rows() -> dict[tuple[str, str], str]:
    """Return the table: the parameters of each function, by op and device.

    A device's own function is preferred; the generic ones serve ops that have none.
    """
    own = {**_rows("cpu"), **_rows("cuda", given=("int64_t*",))}
    ops = {op for op, _ in own}
    anywhere = {key: params for key, params in _rows(ANY_DEVICE).items() if key[0] not in ops}
    return dict(sorted({**own, **anywhere}.items()))


def _rows(device: str, given: Collection[str] = ()) -> dict[tuple[str, str], str]:
    known = schemas()
    found = {}
    for suffix, (symbol, params) in functions(f"c_shim_{device}.h").items():
        schema = known.get(suffix)
        if schema is not None and is_callable(params, schema, given):
            assert symbol == shim_symbol(schema.name, device)
            found[schema.name, device] = params
    return found


def table() -> str:
    """Return the text of the table."""
    columns: dict[tuple[str, str], list[str]] = {}
    for (op, device), params in rows().items():
        columns.setdefault((op, params), []).append(device)
    oldest = ".".join(map(str, OLDEST))
    lines = [f"{op} | {' '.join(devices)} | {params}" for (op, params), devices in columns.items()]
    return HEADER.format(oldest=oldest) + "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    TARGET.write_text(table(), "ascii")
