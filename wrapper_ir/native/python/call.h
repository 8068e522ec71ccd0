// The function object: the path from a Python call to the program and back.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include <wir/error.h>

#include "outputs.h"
#include "probes.h"
#include "row.h"
#include "states.h"

#include <structmember.h>

namespace wir_py {

struct Function {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  const wir::ProgramInfo* info;
  PyObject* library;    // keeps `info` alive
  PyObject* constants;  // tuple of tensors; before the first call, a function that returns it
  PyObject* reporter;   // words every error
  PyObject* dict;
  PyObject* weakrefs;
  States* states;
  Probes* probes;  // null: the program has none
  bool boxed;
};

// A new tuple of the results of `make` for 0 to `count` - 1. Null: a Python error is set.
template <class Make>
PyObject* tuple_of(std::size_t count, Make make) {
  PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (std::size_t i = 0; made != nullptr && i < count; ++i) {
    PyObject* value = make(i);
    if (value == nullptr) {
      Py_CLEAR(made);
    } else {
      PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), value);
    }
  }
  return made;
}

// The object of Python that a tensor keeps, where torch tells; else null.
template <class Slot>
PyObject* object_in(const Slot* slot) {
  if constexpr (requires { slot->load_pyobj(); }) return slot->load_pyobj();
  return nullptr;
}

// Take a tensor that nobody else holds; undefined: somebody does, and it is left. An object of
// Python that it alone keeps, as of what has been saved, stays behind and ends here, under the GIL:
// the tensor of the same memory that is returned has none.
inline at::Tensor taken_alone(at::Tensor& tensor) {
  if (tensor.use_count() == 1) return std::move(tensor);
  const PyObject* object = object_in(tensor.unsafeGetTensorImpl()->pyobj_slot());
  const bool is_kept = object != nullptr && Py_REFCNT(object) == 1 && tensor.use_count() == 2;
  if (!is_kept || tensor.key_set().has(c10::DispatchKey::Python)) return {};
  auto made = tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true);
  tensor.reset();
  return at::Tensor(std::move(made));
}

// One call, with everything it borrows and owns. Constructed and destroyed under the GIL.
//
// Handles of inputs point into the Python objects, which the caller, or this, holds until the call
// is over. A copy of each tensor would cost more than all checks of it: the first copy in C++ of a
// tensor that Python made takes the GIL.
class Run {
 public:
  // `out` is the caller's value for `out=`, or null. If `boxed`, inputs come in a list.
  Run(Function* function, PyObject* out, bool boxed)
      : function_(function),
        info_(*function->info),
        slots_(info_.num_inputs),
        outputs_(info_.num_outputs),
        held_(boxed ? info_.num_inputs : 0),
        owned_(boxed ? info_.num_inputs : 0),
        // Copy a list, because it may change during the call.
        out_(out != nullptr && PyList_Check(out) ? PyList_AsTuple(out) : Py_XNewRef(out)),
        given_(info_, out != nullptr) {
    if (boxed) call_.owned = owned_.data();
    call_.probes = function->probes;
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() {
    Py_XDECREF(out_);
    for (AtenTensorHandle handle : owned_) delete tensor_of(handle);
    for (std::size_t i = 0; i < info_.num_outputs; ++i) {
      if (info_.outputs[i].kind == wir::Kind::kTensor) delete tensor_of(outputs_[i].tensor);
    }
    for (PyObject* value : held_) Py_XDECREF(value);
  }

  // Check inputs that the caller holds until the call is over. False: a Python error is set.
  bool take_inputs(PyObject* const* values) {
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      if (!take_input(i, values[i])) return false;
    }
    return true;
  }

