// wir.jit's table: of the programs kept, a call runs the first that was made for calls like it.
#pragma once

#include <memory>

#include "reached.h"

#include <structmember.h>

namespace wir_py {

// The arguments of a call, as vectorcall passes them.
struct Arguments {
  PyObject* const* values;
  Py_ssize_t positional;
  PyObject* names;  // of the rest; may be null

  Py_ssize_t named() const { return names == nullptr ? 0 : PyTuple_GET_SIZE(names); }
  PyObject* call(PyObject* function) const {
    return PyObject_Vectorcall(function, values, static_cast<std::size_t>(positional), names);
  }
};

// One kept program, or the decision that calls run op by op, with what it depends on.
class Kept {
 public:
  // From the keyword arguments of `Entry`.
  Kept(const pybind11::dict& from, bool ignores_grad)
      : ignores_grad_(ignores_grad),
        records_(from["records"].cast<bool>()),
        function_(from["function"]),
        refuses_(from["refuses"]),
        names_(from["names"].cast<pybind11::tuple>()),
        positional_(from["positional"].cast<Py_ssize_t>()),
        mode_(Mode::current(ignores_grad)) {
    for (const auto& row : from["arguments"]) arguments_.emplace_back(row.ptr());
    for (const auto& row : from["results"]) results_.emplace_back(row.ptr());
    for (const auto& each : from["first"]) first_.push_back(each.cast<std::size_t>());
    for (const auto& row : from["inputs"]) inputs_.emplace_back(row.ptr());
    for (const auto& each : from["written"]) written_.push_back(each.cast<std::size_t>());
    for (const auto& each : from["changed"]) changed_.push_back(each.cast<std::size_t>());
    for (const auto& row : from["dicts"]) state_.add_dict(row.ptr());
    for (const auto& row : from["watched"]) state_.add_watched(row.ptr());
    for (const auto& each : from["passed"]) passed_.push_back(each.cast<std::size_t>());
    const bool writes = !written_.empty() || !changed_.empty();
    for (const auto& row : from["tensors"]) {
      const auto pair = row.cast<pybind11::tuple>();
      state_.add_tensor(pair[0].ptr(), pair[1].ptr(), writes);
    }
  }

