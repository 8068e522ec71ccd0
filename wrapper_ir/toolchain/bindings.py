"""The C++ text that makes kernels callable from Python: what depends on the kernels.

The rest is in ``wrapper_ir/native/python``: how arguments are converted (``kernel.h``), and the
extension module of a library (``kernel_module.h``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain.flags import NATIVE
from wrapper_ir.toolchain.source import parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.toolchain.source import CppSource, CppUnit, Parameter

HEADERS: Final = (NATIVE / "python" / "kernel.h", NATIVE / "python" / "kernel_module.h")
"""The files that the text includes."""

_BINDING: Final = """\
WIR_BINDING {symbol}_py(PyObject* name, PyObject* const* args, Py_ssize_t count) {{
  if (count != {count}) [[unlikely]] return wir_py::wrong_count(name, {count}, count);
  try {{
{conversions}\
#line 1 "{label}"
    {callee}({arguments});
  }} WIR_RETURN
}}
"""


def call_label(source: CppSource) -> str:
    """Return the name in compiler messages of the line that calls a kernel."""
    return f"call of {source.name}"


def binding(kernel: CppUnit, callee: str, around: str = "") -> str:
    """Return the function that converts the arguments of one kernel and calls it.

    Args:
        kernel: The kernel.
        callee: Its qualified C++ name.
        around: The type of an object that lives for the duration of the call; empty for none.
    """
    params = parameters(kernel.source)
    return _BINDING.format(
        symbol=kernel.symbol,
        callee=callee,
        label=call_label(kernel.source),
        count=len(params),
        conversions="".join(_conversion(index, each) for index, each in enumerate(params))
        + (f"    const {around} around{{}};\n" if around else ""),
        arguments=", ".join(_argument(index, each) for index, each in enumerate(params)),
    )


def _conversion(index: int, param: Parameter) -> str:
    type_ = "void*" if param.kind == "pointer" else param.spelling
    return (
        f"    {type_} a{index};\n"
        f"    if (!wir_py::{param.kind}(name, {index + 1}, args[{index}], &a{index})) "
        "[[unlikely]] return nullptr;\n"
    )


def _argument(index: int, param: Parameter) -> str:
    return f"static_cast<{param.spelling}>(a{index})" if param.kind == "pointer" else f"a{index}"


def module_table(module: str, kernels: Sequence[CppUnit]) -> str:
    """Return the extension module of a library; its ``bind`` takes the positions of kernels.

    Args:
        module: The module's name.
        kernels: The kernels.
    """
    params = "PyObject*, PyObject* const*, Py_ssize_t"
    declarations = "".join(f"WIR_BINDING {each.symbol}_py({params});\n" for each in kernels)
    rows = "".join(f'    {{{each.symbol}_py, "{_doc(each)}"}},\n' for each in kernels)
    return (
        f'#line 1 "module"\n#include "python/kernel_module.h"\n{declarations}'
        f"static const wir_py::Kernel wir_kernels[] = {{\n{rows}}};\n"
        f"WIR_MODULE({module}, wir_kernels)\n"
    )


def _doc(kernel: CppUnit) -> str:
    """Return a one-line docstring: a kernel's parameter types."""
    return f"({', '.join(' '.join(text.split()) for text in kernel.source.arg_types)})"