  // Take all inputs out of a list of the right length, and check them. A tensor that only the list
  // held can be freed right after its last use. False: a Python error is set.
  bool take_list(PyObject* list) {
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      held_[i] = PyList_GET_ITEM(list, static_cast<Py_ssize_t>(i));
    }
    Py_SET_SIZE(list, 0);  // its references are ours now
    if (!take_inputs(held_.data())) return false;
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      if (info_.inputs[i].kind != wir::Kind::kTensor || Py_REFCNT(held_[i]) != 1) continue;
      owned_[i] = handle_of(new at::Tensor(*tensor_of(slots_[i].tensor)));
      slots_[i].tensor = owned_[i];
      Py_CLEAR(held_[i]);
    }
    return true;
  }

  // Take tensors, one for each input, and check them; the first inputs may be in a tuple instead,
  // which may be null. Tensors that nobody else holds can be freed right after their last use;
  // others are let go at the end, under the GIL, which one with an object of Python would ask for.
  // False: a Python error is set.
  bool take_tensors(std::vector<at::Tensor> tensors, PyObject* first) {
    tensors_ = std::move(tensors);
    const auto count = static_cast<std::size_t>(first == nullptr ? 0 : PyTuple_GET_SIZE(first));
    for (std::size_t i = 0; i < count; ++i) {
      if (!take_input(i, PyTuple_GET_ITEM(first, static_cast<Py_ssize_t>(i)))) return false;
    }
    for (std::size_t i = count; i < info_.num_inputs; ++i) {
      if (at::Tensor alone = taken_alone(tensors_[i]); alone.defined()) {
        owned_[i] = handle_of(new at::Tensor(std::move(alone)));
      }
      slots_[i].tensor = owned_[i] != nullptr ? owned_[i] : handle_of(&tensors_[i]);
      if (matches(info_, info_.inputs[i].tensor, *tensor_of(slots_[i].tensor))) continue;
      PyObject* value = THPVariable_Wrap(*tensor_of(slots_[i].tensor));
      const bool is_right = value != nullptr && refuse(i, value);
      Py_XDECREF(value);
      if (!is_right) return false;
    }
    return true;
  }

  // Run the program without the GIL. False: a Python error is set.
  bool execute() {
    States::Taken taken;
    try {
      if (!current_constants()) return false;
      if (out_ != nullptr && !take_out()) return false;
      taken = function_->states->take();
    } catch (...) {
      return translate();
    }
    std::exception_ptr error;
    try {
      torch::PyWarningHandler warnings;  // passes warnings of ops to Python when it is destroyed
      try {
        const pybind11::gil_scoped_release_simple released;
        const at::NoGradGuard no_grad;
        const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
        info_.run(taken.state, call_, slots_.data(), outputs_.data());
      } catch (...) {
        error = std::current_exception();
        warnings.set_in_exception();
      }
    } catch (...) {
      error = std::current_exception();  // a warning was turned into an error
    }
    if (out_ != nullptr) given_.bump_versions();
    if (error != nullptr) {
      // A failed call leaves its state in an unknown condition.
      info_.destroy_state(taken.state);
      return translate(std::move(error));
    }
    function_->states->give(std::move(taken));
    return true;
  }

  // Tell autograd which inputs were written to, so that using a stale saved value is an error.
  void bump_versions() const {
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      if (info_.inputs[i].kind != wir::Kind::kTensor || !info_.inputs[i].written) continue;
      const at::Tensor& tensor = *tensor_of(slots_[i].tensor);
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }

  PyObject* results() {
    return tuple_of(info_.num_outputs, [this](std::size_t i) { return result(i); });
  }

  std::size_t count_results() const { return info_.num_outputs; }
  bool is_tensor_result(std::size_t i) const {
    return info_.outputs[i].kind == wir::Kind::kTensor;
  }

  // Result `i`, once. Null: a Python error is set.
  PyObject* result(std::size_t i) { return value_out(info_.outputs[i].kind, &outputs_[i]); }

  // Result `i`, a tensor or nothing, without an object of Python; once.
  at::Tensor tensor_result(std::size_t i) { return tensor_out(&outputs_[i]); }

 private:
  bool take_input(std::size_t i, PyObject* value) {
    const wir::InputSpec& spec = info_.inputs[i];
    if (spec.kind == wir::Kind::kNone) {
      slots_[i].tensor = nullptr;
      return !spec.is_fixed || value == Py_None || refuse(i, value);
    }
    if (spec.kind == wir::Kind::kObject) {
      objects_.push_back(std::make_unique<c10::IValue>());
      slots_[i].object = objects_.back().get();
      return object_in(spec.class_name, value, objects_.back().get()) || refuse(i, value);
    }
    if (spec.kind != wir::Kind::kTensor) {
      return number_in(spec.kind, value, &slots_[i]) || refuse(i, value);
    }
    if (!is_tensor(value)) return refuse(i, value);
    const at::Tensor& tensor = THPVariable_Unpack(value);
    if (!matches(info_, spec.tensor, tensor) && !refuse(i, value)) return false;
    slots_[i].tensor = handle_of(&tensor);
    return true;
  }

  // Have the reporter check an input. True: there is nothing wrong with it after all.
  bool refuse(std::size_t i, PyObject* value) {
    const bool odd = is_tensor(value) && !is_plain(THPVariable_Unpack(value).key_set());
    PyObject* done = PyObject_CallMethod(function_->reporter, "check_input", "nOi",
                                         static_cast<Py_ssize_t>(i), value, odd);
    Py_XDECREF(done);
    return done != nullptr;
  }

  // Check the tensors that the caller provides for results. False: a Python error is set.
  bool take_out() {
    if (!info_.takes_out) {
      PyObject* done = PyObject_CallMethod(function_->reporter, "refuse_out", nullptr);
      Py_XDECREF(done);
      return false;
    }
    if (!given_.take(out_) || shares_memory()) {
      // Have the reporter check: there may be nothing wrong with them after all.
      PyObject* done = PyObject_CallMethod(function_->reporter, "check_out", "OnNO", out_,
                                           given_.odd(), shown_inputs(), function_->constants);
      if (done == nullptr) return false;
      Py_DECREF(done);
    }
    call_.out = given_.handles();
    return true;
  }

  // True if a tensor for a result shares memory with an input or a constant.
  bool shares_memory() const {
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      if (info_.inputs[i].kind == wir::Kind::kTensor && given_.meets(*tensor_of(slots_[i].tensor))) {
        return true;
      }
    }
    for (std::size_t i = 0; i < info_.num_constants; ++i) {
      PyObject* constant = PyTuple_GET_ITEM(function_->constants, static_cast<Py_ssize_t>(i));
      if (given_.meets(THPVariable_Unpack(constant))) return true;
    }
    return false;
  }

  bool current_constants() {
    if (!PyTuple_CheckExact(function_->constants)) {
      PyObject* found = PyObject_CallNoArgs(function_->constants);
      if (found == nullptr) return false;
      // Another thread may have set the tuple in the meantime, and be reading it.
      if (PyTuple_CheckExact(function_->constants)) {
        Py_DECREF(found);
      } else {
        Py_SETREF(function_->constants, found);
      }
    }
    PyObject* const* constants = &PyTuple_GET_ITEM(function_->constants, 0);
    if (function_->states->is_current(constants)) return true;
    PyObject* done =
        PyObject_CallMethod(function_->reporter, "check_constants", "(O)", function_->constants);
    if (done == nullptr) return false;
    Py_DECREF(done);
    function_->states->begin_epoch(constants);
    return true;
  }

  // Set the Python error for an exception. Always returns false.
  bool translate(std::exception_ptr error = std::current_exception()) {
    PyObject* made = nullptr;
    try {
      std::rethrow_exception(error);
    } catch (const wir::Error& e) {
      PyObject* words = tuple_of(e.words().size(), [&e](std::size_t i) {
        return PyUnicode_FromString(e.words()[i].c_str());
      });
      made = PyObject_CallMethod(function_->reporter, "error", "(sss)(sN)NNN", e.code(),
                                 e.message().c_str(), e.hint().c_str(), e.form(), words, place(),
                                 shown_inputs(), kind_of(e.cause()));
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
      made = noted();
    } catch (python_error& e) {  // from a probe
      e.restore();
      made = noted();
    } catch (const std::exception&) {
      torch::translate_exception_to_python(error);
      made = noted();
    } catch (...) {
      PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
      made = noted();
    }
    if (made != nullptr) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made)), made);
      Py_DECREF(made);
    }
    return false;
  }

  // The class of the Python error that torch makes of an exception; None for none.
  static PyObject* kind_of(const std::exception_ptr& cause) {
    if (cause == nullptr) Py_RETURN_NONE;
    torch::translate_exception_to_python(cause);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return type;
  }

  // The current Python error, with a note of the place.
  PyObject* noted() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) PyException_SetTraceback(value, traceback);
    PyObject* made =
        PyObject_CallMethod(function_->reporter, "noted", "ONN", value, place(), shown_inputs());
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return made;
  }

  // The line of the program that was running.
  PyObject* place() const {
    if (call_.line >= info_.num_lines) return Py_BuildValue("(sss)", "", "", "");
    const wir::LineInfo& line = info_.lines[call_.line];
    return Py_BuildValue("(sss)", line.path, line.what, line.source);
  }

  // The inputs, with None for those that are not tensors or were freed.
  PyObject* shown_inputs() {
    PyObject* made = PyTuple_New(static_cast<Py_ssize_t>(info_.num_inputs));
    for (std::size_t i = 0; made != nullptr && i < info_.num_inputs; ++i) {
      const bool was_freed = call_.owned != nullptr && owned_[i] == nullptr && held_[i] == nullptr &&
                             (tensors_.empty() || !tensors_[i].defined());
      const bool there = info_.inputs[i].kind == wir::Kind::kTensor && !was_freed;
      PyObject* value =
          there ? THPVariable_Wrap(*tensor_of(slots_[i].tensor)) : Py_NewRef(Py_None);
      if (value == nullptr) Py_CLEAR(made);
      if (made != nullptr) PyTuple_SET_ITEM(made, static_cast<Py_ssize_t>(i), value);
    }
    return made;
  }

  Function* function_;
  const wir::ProgramInfo& info_;
  wir::Call call_;
  std::vector<std::unique_ptr<c10::IValue>> objects_;  // which slots point to
  NullRow<wir::Slot, 32> slots_;
  NullRow<wir::Slot, 8> outputs_;
  NullRow<PyObject*, 32> held_;          // inputs that came in a list, and are not owned
  std::vector<at::Tensor> tensors_;      // inputs that came without objects, and are not owned
  NullRow<AtenTensorHandle, 32> owned_;  // copies of those that the call alone holds
  PyObject* out_;
  Given given_;
};