  // What of a call it was not made for; null: nothing. `tensors` takes those among the arguments,
  // each once. A Python error may be set.
  const char* difference(const Mode& mode, const Arguments& given, std::vector<Object>& tensors) {
    if (mode_ != mode) return "modes";
    if (!state_.holds()) return "state";
    if (!read(given, tensors)) return "structure";
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i](THPVariable_Unpack(tensors[i].ptr()))) return "tensors";
    }
    if (!state_.tensors_fit()) return "state's tensors";
    return meets_state(tensors) ? "sharing" : nullptr;
  }

  // The result of the program. Null: a Python error is set, or it refuses the call (`refused`).
  PyObject* run(const std::vector<Object>& tensors, bool* refused) {
    ++calls;
    std::vector<PyObject*> row;
    row.reserve(passed_.size() + tensors.size());
    for (const std::size_t i : passed_) row.push_back(state_.value(i));
    for (const Object& each : tensors) row.push_back(each.ptr());
    const auto results = pybind11::reinterpret_steal<Object>(
        PyObject_Vectorcall(function_.ptr(), row.data(), row.size(), nullptr));
    if (!results) {
      *refused = refuses_call();
      if (*refused) --calls;
    }
    if (!*refused) bump_versions();
    if (!results) return nullptr;
    const auto row_of_results = pybind11::reinterpret_steal<Object>(
        PySequence_Fast(results.ptr(), "a program returns a sequence"));
    if (!row_of_results) return nullptr;
    try {
      return Maker(results_, row_of_results.ptr(), tensors).make().release().ptr();
    } catch (pybind11::error_already_set& error) {
      error.restore();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
    return nullptr;
  }

  bool has_program() const { return !function_.is_none(); }
  bool ignores_grad() const { return ignores_grad_; }

  int visit(visitproc visit, void* arg) const {
    Py_VISIT(function_.ptr());
    Py_VISIT(refuses_.ptr());
    for (const Nodes* nodes : {&arguments_, &results_}) {
      for (const Node& node : *nodes) {
        if (const int found = node.visit(visit, arg)) return found;
      }
    }
    return state_.visit(visit, arg);
  }

  std::uint64_t calls = 0;

 private:
  bool read(const Arguments& given, std::vector<Object>& tensors) {
    const Py_ssize_t named = given.named();
    if (given.positional != positional_ || named != static_cast<Py_ssize_t>(names_.size())) {
      return false;
    }
    for (Py_ssize_t i = 0; i < named; ++i) {
      if (!is_same(PyTuple_GET_ITEM(names_.ptr(), i), PyTuple_GET_ITEM(given.names, i))) return false;
    }
    Reader reader(arguments_);
    reader.tensors.reserve(first_.size());
    for (Py_ssize_t i = 0; i < given.positional + named; ++i) {
      if (!reader.take(given.values[i])) return false;
    }
    return take_each_once(reader.tensors, tensors);
  }

  // Tensors given more than once have to be those that were when the program was made.
  bool take_each_once(std::vector<Object>& all, std::vector<Object>& tensors) const {
    tensors.clear();
    tensors.reserve(all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (first_[i] < tensors.size()) {
        if (!all[i].is(tensors[first_[i]])) return false;
        continue;
      }
      for (const Object& other : tensors) {
        if (other.is(all[i])) return false;
      }
      tensors.push_back(std::move(all[i]));
    }
    return true;
  }

  // Tell autograd which buffers were written to, unless torch's functions around the program do.
  void bump_versions() const {
    for (std::size_t i = 0; !records_ && i < changed_.size(); ++i) {
      const at::Tensor& tensor = state_.tensor(changed_[i]);
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }

  // True if the program writes to memory that an argument shares with the model, or with another
  // argument if the program does not check that itself.
  bool meets_state(const std::vector<Object>& tensors) const {
    if (written_.empty() && changed_.empty()) return false;
    for (const std::size_t i : written_) {
      const void* storage = storage_of(THPVariable_Unpack(tensors[i].ptr()));
      if (state_.shares_storage(storage)) return true;
      for (std::size_t j = 0; records_ && j < tensors.size(); ++j) {
        if (i != j && storage_of(THPVariable_Unpack(tensors[j].ptr())) == storage) return true;
      }
    }
    for (const Object& each : tensors) {
      const void* storage = storage_of(THPVariable_Unpack(each.ptr()));
      for (const std::size_t i : changed_) {
        if (storage_of(state_.tensor(i)) == storage) return true;
      }
    }
    return false;
  }

  // Ask whether the current Python error says that the program is for other inputs.
  bool refuses_call() const {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    const auto answer =
        pybind11::reinterpret_steal<Object>(PyObject_CallOneArg(refuses_.ptr(), value));
    const bool refused = answer && PyObject_IsTrue(answer.ptr()) == 1;
    if (refused) {
      Py_XDECREF(type);
      Py_XDECREF(value);
      Py_XDECREF(traceback);
    } else {
      PyErr_Clear();
      PyErr_Restore(type, value, traceback);
    }
    return refused;
  }

  bool ignores_grad_;
  bool records_;     // torch's functions are around the program: they check no sharing
  Object function_;  // None: calls run op by op
  Object refuses_;   // tells of an error whether the program refuses its inputs
  pybind11::tuple names_;
  Py_ssize_t positional_;
  Mode mode_;
  Nodes arguments_, results_;
  std::vector<std::size_t> first_;  // by tensor among the arguments: which input it is
  std::vector<TensorTest> inputs_;
  std::vector<std::size_t> written_;  // inputs that the program writes to
  std::vector<std::size_t> changed_;  // tensors of the state that it writes to
  std::vector<std::size_t> passed_;   // tensors of the state that are inputs, before all others
  State state_;
};

// The Python object that holds one.
struct Entry {
  PyObject_HEAD
  Kept* kept;
};

struct Table {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* missed;   // what a call without an entry calls
  PyObject* eager;    // the model
  PyObject* entries;  // a tuple, which is replaced as a whole
  Py_ssize_t last;    // the one that ran last
  int ignores_grad;
};

inline PyObject* call_table(PyObject* object, PyObject* const* values, std::size_t flags,
                            PyObject* names) {
  auto* self = reinterpret_cast<Table*>(object);
  const Arguments given{values, PyVectorcall_NARGS(flags), names};
  const Object alive = borrowed(object);
  const Mode mode = Mode::current(self->ignores_grad != 0);
  if (!mode.is_plain()) return given.call(self->eager);
  const Object entries = borrowed(self->entries);
  const Py_ssize_t count = PyTuple_GET_SIZE(entries.ptr());
  const Py_ssize_t start = self->last < count ? self->last : 0;
  std::vector<Object> tensors;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Py_ssize_t at = start + i < count ? start + i : start + i - count;
    Kept& kept = *reinterpret_cast<Entry*>(PyTuple_GET_ITEM(entries.ptr(), at))->kept;
    if (kept.difference(mode, given, tensors) != nullptr) {
      if (PyErr_Occurred() != nullptr) return nullptr;
      continue;
    }
    self->last = at;
    if (!kept.has_program()) {
      ++kept.calls;
      return given.call(self->eager);
    }
    bool refused = false;
    PyObject* made = kept.run(tensors, &refused);
    if (!refused) return made;
  }
  return given.call(self->missed);
}

// Python's side.

inline PyTypeObject* entry_type = nullptr;

