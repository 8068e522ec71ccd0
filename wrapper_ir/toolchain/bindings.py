"""The C++ text that makes kernels callable from Python.

Each kernel gets one function in CPython's fast calling convention that converts its arguments by
their static types, without building an argument tuple or parsing a format string. A tensor's data
pointer comes from a function whose address is passed when the library is loaded; without one
(address 0) the public method ``Tensor.data_ptr`` is called, which is slower and otherwise the same.
A pointer into a tensor's memory is passed as ``(tensor, bytes)``: that many bytes past the first
element.

A wrong number of arguments and a value that is not a tensor (or number) raise TypeError, an integer
out of range OverflowError, a C++ exception RuntimeError. Calls do not check that tensors are large
enough and of the right type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel."""

    spelling: str  #: its C++ type, without the outer ``const``
    kind: str  #: ``pointer``, ``integer`` or ``floating``


#: Part of every kernel's key; raise it when the text generated here changes.
BINDING_VERSION = 2

PROLOGUE = """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstdint>
#include <exception>
#include <limits>

namespace wir_py {

// What a library is told about PyTorch when it is loaded; one for all files of the library.
struct Torch {
  void* (*data_ptr)(PyObject*);  // null: call the method instead
  PyTypeObject* tensor;          // torch.Tensor
  PyTypeObject* parameter;       // torch.nn.Parameter
  PyTypeObject* base;            // what every tensor's type derives from
  PyObject* method;              // torch.Tensor.data_ptr
};
extern __attribute__((visibility("hidden"))) Torch torch;

static bool wrong_type(PyObject* name, int position, const char* wanted, PyObject* value) {
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "%U() argument %d must be %s, not %.100s", name, position, wanted,
               Py_TYPE(value)->tp_name);
  return false;
}

static bool pointer_by_method(PyObject* value, void** out) {
  PyObject* address = PyObject_CallFunctionObjArgs(torch.method, value, nullptr);
  if (address == nullptr) return false;
  *out = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  return *out != nullptr || PyErr_Occurred() == nullptr;
}

static bool pointer_inside(PyObject* name, int position, PyObject* value, void** out);

static inline bool pointer(PyObject* name, int position, PyObject* value, void** out) {
  PyTypeObject* type = Py_TYPE(value);
  if (type != torch.tensor && type != torch.parameter && !PyType_IsSubtype(type, torch.base))
    [[unlikely]]
    return pointer_inside(name, position, value, out);
  if (torch.data_ptr == nullptr) [[unlikely]]
    return pointer_by_method(value, out);
  *out = torch.data_ptr(value);
  return true;
}

template <typename T>
static inline bool integer(PyObject* name, int position, PyObject* value, T* out) {
  PyObject* number = PyNumber_Index(value);
  if (number == nullptr) [[unlikely]]
    return wrong_type(name, position, "an int", value);
  bool fits;
  if constexpr (std::numeric_limits<T>::is_signed) {
    long long wide = PyLong_AsLongLong(number);
    *out = static_cast<T>(wide);
    fits = static_cast<long long>(*out) == wide;
  } else {
    unsigned long long wide = PyLong_AsUnsignedLongLong(number);
    *out = static_cast<T>(wide);
    fits = static_cast<unsigned long long>(*out) == wide;
  }
  Py_DECREF(number);
  if (*out == static_cast<T>(-1) && PyErr_Occurred()) [[unlikely]]
    return false;
  if (!fits) [[unlikely]] {
    PyErr_Format(PyExc_OverflowError, "%U() argument %d is out of range", name, position);
    return false;
  }
  return true;
}

static bool pointer_inside(PyObject* name, int position, PyObject* value, void** out) {
  if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != 2 ||
      PyTuple_CheckExact(PyTuple_GET_ITEM(value, 0)))
    return wrong_type(name, position, "a Tensor", value);
  void* begin;
  int64_t bytes;
  if (!pointer(name, position, PyTuple_GET_ITEM(value, 0), &begin) ||
      !integer(name, position, PyTuple_GET_ITEM(value, 1), &bytes))
    return false;
  *out = static_cast<char*>(begin) + bytes;
  return true;
}

template <typename T>
static inline bool floating(PyObject* name, int position, PyObject* value, T* out) {
  double wide = PyFloat_AsDouble(value);
  if (wide == -1.0 && PyErr_Occurred()) [[unlikely]]
    return wrong_type(name, position, "a float", value);
  *out = static_cast<T>(wide);
  return true;
}

static PyObject* wrong_count(PyObject* name, int wanted, Py_ssize_t given) {
  PyErr_Format(PyExc_TypeError, "%U() takes %d argument%s (%zd given)", name, wanted,
               wanted == 1 ? "" : "s", given);
  return nullptr;
}

}  // namespace wir_py
"""

