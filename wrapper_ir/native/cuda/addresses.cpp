// Compares the addresses of many tensors with those that a captured graph uses, or with multiples
// of some bytes, in one call.
//
// Replaying a graph involves checking every weight of a model. In Python that takes longer than
// launching the graph.

#include <Python.h>

#include <cstdint>
#include <cstring>
#include <exception>

namespace {

void* (*tensor_data)(PyObject*) = nullptr;
PyTypeObject* tensor_type = nullptr;

struct Expected {
  std::int64_t position;
  std::uint64_t address;
};

// setup(address of a function that returns a tensor's data pointer, the class of tensors)
PyObject* setup(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyType_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "setup() takes an address and a class");
    return nullptr;
  }
  const unsigned long long value = PyLong_AsUnsignedLongLong(args[0]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  tensor_data = reinterpret_cast<void* (*)(PyObject*)>(value);
  Py_INCREF(args[1]);
  tensor_type = reinterpret_cast<PyTypeObject*>(args[1]);
  Py_RETURN_NONE;
}

// Reads the address of a tensor's data. Returns false after an error.
bool read(PyObject* tensor, std::uint64_t* address) {
  try {
    *address = reinterpret_cast<std::uintptr_t>(tensor_data(tensor));
    return true;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
    return false;
  }
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
    if (!read(tensor, &address)) return nullptr;
    if (address != expected.address) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

// aligned(list, bytes of positions, alignment): whether the tensors have even addresses. False, too,
// where something else is in the list, a tensor without an address, or too few things are.
PyObject* aligned(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 3 || !PyList_Check(args[0]) || !PyBytes_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "aligned() takes a list, bytes and a number");
    return nullptr;
  }
  const long long alignment = PyLong_AsLongLong(args[2]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const char* bytes = PyBytes_AS_STRING(args[1]);
  const Py_ssize_t size = PyBytes_GET_SIZE(args[1]);
  for (Py_ssize_t at = 0; at < size; at += static_cast<Py_ssize_t>(sizeof(std::int64_t))) {
    std::int64_t position;
    std::memcpy(&position, bytes + at, sizeof position);
    if (position >= PyList_GET_SIZE(args[0])) Py_RETURN_FALSE;
    PyObject* tensor = PyList_GET_ITEM(args[0], position);
    if (!PyObject_TypeCheck(tensor, tensor_type)) Py_RETURN_FALSE;
    std::uint64_t address = 0;
    if (!read(tensor, &address)) {
      PyErr_Clear();
      Py_RETURN_FALSE;
    }
    if (address % static_cast<std::uint64_t>(alignment) != 0) Py_RETURN_FALSE;
  }
  Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
  { "setup", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(setup)), METH_FASTCALL,
      "Say what gives a tensor's address, and what is one." },
  { "aligned", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(aligned)), METH_FASTCALL,
      "Look for addresses that are no multiples." },
  { "same", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(same)), METH_FASTCALL,
      "Compare addresses." },
  { nullptr, nullptr, 0, nullptr },
};

PyModuleDef definition = { PyModuleDef_HEAD_INIT, "wir_addresses", nullptr, -1, functions, nullptr,
  nullptr, nullptr, nullptr };

}  // namespace

PyMODINIT_FUNC PyInit_wir_addresses() { return PyModule_Create(&definition); }
