// Arguments that are tensor subclasses, and what they hold: tensors, and objects.
#pragma once

#include <memory>
#include <vector>

#include "structure.h"

namespace wir_py {

// What an argument is taken apart to: the names of the attributes that lead to each input of the
// graph. An argument that is one itself has no type.
struct Part {
  Object type;
  std::vector<std::vector<Object>> paths;
};

// The parts in a tuple of `None` and of pairs of a type and paths, or in `None`. A Python error may
// be set.
inline std::unique_ptr<std::vector<Part>> parts_in(PyObject* values) {
  auto found = std::make_unique<std::vector<Part>>();
  try {
    if (values == Py_None) return found;
    for (const auto& each : borrowed(values)) {
      Part part;
      if (!each.is_none()) {
        const auto pair = each.cast<pybind11::tuple>();
        part.type = pair[0];
        for (const auto& path : pair[1]) {
          auto& names = part.paths.emplace_back();
          for (const auto& name : path) names.push_back(pybind11::str(name));
        }
      }
      found->push_back(std::move(part));
    }
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
  return found;
}

// What a call's arguments are or hold, in the order of the graph's inputs.
class TakenApart {
 public:
  // Returns false if an argument is not of the type that is expected, or holds a tensor that is not
  // plain, or if a Python error is set.
  bool take(const std::vector<Part>& parts, PyObject* const* args, Py_ssize_t count) {
    given_ = args, count_ = count;
    if (parts.empty()) return true;
    if (static_cast<std::size_t>(count) != parts.size()) return false;
    found_.reserve(parts.size());
    held_.reserve(parts.size());
    for (const Part& part : parts) {
      PyObject* arg = *args++;
      if (part.type.ptr() == nullptr) {
        found_.push_back(arg);
        continue;
      }
      if (reinterpret_cast<PyObject*>(Py_TYPE(arg)) != part.type.ptr()) return false;
      for (const auto& path : part.paths) {
        if (!follow(arg, path)) return false;
      }
    }
    given_ = found_.data(), count_ = static_cast<Py_ssize_t>(found_.size());
    return true;
  }

  PyObject* const* data() const { return given_; }
  Py_ssize_t size() const { return count_; }

 private:
  bool follow(PyObject* from, const std::vector<Object>& path) {
    Object value = borrowed(from);
    for (const Object& name : path) {
      value = pybind11::reinterpret_steal<Object>(PyObject_GetAttr(value.ptr(), name.ptr()));
      if (value.ptr() == nullptr) return false;
    }
    if (is_tensor(value.ptr()) && !THPVariable_CheckTypeExact(Py_TYPE(value.ptr()))) return false;
    found_.push_back(value.ptr());
    held_.push_back(std::move(value));
    return true;
  }

  PyObject* const* given_ = nullptr;
  Py_ssize_t count_ = 0;
  std::vector<PyObject*> found_;
  std::vector<Object> held_;  // an attribute may be made when it is asked for
};

}  // namespace wir_py
