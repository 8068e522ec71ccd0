// The extension module of a library of kernels. One of the library's files defines it:
//
//   static const wir_py::Kernel kernels[] = {{<function>, "<docstring>"}, ...};
//   WIR_MODULE(<module's name>, kernels)
#pragma once

#include "kernel.h"

namespace wir_py {

struct Kernel {
  PyObject* (*call)(PyObject*, PyObject* const*, Py_ssize_t);
  const char* doc;
};

Torch torch = {nullptr, nullptr, nullptr, nullptr, nullptr};

static PyObject* setup(PyObject*, PyObject* args) {
  PyObject *address, *tensor, *parameter, *base, *method;
  if (!PyArg_ParseTuple(args, "OO!O!O!O", &address, &PyType_Type, &tensor, &PyType_Type, &parameter,
                        &PyType_Type, &base, &method))
    return nullptr;
  void* data_ptr = PyLong_AsVoidPtr(address);
  if (PyErr_Occurred()) return nullptr;
  Py_INCREF(args);  // keeps what is borrowed here, as long as the library lives: for ever
  torch.data_ptr = reinterpret_cast<void* (*)(PyObject*)>(data_ptr);
  torch.tensor = reinterpret_cast<PyTypeObject*>(tensor);
  torch.parameter = reinterpret_cast<PyTypeObject*>(parameter);
  torch.base = reinterpret_cast<PyTypeObject*>(base);
  torch.method = method;
  Py_RETURN_NONE;
}

static PyObject* bind(const Kernel* kernels, int count, PyObject* args) {
  int index;
  PyObject* name;
  if (!PyArg_ParseTuple(args, "iU", &index, &name)) return nullptr;
  if (index < 0 || index >= count || torch.base == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "no such kernel, or setup() was not called");
    return nullptr;
  }
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  PyMethodDef* method = new PyMethodDef();  // lives as long as the function: for ever
  Py_INCREF(name);
  method->ml_name = text;
  method->ml_meth =
      reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(kernels[index].call));
  method->ml_flags = METH_FASTCALL;
  method->ml_doc = kernels[index].doc;
  return PyCFunction_NewEx(method, name, nullptr);
}

}  // namespace wir_py

#define WIR_MODULE(module, kernels)                                                        \
  static PyObject* wir_bind(PyObject*, PyObject* args) {                                   \
    return wir_py::bind(kernels, sizeof(kernels) / sizeof *kernels, args);                 \
  }                                                                                        \
  static PyMethodDef wir_methods[] = {                                                     \
      {"setup", wir_py::setup, METH_VARARGS,                                               \
       "setup(address, Tensor, Parameter, TensorBase, data_ptr)"},                         \
      {"bind", wir_bind, METH_VARARGS, "bind(index, name) -> callable"},                   \
      {nullptr, nullptr, 0, nullptr}};                                                     \
  static struct PyModuleDef wir_definition = {PyModuleDef_HEAD_INIT, #module, nullptr, -1, \
                                              wir_methods};                                \
  PyMODINIT_FUNC PyInit_##module(void) { return PyModule_Create(&wir_definition); }