_BINDING = """\
extern "C" __attribute__((visibility("hidden"))) PyObject* {symbol}_py(
    PyObject* name, PyObject* const* args, Py_ssize_t count) {{
  if (count != {count}) [[unlikely]] return wir_py::wrong_count(name, {count}, count);
{declarations}\
  try {{
{conversions}\
{around}\
#line 1 "call of {label}"
    {callee}({arguments});
  }} catch (const std::exception& error) {{
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }} catch (...) {{
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
    return nullptr;
  }}
  Py_RETURN_NONE;
}}
"""

_TABLE = """\
#line 1 "module"
namespace wir_py {{

Torch torch = {{nullptr, nullptr, nullptr, nullptr, nullptr}};

struct Kernel {{
  PyObject* (*call)(PyObject*, PyObject* const*, Py_ssize_t);
  const char* doc;
}};
}}
{declarations}
static const wir_py::Kernel wir_kernels[] = {{
{rows}\
}};

static PyObject* wir_setup(PyObject*, PyObject* args) {{
  PyObject *address, *tensor, *parameter, *base, *method;
  if (!PyArg_ParseTuple(args, "OO!O!O!O", &address, &PyType_Type, &tensor, &PyType_Type, &parameter,
                        &PyType_Type, &base, &method))
    return nullptr;
  void* data_ptr = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) return nullptr;
  Py_INCREF(args);  // keeps what is borrowed here, as long as the library lives: for ever
  wir_py::torch.data_ptr = reinterpret_cast<void* (*)(PyObject*)>(data_ptr);
  wir_py::torch.tensor = reinterpret_cast<PyTypeObject*>(tensor);
  wir_py::torch.parameter = reinterpret_cast<PyTypeObject*>(parameter);
  wir_py::torch.base = reinterpret_cast<PyTypeObject*>(base);
  wir_py::torch.method = method;
  Py_RETURN_NONE;
}}

static PyObject* wir_bind(PyObject*, PyObject* args) {{
  int index;
  PyObject* name;
  if (!PyArg_ParseTuple(args, "iU", &index, &name)) return nullptr;
  if (index < 0 || index >= {count} || wir_py::torch.base == nullptr) {{
    PyErr_SetString(PyExc_RuntimeError, "no such kernel, or setup() was not called");
    return nullptr;
  }}
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  PyMethodDef* method = new PyMethodDef();  // lives as long as the function: for ever
  Py_INCREF(name);
  method->ml_name = text;
  method->ml_meth = reinterpret_cast<PyCFunction>(
      reinterpret_cast<void (*)(void)>(wir_kernels[index].call));
  method->ml_flags = METH_FASTCALL;
  method->ml_doc = wir_kernels[index].doc;
  return PyCFunction_NewEx(method, name, nullptr);
}}

static PyMethodDef wir_methods[] = {{
    {{"setup", wir_setup, METH_VARARGS, "setup(address, Tensor, Parameter, TensorBase, data_ptr)"}},
    {{"bind", wir_bind, METH_VARARGS, "bind(index, name) -> callable"}},
    {{nullptr, nullptr, 0, nullptr}}}};

static struct PyModuleDef wir_module = {{PyModuleDef_HEAD_INIT, "{module}", nullptr, -1,
                                        wir_methods}};

PyMODINIT_FUNC PyInit_{module}(void) {{ return PyModule_Create(&wir_module); }}
"""


def binding(
    symbol: str, callee: str, label: str, params: Sequence[Parameter], around: str = ""
) -> str:
    """Return the function that converts the arguments of one kernel and calls it.

    Args:
        symbol: Unique stem of C names.
        callee: The kernel's qualified C++ name.
        label: The kernel's name in compiler errors.
        params: The kernel's parameters.
        around: The type of an object that lives for the duration of the call; empty for none.
    """
    declarations = []
    conversions = []
    arguments = []
    for index, param in enumerate(params):
        variable = f"a{index}"
        kind = "void*" if param.kind == "pointer" else param.spelling
        declarations.append(f"  {kind} {variable};\n")
        conversions.append(
            f"    if (!wir_py::{param.kind}(name, {index + 1}, args[{index}], &{variable})) "
            "[[unlikely]] return nullptr;\n"
        )
        arguments.append(
            f"static_cast<{param.spelling}>({variable})" if param.kind == "pointer" else variable
        )
    return _BINDING.format(
        symbol=symbol,
        callee=callee,
        label=label,
        count=len(params),
        declarations="".join(declarations),
        conversions="".join(conversions),
        around=f"    const {around} around{{}};\n" if around else "",
        arguments=", ".join(arguments),
    )


def module_table(module: str, kernels: Sequence[tuple[str, str]]) -> str:
    """Return the extension module of a library.

    Args:
        module: The module's name.
        kernels: Symbol and one-line docstring of each kernel. ``bind`` takes their positions.
    """
    declaration = (
        'extern "C" __attribute__((visibility("hidden"))) PyObject* {}_py(\n'
        "    PyObject*, PyObject* const*, Py_ssize_t);\n"
    )
    return _TABLE.format(
        module=module,
        count=len(kernels),
        declarations="".join(declaration.format(symbol) for symbol, _ in kernels),
        rows="".join(f'    {{{symbol}_py, "{doc}"}},\n' for symbol, doc in kernels),
    )