inline PyObject* refuse_count(Function* self, Py_ssize_t given) {
  PyObject* done = PyObject_CallMethod(self->reporter, "refuse_count", "n", given);
  Py_XDECREF(done);
  if (done != nullptr) PyErr_SetString(PyExc_TypeError, "wrong number of inputs");
  return nullptr;
}

// Find the value of `out=`, the only keyword argument. False: a Python error is set.
inline bool find_out(PyObject* keywords, PyObject* const* values, PyObject** out) {
  const Py_ssize_t count = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  if (count == 0) return true;
  PyObject* name = PyTuple_GET_ITEM(keywords, 0);
  if (count > 1 || PyUnicode_CompareWithASCIIString(name, "out") != 0) {
    PyErr_SetString(PyExc_TypeError, "inputs are given by position");
    return false;
  }
  if (values[0] != Py_None) *out = values[0];
  return true;
}

inline PyObject* call_plain(PyObject* callable, PyObject* const* args, std::size_t flags,
                            PyObject* keywords) {
  auto* self = reinterpret_cast<Function*>(callable);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  PyObject* out = nullptr;
  if (!find_out(keywords, args + count, &out)) return nullptr;
  if (count != static_cast<Py_ssize_t>(self->info->num_inputs)) return refuse_count(self, count);
  Py_INCREF(callable);
  PyObject* made = nullptr;
  {
    Run run(self, out, false);
    if (run.take_inputs(args)) {
      if (run.execute()) made = run.results();
      run.bump_versions();
    }
  }
  Py_DECREF(callable);
  return made;
}

