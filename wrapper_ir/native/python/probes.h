// Probes of the debug printer. They call the same functions as probes in Python modules, so their
// output is the same.
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include "inputs.h"
#include "row.h"

namespace wir_py {

// The probes of one function. Constructed and destroyed under the GIL.
class Probes : public wir::ProbeSink {
 public:
  // `functions`: a tuple, one for each probe. `output`: the descriptor of the file for lines of
  // names, kept up to date by whoever opens the file; -1 before it is known.
  Probes(const wir::ProgramInfo& info, PyObject* functions, const int* output)
      : wir::ProbeSink{[](const wir::ProbeSink& sink, std::size_t probe, const wir::Slot* values) {
          static_cast<const Probes&>(sink).show(probe, values);
        }},
        info_(info),
        functions_(Py_NewRef(functions)),
        output_(output),
        lines_(info.num_probes) {
    for (std::size_t i = 0; i < info.num_probes; ++i) {
      const wir::ProbeInfo& probe = info.probes[i];
      if (probe.level != wir::ProbeLevel::kNames) continue;
      lines_[i] = std::string(probe.label) + (probe.after ? " after\n" : " before\n");
    }
  }
  Probes(const Probes&) = delete;
  Probes& operator=(const Probes&) = delete;
  ~Probes() { Py_DECREF(functions_); }

  PyObject* functions() const { return functions_; }

 private:
  // Called without the GIL.
  void show(std::size_t probe, const wir::Slot* values) const {
    if (write_line(lines_[probe])) return;
    const pybind11::gil_scoped_acquire_simple acquired;
    if (!call(probe, values)) {
      python_error error;
      error.persist();
      throw error;
    }
  }

  // Write a line of names, which takes a single system call. False: Python has to write it.
  bool write_line(const std::string& line) const {
    if (line.empty()) return false;
    const int file = __atomic_load_n(output_, __ATOMIC_RELAXED);
    if (file < 0) return false;
    while (write(file, line.data(), line.size()) < 0 && errno == EINTR) {
    }
    return true;  // a closed pipe must not make the program fail
  }

  bool call(std::size_t probe, const wir::Slot* values) const {
    const wir::ProbeInfo& info = info_.probes[probe];
    Objects args(info.num_operands);
    for (std::size_t i = 0; i < info.num_operands; ++i) {
      PyObject* made = value_of(info.operands[i].kind, values);
      if (made == nullptr) return false;
      args.add(made);
    }
    PyObject* function = PyTuple_GET_ITEM(functions_, static_cast<Py_ssize_t>(probe));
    PyObject* done = PyObject_Vectorcall(function, args.data(), args.size(), nullptr);
    Py_XDECREF(done);
    return done != nullptr;
  }

  // Owned references, released on destruction.
  class Objects : public Row<PyObject*, 16> {
   public:
    using Row::Row;
    ~Objects() {
      for (PyObject* object : *this) Py_DECREF(object);
    }
  };

  // A new reference to the next value. Advances `values` past it.
  static PyObject* value_of(wir::ProbeOperand::Kind kind, const wir::Slot*& values) {
    const wir::Slot& slot = *values++;
    switch (kind) {
      case wir::ProbeOperand::Kind::kTensor:
        return THPVariable_Wrap(*tensor_of(slot.tensor));
      case wir::ProbeOperand::Kind::kInteger:
        return PyLong_FromLongLong(slot.integer);
      case wir::ProbeOperand::Kind::kReal:
        return PyFloat_FromDouble(slot.real);
      case wir::ProbeOperand::Kind::kBool:
        return PyBool_FromLong(slot.integer != 0);
      case wir::ProbeOperand::Kind::kComplex:
        return PyComplex_FromDoubles(slot.real, (values++)->real);
    }
    PyErr_SetString(PyExc_SystemError, "a probe shows a value of an unknown kind");
    return nullptr;
  }

  const wir::ProgramInfo& info_;
  PyObject* functions_;
  const int* output_;
  std::vector<std::string> lines_;
};

}  // namespace wir_py
