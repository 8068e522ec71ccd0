// Structured arguments and results: what a call's look like, read along and built again.
#pragma once

#include <cstring>
#include <vector>

#include <torch/csrc/Device.h>

#include "inputs.h"

namespace wir_py {

using Object = pybind11::object;

inline Object borrowed(PyObject* value) {
  return pybind11::reinterpret_borrow<Object>(value);
}

// True if a value is a kept one, or an equal one of the same type of unchanging values. No Python
// code runs.
inline bool is_same(PyObject* kept, PyObject* value) {
  if (kept == value) return true;
  if (Py_TYPE(kept) != Py_TYPE(value)) return false;
  if (PyFloat_CheckExact(kept)) {  // of equal numbers, 0 and -0 differ
    const double a = PyFloat_AS_DOUBLE(kept), b = PyFloat_AS_DOUBLE(value);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (PyTuple_Check(kept)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(kept);
    bool same = size == PyTuple_GET_SIZE(value);
    for (Py_ssize_t i = 0; same && i < size; ++i) {
      same = is_same(PyTuple_GET_ITEM(kept, i), PyTuple_GET_ITEM(value, i));
    }
    return same;
  }
  if (PyComplex_CheckExact(kept)) {
    const Py_complex a = PyComplex_AsCComplex(kept), b = PyComplex_AsCComplex(value);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  if (THPDevice_Check(kept)) {
    return reinterpret_cast<THPDevice*>(kept)->device == reinterpret_cast<THPDevice*>(value)->device;
  }
  if (!PyLong_CheckExact(kept) && !PyUnicode_CheckExact(kept) && !PyBytes_CheckExact(kept)) {
    return false;
  }
  return PyObject_RichCompareBool(kept, value, Py_EQ) == 1;
}

// One node of a tree, in preorder: (kind, type, count, value, function).
struct Node {
  enum class Kind { kTensor, kValue, kTuple, kList, kDict, kOther, kResult, kInput };

  Kind kind;
  Object type;       // the exact type of an argument
  Py_ssize_t count;  // of children; or the position of a result, or of a tensor among the inputs
  Object value;      // the value; the tuple of keys of a dict; the context of another type
  Object function;   // flattens an argument, or builds a result: of another type

  explicit Node(PyObject* row) {
    int number;
    PyObject *type_, *value_, *function_;
    if (!PyArg_ParseTuple(row, "iOnOO", &number, &type_, &count, &value_, &function_)) {
      throw pybind11::error_already_set();
    }
    kind = static_cast<Kind>(number);
    type = borrowed(type_), value = borrowed(value_), function = borrowed(function_);
  }

  int visit(visitproc visit, void* arg) const {
    Py_VISIT(type.ptr());
    Py_VISIT(value.ptr());
    Py_VISIT(function.ptr());
    return 0;
  }
};

using Nodes = std::vector<Node>;

// Walks along arguments and takes the tensors among them.
class Reader {
 public:
  explicit Reader(const Nodes& nodes) : next_(nodes.data()) {}

  // False: an argument is not as the next node says. A Python error may be set.
  bool take(PyObject* value) {
    const Node& node = *next_++;
    if (node.kind == Node::Kind::kValue) return is_same(node.value.ptr(), value);
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != node.type.ptr()) return false;
    switch (node.kind) {
      case Node::Kind::kTensor:
        tensors.push_back(borrowed(value));
        return true;
      case Node::Kind::kTuple:
      case Node::Kind::kList:
        return take_items(node, value);
      case Node::Kind::kDict:
        return take_dict(node, value);
      default:
        return take_other(node, value);
    }
  }

  std::vector<Object> tensors;

 private:
  bool take_items(const Node& node, PyObject* value) {
    if (PySequence_Fast_GET_SIZE(value) != node.count) return false;
    // A list may change while another type is flattened.
    for (Py_ssize_t i = 0; i < node.count; ++i) {
      if (i >= PySequence_Fast_GET_SIZE(value)) return false;
      if (!take(borrowed(PySequence_Fast_GET_ITEM(value, i)).ptr())) return false;
    }
    return true;
  }

  bool take_dict(const Node& node, PyObject* value) {
    if (PyDict_GET_SIZE(value) != node.count) return false;
    PyObject *key, *item;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < node.count; ++i) {
      if (!PyDict_Next(value, &at, &key, &item)) return false;
      const Object kept = borrowed(item);
      if (!is_same(PyTuple_GET_ITEM(node.value.ptr(), i), key) || !take(kept.ptr())) return false;
    }
    return true;
  }

  bool take_other(const Node& node, PyObject* value) {
    const Object made =
        pybind11::reinterpret_steal<Object>(PyObject_CallOneArg(node.function.ptr(), value));
    if (!made || !PyTuple_Check(made.ptr()) || PyTuple_GET_SIZE(made.ptr()) < 2) return false;
    if (PyObject_RichCompareBool(node.value.ptr(), PyTuple_GET_ITEM(made.ptr(), 1), Py_EQ) != 1) {
      return false;
    }
    const Object children = pybind11::reinterpret_steal<Object>(
        PySequence_Fast(PyTuple_GET_ITEM(made.ptr(), 0), "children are a sequence"));
    return children && take_items(node, children.ptr());
  }

  const Node* next_;
};

// Builds a structured result. Throws pybind11::error_already_set.
class Maker {
 public:
  Maker(const Nodes& nodes, PyObject* results, const std::vector<Object>& inputs)
      : next_(nodes.data()), results_(results), inputs_(inputs) {}

  Object make() {
    const Node& node = *next_++;
    switch (node.kind) {
      case Node::Kind::kResult:
        if (node.count >= PySequence_Fast_GET_SIZE(results_)) {
          throw pybind11::value_error("the program returned too few results");
        }
        return borrowed(PySequence_Fast_GET_ITEM(results_, node.count));
      case Node::Kind::kInput:
        return inputs_[static_cast<std::size_t>(node.count)];
      case Node::Kind::kValue:
        return node.value;
      case Node::Kind::kTuple: {
        pybind11::tuple made(static_cast<std::size_t>(node.count));
        for (Py_ssize_t i = 0; i < node.count; ++i) made[static_cast<std::size_t>(i)] = make();
        return made;
      }
      case Node::Kind::kDict: {
        pybind11::dict made;
        for (Py_ssize_t i = 0; i < node.count; ++i) {
          made[borrowed(PyTuple_GET_ITEM(node.value.ptr(), i))] = make();
        }
        return made;
      }
      default: {
        pybind11::list made(static_cast<std::size_t>(node.count));
        for (Py_ssize_t i = 0; i < node.count; ++i) made[static_cast<std::size_t>(i)] = make();
        return node.kind == Node::Kind::kList ? Object(made) : node.function(made, node.value);
      }
    }
  }

 private:
  const Node* next_;
  PyObject* results_;
  const std::vector<Object>& inputs_;
};

}  // namespace wir_py