inline PyObject* new_entry(PyTypeObject* type, PyObject*, PyObject* keywords) {
  auto* self = reinterpret_cast<Entry*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  try {
    const auto from = pybind11::reinterpret_borrow<pybind11::dict>(keywords);
    self->kept = new Kept(from, from["ignores_grad"].cast<bool>());
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  if (self->kept == nullptr) Py_CLEAR(self);
  return reinterpret_cast<PyObject*>(self);
}

inline int visit_entry(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  const Kept* kept = reinterpret_cast<Entry*>(object)->kept;
  return kept == nullptr ? 0 : kept->visit(visit, arg);
}

inline void delete_entry(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  delete reinterpret_cast<Entry*>(object)->kept;
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyObject* difference_from(PyObject* object, PyObject* const* values, Py_ssize_t count,
                                 PyObject* names) {
  Kept& kept = *reinterpret_cast<Entry*>(object)->kept;
  std::vector<Object> tensors;
  const Mode mode = Mode::current(kept.ignores_grad());
  const char* found = kept.difference(mode, {values, count, names}, tensors);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyUnicode_FromString(found == nullptr ? "" : found);
}

inline PyObject* calls_of(PyObject* object, void*) {
  return PyLong_FromUnsignedLongLong(reinterpret_cast<Entry*>(object)->kept->calls);
}

inline PyMethodDef entry_methods[] = {
    {"difference", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(difference_from)),
     METH_FASTCALL | METH_KEYWORDS,
     "difference(*args, **kwargs) -> what of such a call it is not for; '' if nothing"},
    {nullptr, nullptr, 0, nullptr}};

inline PyGetSetDef entry_properties[] = {{"calls", calls_of, nullptr, "calls so far", nullptr},
                                         {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyType_Slot entry_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_entry)},
                                    {Py_tp_dealloc, reinterpret_cast<void*>(delete_entry)},
                                    {Py_tp_traverse, reinterpret_cast<void*>(visit_entry)},
                                    {Py_tp_methods, entry_methods},
                                    {Py_tp_getset, entry_properties},
                                    {0, nullptr}};

inline PyType_Spec entry_spec = {"wir_python.Entry", sizeof(Entry), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, entry_slots};

inline PyObject* new_table(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *missed, *eager;
  int ignores_grad;
  if (!PyArg_ParseTuple(args, "OOp", &missed, &eager, &ignores_grad)) return nullptr;
  auto* self = reinterpret_cast<Table*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call_table;
  self->missed = Py_NewRef(missed);
  self->eager = Py_NewRef(eager);
  self->entries = PyTuple_New(0);
  self->ignores_grad = ignores_grad;
  return reinterpret_cast<PyObject*>(self);
}

inline int visit_table(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Table*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->missed);
  Py_VISIT(self->eager);
  Py_VISIT(self->entries);
  return 0;
}

// Keep what a call needs, because one may come while a reference cycle is torn down: its owner,
// which Python wrote, is what is cleared.
inline void delete_table(PyObject* object) {
  auto* self = reinterpret_cast<Table*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  Py_XDECREF(self->missed);
  Py_XDECREF(self->eager);
  Py_XDECREF(self->entries);
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyObject* entries_of(PyObject* object, void*) {
  return Py_NewRef(reinterpret_cast<Table*>(object)->entries);
}

inline int set_entries(PyObject* object, PyObject* value, void*) {
  auto* self = reinterpret_cast<Table*>(object);
  bool right = value != nullptr && PyTuple_CheckExact(value);
  for (Py_ssize_t i = 0; right && i < PyTuple_GET_SIZE(value); ++i) {
    right = Py_TYPE(PyTuple_GET_ITEM(value, i)) == entry_type;
  }
  if (!right) {
    PyErr_SetString(PyExc_TypeError, "entries are a tuple of Entry");
    return -1;
  }
  Py_SETREF(self->entries, Py_NewRef(value));
  return 0;
}

inline PyMemberDef table_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Table, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

inline PyGetSetDef table_properties[] = {
    {"entries", entries_of, set_entries, "the entries, in the order of tests", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyType_Slot table_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_table)},
                                    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                    {Py_tp_dealloc, reinterpret_cast<void*>(delete_table)},
                                    {Py_tp_traverse, reinterpret_cast<void*>(visit_table)},
                                    {Py_tp_members, table_members},
                                    {Py_tp_getset, table_properties},
                                    {0, nullptr}};

inline PyType_Spec table_spec = {
    "wir_python.Table", sizeof(Table), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, table_slots};

inline bool add_table_types(PyObject* module) {
  PyObject* entry = PyType_FromSpec(&entry_spec);
  PyObject* table = PyType_FromSpec(&table_spec);
  if (entry == nullptr || table == nullptr) return false;
  entry_type = reinterpret_cast<PyTypeObject*>(entry);
  return PyModule_AddObjectRef(module, "Entry", entry) == 0 &&
         PyModule_AddObjectRef(module, "Table", table) == 0;
}

}  // namespace wir_py
