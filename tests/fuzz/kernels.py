"""A small set of C++ kernels for every dtype: compiled once, called by many made-up programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapper_ir as wir
from wrapper_ir.emitters.kernel_types import ELEMENTS

if TYPE_CHECKING:
    from wrapper_ir.build import Kernel

#: Element types of kernels, by how C++ spells them.
TYPES = {dtype.short: text for dtype, text in ELEMENTS.items()}

#: Those that C++ adds up without a word.
ADDED = ("f32", "f64", "i64", "i32", "u8", "bool", "bf16", "f16", "i16", "i8", "u16", "u32", "u64")

#: Conversions that C++ defines for every value.
CONVERSIONS = (
    *(("i32", "i64"), ("i64", "f64"), ("i64", "i32"), ("u8", "i32"), ("u8", "f32")),
    *(("bool", "f32"), ("bool", "i64"), ("f32", "f64"), ("f64", "f32"), ("i32", "f32")),
    *(("f32", "bool"), ("i64", "bool"), ("bf16", "f32"), ("f32", "bf16"), ("i32", "i16")),
    *(("f32", "f16"), ("f16", "f32"), ("f32", "f8e4m3fn"), ("f8e4m3fn", "f32"), ("u8", "i8")),
    *(("f32", "f8e5m2"), ("f8e5m2fnuz", "f32"), ("i64", "u64"), ("u16", "i32"), ("u32", "i64")),
)

#: Types of :func:`binary` and :func:`two_outputs`.
SUMMED = ("f32", "f64", "i64", "bf16", "i32", "u8")
COUNTED = ("f32", "i64", "u8")

_HEAD = '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel('

_UNARY = {
    "copy": "x[i]",
    "flip": "x[n - 1 - i]",
    "double": "static_cast<T>(x[i] + x[i])",
}


def unary(b: wir.Builder, what: str, dtype: str) -> Kernel:
    """``y[i] = f(x)`` over ``n`` elements."""
    body = _UNARY[what].replace("T", TYPES[dtype])
    code = (
        f"{_HEAD}const {TYPES[dtype]}* x, {TYPES[dtype]}* y, const int64_t n)\n"
        f"{{\n    for (int64_t i = 0; i < n; ++i) y[i] = {body};\n}}\n"
    )
    reads, writes = [("x", dtype)], [("y", dtype)]
    return b.cpp_kernel(f"{what}_{dtype}", code, reads=reads, writes=writes, scalars=["n"])


def convert(b: wir.Builder, source: str, target: str) -> Kernel:
    """``y[i] = (U)x[i]``."""
    code = (
        f"{_HEAD}const {TYPES[source]}* x, {TYPES[target]}* y, const int64_t n)\n"
        f"{{\n    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<{TYPES[target]}>(x[i]);\n}}\n"
    )
    name = f"convert_{source}_{target}"
    reads, writes = [("x", source)], [("y", target)]
    return b.cpp_kernel(name, code, reads=reads, writes=writes, scalars=["n"])


def binary(b: wir.Builder, dtype: str) -> Kernel:
    """``y[i] = a[i] + b[i]``."""
    type_ = TYPES[dtype]
    code = (
        f"{_HEAD}const {type_}* a, const {type_}* b, {type_}* y, const int64_t n)\n"
        f"{{\n    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<{type_}>(a[i] + b[i]);\n}}\n"
    )
    reads, writes = [("a", dtype), ("b", dtype)], [("y", dtype)]
    return b.cpp_kernel(f"add_{dtype}", code, reads=reads, writes=writes, scalars=["n"])


def update(b: wir.Builder, dtype: str) -> Kernel:
    """``x[i] = x[i] + f``, with a number of another type."""
    type_ = TYPES[dtype]
    code = (
        f"{_HEAD}{type_}* x, const int64_t n, const double f)\n"
        "{\n    for (int64_t i = 0; i < n; ++i)\n"
        f"        x[i] = static_cast<{type_}>(x[i] + static_cast<{type_}>(f));\n}}\n"
    )
    scalars = ["n", ("f", "f64")]
    return b.cpp_kernel(f"update_{dtype}", code, updates=[("x", dtype)], scalars=scalars)


def two_outputs(b: wir.Builder, dtype: str) -> Kernel:
    """Reads one buffer, writes one, and changes one of eight-byte integers."""
    type_ = TYPES[dtype]
    code = (
        f"{_HEAD}int64_t* count, const {type_}* x, {type_}* y, const int64_t n)\n"
        "{\n    for (int64_t i = 0; i < n; ++i) {\n        y[i] = x[i];\n"
        "        count[0] += x[i] != static_cast<" + type_ + ">(0);\n    }\n}\n"
    )
    updates, reads, writes = [("count", "i64")], [("x", dtype)], [("y", dtype)]
    name = f"count_{dtype}"
    return b.cpp_kernel(name, code, updates=updates, reads=reads, writes=writes, scalars=["n"])


def fits(what: str, dtype: str) -> bool:
    """Whether there is such a kernel for a type."""
    return what in ("copy", "flip") or dtype in ADDED


def warm() -> None:
    """Compiles all of them at once: programs that want a few each would build them in pieces."""
    b = wir.Builder("all")
    for dtype in TYPES:
        for what in _UNARY:
            if fits(what, dtype):
                unary(b, what, dtype)
    for dtype in ADDED:
        update(b, dtype)
    for dtype in SUMMED:
        binary(b, dtype)
    for dtype in COUNTED:
        two_outputs(b, dtype)
    for source, target in CONVERSIONS:
        convert(b, source, target)
    b.returns()
    wir.interpret(b.build())
