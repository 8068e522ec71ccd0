"""Makes wrapper_ir/emitters/cpp/abi_table.py and abi_table_cuda.py from PyTorch's headers.

Run it with each new version of PyTorch that is to be supported; a test compares the table with the
headers of the version that is installed.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.lines.schema import OpSchema, SchemaError, parse_schema

if TYPE_CHECKING:
    from collections.abc import Collection

OLDEST: Final = (2, 11)
"""The oldest version that generated code has to work with: what is newer is left out."""

TARGET: Final = Path(__file__).parents[1] / "wrapper_ir" / "emitters" / "cpp" / "abi_table.py"
CUDA_TARGET: Final = TARGET.with_name("abi_table_cuda.py")

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

HEADER: Final = '''\
"""The functions of PyTorch's C shim that generated code calls{where}.

Written by tools/make_cpp_abi.py. For each op the C function and its parameters, valid
for every PyTorch since {oldest}.
"""

from __future__ import annotations

from typing import Final

__all__ = ["{name}"]

{name}: Final[dict[str, tuple[str, str]]] = {{
'''


def functions(*headers: str) -> dict[str, tuple[str, str]]:
    """The functions of the headers by what comes after their prefix: name and parameters."""
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
    """The schemas of torch's own ops, by their names as the shim spells them."""
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
    """Whether the emitter can pass what a function takes, and gets all that the op returns.

    Args:
        params: The function's parameters.
        schema: The op's.
        given: Types of results that may be left unused, besides tensors.
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
    """Whether parameters are called as the schema calls them, lengths of lists aside."""
    lists = {f"{arg.name}_len_" for arg in schema.args if arg.type.is_list}
    return names - lists == {arg.name for arg in schema.args}


def rows(*headers: str, given: Collection[str] = ()) -> dict[str, tuple[str, str]]:
    """A table: of each op the function and its parameters."""
    known = schemas()
    found = {}
    for suffix, (symbol, params) in sorted(functions(*headers).items()):
        schema = known.get(suffix)
        if schema is not None and is_callable(params, schema, given):
            found[schema.name] = (symbol, params)
    return found


def spelled(params: str) -> str:
    """Parameters as a literal over several lines."""
    parts = textwrap.wrap(params, 80)
    quoted = [f'"{part} "' for part in parts[:-1]] + [f'"{parts[-1]}"']
    if len(quoted) == 1:
        return f"        {quoted[0]},\n"
    return "        (\n" + "".join(f"            {part}\n" for part in quoted) + "        ),\n"


def table() -> str:
    """The text of the module for any device and the CPU; the latter's functions go first."""
    return _text("SHIMS", "", rows("c_shim_aten.h", "c_shim_cpu.h"))


def cuda_table() -> str:
    """The text of the module for CUDA."""
    found = rows("c_shim_cuda.h", given=("int64_t*",))
    return _text("CUDA_SHIMS", " on CUDA", found)


def _text(name: str, where: str, found: dict[str, tuple[str, str]]) -> str:
    lines = [
        f'    "{op}": (\n        "{symbol}",\n{spelled(params)}    ),\n'
        for op, (symbol, params) in found.items()
    ]
    oldest = ".".join(map(str, OLDEST))
    return HEADER.format(oldest=oldest, name=name, where=where) + "".join(lines) + "}\n"


if __name__ == "__main__":
    TARGET.write_text(table())
    CUDA_TARGET.write_text(cuda_table())
