// Kernels as Python callables: the conversion of arguments, and the extension module of a library.
//
// Each kernel gets one function in CPython's fast calling convention that converts its arguments by
// their static types, without building an argument tuple or parsing a format string. A tensor's
// data pointer comes from a function whose address is passed when the library is loaded; without
// one (address 0) the public method Tensor.data_ptr is called, which is slower and otherwise the
// same. A pointer into a tensor's memory is passed as (tensor, bytes): that many bytes past the
// first element.
//
// A wrong number of arguments and a value that is not a tensor (or number) raise TypeError, an
// integer out of range OverflowError, a C++ exception RuntimeError. Calls do not check that tensors
// are large enough and of the right type.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <exception>
#include <limits>

#define WIR_BINDING extern "C" __attribute__((visibility("hidden"))) PyObject*

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

// What ends the function of a kernel, after the block that calls it.
#define WIR_RETURN                                                \
  catch (const std::exception& error) {                           \
    PyErr_SetString(PyExc_RuntimeError, error.what());            \
    return nullptr;                                               \
  }                                                               \
  catch (...) {                                                   \
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception"); \
    return nullptr;                                               \
  }                                                               \
  Py_RETURN_NONE;
