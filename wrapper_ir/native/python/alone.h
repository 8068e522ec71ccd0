// Tensors that share their storage with no other one.
#pragma once

#include <algorithm>
#include <vector>

#include "reached.h"

namespace wir_py {

// are_alone(positions, count, args) -> bool: whether the tensors at the first `count` positions of a
// tuple have storages of their own, which none of the tensors at any position has.
inline PyObject* are_alone(PyObject*, PyObject* const* given, Py_ssize_t size) {
  if (size != 3 || !PyTuple_Check(given[0]) || !PyTuple_Check(given[2])) {
    PyErr_SetString(PyExc_TypeError, "are_alone takes positions, a number and arguments");
    return nullptr;
  }
  const Py_ssize_t all = PyTuple_GET_SIZE(given[0]), count = PyLong_AsSsize_t(given[1]);
  std::vector<const void*> storages;
  storages.reserve(static_cast<std::size_t>(all));
  for (Py_ssize_t i = 0; i < all; ++i) {
    const Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(given[0], i));
    if (at < 0 || at >= PyTuple_GET_SIZE(given[2])) break;
    PyObject* arg = PyTuple_GET_ITEM(given[2], at);
    if (!is_tensor(arg)) break;
    storages.push_back(storage_of(THPVariable_Unpack(arg)));
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (storages.size() != static_cast<std::size_t>(all) || count < 0 || count > all) Py_RETURN_FALSE;
  const auto others = storages.begin() + count;
  std::sort(storages.begin(), others);
  const bool shared = std::adjacent_find(storages.begin(), others) != others ||
                      std::any_of(others, storages.end(), [&](const void* each) {
                        return std::binary_search(storages.begin(), others, each);
                      });
  return PyBool_FromLong(!shared);
}

}  // namespace wir_py