inline std::int64_t clock_nanoseconds() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

// Where this thread's programs add what their checks of inputs take; null if nobody measures it.
inline thread_local std::int64_t* check_nanoseconds = nullptr;

// Take inputs from a list, which is emptied, and compare them with the program's table.
inline bool take_list(Run& run, PyObject* list) {
  if (check_nanoseconds == nullptr) return run.take_list(list);
  const std::int64_t before = clock_nanoseconds();
  const std::int64_t began = clock_nanoseconds();
  const bool taken = run.take_list(list);
  const std::int64_t length = clock_nanoseconds() - began;
  *check_nanoseconds += std::max<std::int64_t>(0, length - (began - before));
  return taken;
}

// Call a program with a list of inputs, which is emptied.
inline PyObject* run_list(Function* self, PyObject* list, PyObject* out) {
  const Py_ssize_t count = PyList_GET_SIZE(list);
  if (count != static_cast<Py_ssize_t>(self->info->num_inputs)) return refuse_count(self, count);
  Py_INCREF(self);
  PyObject* made = nullptr;
  {
    Run run(self, out, true);
    if (take_list(run, list) && run.execute()) made = run.results();
  }
  Py_DECREF(self);
  return made;
}

inline PyObject* call_boxed(PyObject* callable, PyObject* const* args, std::size_t flags,
                            PyObject* keywords) {
  auto* self = reinterpret_cast<Function*>(callable);
  if (PyVectorcall_NARGS(flags) != 1 || !PyList_CheckExact(args[0])) {
    PyErr_SetString(PyExc_TypeError, "a program is called with one list of inputs");
    return nullptr;
  }
  PyObject* out = nullptr;
  if (!find_out(keywords, args + 1, &out)) return nullptr;
  return run_list(self, args[0], out);
}

