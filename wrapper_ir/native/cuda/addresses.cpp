// Compares the addresses of many tensors with those that a captured graph uses, in one call.
//
// Replaying a graph involves checking every weight of a model. In Python that takes longer than
// launching the graph.

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <exception>

namespace {

void* (*tensor_data)(PyObject*) = nullptr;

struct Expected {
  std::int64_t position;
  std::uint64_t address;
};

// setup(address of a function that returns a tensor's data pointer)
PyObject* setup(PyObject*, PyObject* address) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(address);
  if (PyErr_Occurred() != nullptr) return nullptr;
  tensor_data = reinterpret_cast<void* (*)(PyObject*)>(value);
  Py_RETURN_NONE;
}

// same(list, bytes of Expected entries): whether the tensors have the expected addresses
PyObject* same(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyList_Check(args[0]) || !PyBytes_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "same() takes a list and bytes");
    return nullptr;
  }
  const char* bytes = PyBytes_AS_STRING(args[1]);
  const Py_ssize_t size = PyBytes_GET_SIZE(args[1]);
  for (Py_ssize_t at = 0; at < size; at += static_cast<Py_ssize_t>(sizeof(Expected))) {
    Expected expected;
    std::memcpy(&expected, bytes + at, sizeof expected);
    if (expected.position >= PyList_GET_SIZE(args[0])) Py_RETURN_FALSE;
    PyObject* tensor = PyList_GET_ITEM(args[0], expected.position);
    std::uint64_t address = 0;
    try {
      address = reinterpret_cast<std::uintptr_t>(tensor_data(tensor));
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
      return nullptr;
    }
    if (address != expected.address) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
  { "setup", setup, METH_O, "Say what gives a tensor's address." },
  { "same", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(same)), METH_FASTCALL,
      "Compare addresses." },
  { nullptr, nullptr, 0, nullptr },
};

PyModuleDef definition = { PyModuleDef_HEAD_INIT, "wir_addresses", nullptr, -1, functions, nullptr,
  nullptr, nullptr, nullptr };

}  // namespace

PyMODINIT_FUNC PyInit_wir_addresses() { return PyModule_Create(&definition); }