// Call what runs programs, such as one of ours or what stands round it, and return how long their
// checks of inputs took, too.
inline PyObject* clocked(PyObject*, PyObject* args) {
  PyObject *callable, *list;
  if (!PyArg_ParseTuple(args, "OO!", &callable, &PyList_Type, &list)) return nullptr;
  std::int64_t nanoseconds = 0;
  std::int64_t* const outer = check_nanoseconds;
  check_nanoseconds = &nanoseconds;
  PyObject* made = PyObject_CallOneArg(callable, list);
  check_nanoseconds = outer;
  if (made == nullptr) return nullptr;
  return Py_BuildValue("NL", made, static_cast<long long>(nanoseconds));
}

inline PyTypeObject* function_type = nullptr;

inline PyObject* bind(PyObject*, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"library", "constants", "reporter", "boxed",
                                "keep",    "name",      "doc",      "probes",
                                "output",  nullptr};
  PyObject *library, *constants, *reporter, *name, *doc;
  PyObject* probes = nullptr;
  Py_ssize_t output = 0;
  int boxed = 0;
  Py_ssize_t keep = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO$pnUUO!n", const_cast<char**>(names),
                                   &library, &constants, &reporter, &boxed, &keep, &name, &doc,
                                   &PyTuple_Type, &probes, &output)) {
    return nullptr;
  }
  auto* info =
      static_cast<const wir::ProgramInfo*>(PyCapsule_GetPointer(library, "wir.ProgramInfo"));
  if (info == nullptr) return nullptr;
  const Py_ssize_t given = PyTuple_GET_SIZE(probes);
  if (given != static_cast<Py_ssize_t>(info->num_probes)) {
    PyErr_SetString(PyExc_ValueError, "there must be a function for each probe");
    return nullptr;
  }
  auto* self = PyObject_GC_New(Function, function_type);
  if (self == nullptr) return nullptr;
  self->vectorcall = boxed != 0 ? call_boxed : call_plain;
  self->boxed = boxed != 0;
  self->info = info;
  self->library = Py_NewRef(library);
  self->constants = Py_NewRef(constants);
  self->reporter = Py_NewRef(reporter);
  self->dict = nullptr;
  self->weakrefs = nullptr;
  self->states = new States(info, static_cast<std::size_t>(keep < 0 ? 0 : keep));
  self->probes = info->num_probes == 0
                     ? nullptr
                     : new Probes(*info, probes, reinterpret_cast<const int*>(output));
  PyObject_GC_Track(self);
  PyObject* object = reinterpret_cast<PyObject*>(self);
  if (PyObject_SetAttrString(object, "__name__", name) < 0 ||
      PyObject_SetAttrString(object, "__qualname__", name) < 0 ||
      PyObject_SetAttrString(object, "__doc__", doc) < 0) {
    Py_CLEAR(object);
  }
  return object;
}

inline int traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Function*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->library);
  Py_VISIT(self->constants);
  Py_VISIT(self->reporter);
  if (self->probes != nullptr) Py_VISIT(self->probes->functions());
  Py_VISIT(self->dict);
  return 0;
}

// Keep the constants and the reporter: a call may come while a reference cycle is torn down.
inline int clear(PyObject* object) {
  Py_CLEAR(reinterpret_cast<Function*>(object)->dict);
  return 0;
}

inline void deallocate(PyObject* object) {
  auto* self = reinterpret_cast<Function*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  delete self->states;
  delete self->probes;
  Py_XDECREF(self->dict);
  Py_DECREF(self->reporter);
  Py_DECREF(self->constants);
  Py_DECREF(self->library);
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyObject* release(PyObject* object, PyObject*) {
  return PyLong_FromSize_t(reinterpret_cast<Function*>(object)->states->release());
}

inline PyMethodDef function_methods[] = {
    {"release", release, METH_NOARGS,
     "release() -> bytes freed now\n\nFree the memory kept between calls; calls in progress free "
     "theirs when they end."},
    {nullptr, nullptr, 0, nullptr}};

inline PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Function, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

inline PyGetSetDef properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                              {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear)},
                              {Py_tp_methods, function_methods},
                              {Py_tp_members, members},
                              {Py_tp_getset, properties},
                              {0, nullptr}};

inline PyType_Spec spec = {"wir_python.Function", sizeof(Function), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
                           slots};

inline bool add_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) return false;
  function_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Function", type) == 0;
}

}  // namespace wir_py
