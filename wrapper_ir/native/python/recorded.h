// Graphs whose gradients are recorded: what torch's autograd function calls, forward and backward.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ThreadLocalPythonObjects.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_function.h>

#include "restride.h"
#include "straight.h"

namespace torch::autograd {
// From graph_task.h, which takes seconds to compile.
TORCH_API bool get_current_graph_task_keep_graph();
}  // namespace torch::autograd

namespace wir_py {

// The forward function of one graph. `backward` makes the method of its nodes.
struct Recorded {
  // What Python gives, and what calls need of it.
  enum Part {
    kGraph,       // a dict that holds the emitted function as `current_callable`
    kSave,        // saves results for the backward pass where that is unusual, or None
    kFinish,      // makes results ready to be returned, or None
    kExternal,    // objects of others that graphs refer to: a dict, or empty
    kNote,        // notes these, where there are some
    kUnusual,     // what backward passes go to that are not usual
    kSwitches,    // as of `Straight`
    kCallback,    // returns Dynamo's callback, or None
    kRestrided,   // gives a gradient the layout that the backward graph was compiled for
    kLayouts,     // such layouts, for `kRestrided`
    kReady,       // the dict of the backward graph; or None, before its first pass
    kNode,        // the class of nodes, or None: no call is recorded by a node of ours
    kApply,       // torch's function that records a call
    kCompiling,   // is called with a node that compiled autograd is about to trace
    kParts
  };

  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::array<PyObject*, kParts> parts;
  Py_ssize_t returned;                // how many results are returned
  Py_ssize_t first_saved, end_saved;  // which are saved
  std::vector<Py_ssize_t>* made;      // which of those are no arguments
  std::vector<Py_ssize_t>* given;     // positions of gradients that the backward graph takes
  std::vector<Layout>* layouts;       // their layouts
  bool has_autocast, has_symbols, has_unchecked, is_deterministic;
  bool frees_saved;  // the backward graph takes over what is saved: the graph must not be kept
  bool clears_saved, is_boxed;  // of the class that `kApply` is of

  PyObject* part(Part which) const { return parts[which]; }
  bool has(Part which) const { return parts[which] != Py_None; }
};

inline Object attribute(PyObject* object, PyObject* name) {
  return pybind11::reinterpret_steal<Object>(PyObject_GetAttr(object, name));
}

// Tell a context which of a graph's results its backward pass needs. A view is detached, so that it
// does not keep what it is a view of. False: a Python error is set.
inline bool save(const Recorded* self, PyObject* context, PyObject* results) {
  if (self->has(Recorded::kSave)) {
    const Object done = pybind11::reinterpret_steal<Object>(PyObject_CallFunctionObjArgs(
        self->part(Recorded::kSave), context, results, nullptr));
    return done.ptr() != nullptr;
  }
  const Object saved = pybind11::reinterpret_steal<Object>(
      PyTuple_GetSlice(results, self->first_saved, self->end_saved));
  if (saved.ptr() == nullptr) return false;
  for (const Py_ssize_t i : *self->made) {
    PyObject*& value = PyTuple_GET_ITEM(saved.ptr(), i);
    if (!THPVariable_Unpack(value).is_view()) continue;
    PyObject* detached = THPVariable_Wrap(THPVariable_Unpack(value).detach());
    if (detached == nullptr) return false;
    Py_SETREF(value, detached);
  }
  static PyObject* const name = PyUnicode_InternFromString("to_save");
  return PyObject_SetAttr(context, name, saved.ptr()) == 0;
}

// Run the graph for a context and the arguments after it.
inline PyObject* forward(const Recorded* self, PyObject* const* args, Py_ssize_t count) {
  Object results = pybind11::reinterpret_steal<Object>(
      run_graph(self->part(Recorded::kGraph), self->has_autocast, args + 1, count - 1));
  if (results.ptr() != nullptr && !PyTuple_CheckExact(results.ptr())) {
    results = pybind11::reinterpret_steal<Object>(PySequence_Tuple(results.ptr()));
  }
  if (results.ptr() == nullptr || !save(self, args[0], results.ptr())) return nullptr;
  if (PyObject_IsTrue(self->part(Recorded::kExternal)) != 0) {
    const Object done = pybind11::reinterpret_steal<Object>(
        PyObject_CallOneArg(self->part(Recorded::kNote), args[0]));
    if (done.ptr() == nullptr) return nullptr;
  }
  Object returned = pybind11::reinterpret_steal<Object>(
      PyTuple_GetSlice(results.ptr(), 0, self->returned));
  if (returned.ptr() == nullptr || !self->has(Recorded::kFinish)) return returned.release().ptr();
  return PyObject_CallFunctionObjArgs(self->part(Recorded::kFinish), args[0], returned.ptr(),
                                      nullptr);
}

inline PyObject* call_forward(PyObject* object, PyObject* const* args, std::size_t flags,
                              PyObject* names) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count == 0 || names != nullptr) {
    PyErr_SetString(PyExc_TypeError, "a context and inputs are given by position");
    return nullptr;
  }
  const Object alive = borrowed(object);
  try {
    return forward(reinterpret_cast<const Recorded*>(object), args, count);
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

// 1 or 0; -1: a Python error is set.
inline int truth(const Object& value) {
  return value.ptr() == nullptr ? -1 : PyObject_IsTrue(value.ptr());
}

// Whether a backward pass needs nothing but the graph, as far as its modes tell; -1: a Python error
// is set.
inline int has_usual_modes(const Recorded* self) {
  if (!self->has(Recorded::kReady) || c10::GradMode::is_enabled() || is_transformed()) return 0;
  if (any_is_on(self->part(Recorded::kSwitches))) return 0;
  if (!self->is_deterministic && at::globalContext().deterministicAlgorithms()) return 0;
  if (self->frees_saved && torch::autograd::get_current_graph_task_keep_graph()) return 0;
  // Dynamo would compile the emitted function.
  const Object callback = pybind11::reinterpret_steal<Object>(
      PyObject_CallNoArgs(self->part(Recorded::kCallback)));
  return callback.ptr() == nullptr ? -1 : callback.ptr() == Py_None;
}

// Whether a backward pass needs nothing but the graph; -1: a Python error is set.
inline int is_usual(const Recorded* self, PyObject* node, PyObject* gradients) {
  if (!PyList_CheckExact(gradients)) return 0;
  for (const Py_ssize_t i : *self->given) {
    if (i >= PyList_GET_SIZE(gradients)) return 0;
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(PyList_GET_ITEM(gradients, i)));
    if (type != THPVariableClass) return 0;  // a parameter neither: torch refuses it
  }
  const int has_modes = has_usual_modes(self);
  if (has_modes != 1) return has_modes;
  static PyObject* const name = PyUnicode_InternFromString("_external_objects");
  const int is_noted = truth(attribute(node, name));
  return is_noted < 0 ? -1 : is_noted == 0;
}

// Append an attribute of a node, a sequence. False: a Python error is set.
inline bool append(PyObject* values, PyObject* node, PyObject* name) {
  const Object found = attribute(node, name);
  if (found.ptr() == nullptr) return false;
  const Py_ssize_t size = PyList_GET_SIZE(values);
  return PyList_SetSlice(values, size, size, found.ptr()) == 0;
}

// A gradient in the layout that the backward graph was compiled for. Undefined: a Python error is
// set.
inline at::Tensor restrided(const Recorded* self, const at::Tensor& gradient, std::size_t i) {
  const Layout& layout = (*self->layouts)[i];
  if (layout.fits(gradient)) return gradient;
  if (layout.may_copy(gradient)) return layout.copy(gradient);
  PyObject* theirs = PyTuple_GET_ITEM(self->part(Recorded::kLayouts), static_cast<Py_ssize_t>(i));
  const Object given = pybind11::reinterpret_steal<Object>(THPVariable_Wrap(gradient));
  if (given.ptr() == nullptr) return {};
  const Object made = pybind11::reinterpret_steal<Object>(
      PyObject_CallFunctionObjArgs(self->part(Recorded::kRestrided), given.ptr(), theirs, nullptr));
  return made.ptr() == nullptr ? at::Tensor() : THPVariable_Unpack(made.ptr());
}

// Append gradients, by a function that takes a tensor. False: a Python error is set.
template <class Append>
bool append_gradients(const Recorded* self, PyObject* gradients, Append append) {
  for (std::size_t i = 0; i < self->given->size(); ++i) {
    PyObject* gradient = PyList_GET_ITEM(gradients, (*self->given)[i]);
    at::Tensor made = restrided(self, THPVariable_Unpack(gradient), i);
    if (!made.defined() || !append(std::move(made))) return false;
  }
  return true;
}

// The inputs of the backward graph: what is saved, then gradients. Null: a Python error is set.
inline Object inputs_of(const Recorded* self, PyObject* node, PyObject* gradients) {
  static PyObject* const symbols = PyUnicode_InternFromString("symints");
  static PyObject* const saved = PyUnicode_InternFromString("saved_tensors");
  static PyObject* const unchecked = PyUnicode_InternFromString("_tensors_no_vc_check");
  Object values = pybind11::reinterpret_steal<Object>(PyList_New(0));
  if (values.ptr() == nullptr) return {};
  if (self->has_symbols && !append(values.ptr(), node, symbols)) return {};
  if (!append(values.ptr(), node, saved)) return {};
  if (self->has_unchecked && !append(values.ptr(), node, unchecked)) return {};
  const auto wrap = [&values](at::Tensor&& tensor) {
    const Object made = pybind11::reinterpret_steal<Object>(THPVariable_Wrap(std::move(tensor)));
    return made.ptr() != nullptr && PyList_Append(values.ptr(), made.ptr()) == 0;
  };
  return append_gradients(self, gradients, wrap) ? values : Object();
}

// Append what a node has saved. False: it has to be asked in Python, for its words on a graph that
// is gone through twice, or because this release of torch keeps it elsewhere.
template <class Node>
bool append_saved(const Node& node, std::vector<at::Tensor>* values) {
  if constexpr (requires {
                  node.saved_variables.front().unpack(node.cdata);
                  node.clear_saved_tensors_on_access;
                }) {
    if (node.has_freed_buffers != 0 || node.clear_saved_tensors_on_access) return false;
    for (const auto& each : node.saved_variables) values->push_back(each.unpack(node.cdata));
    return true;
  }
  return false;
}

// The program of a backward graph if it takes nothing but tensors, of that number; else null.
inline Function* program_for(const Recorded* self, PyObject* emitted, std::size_t count) {
  if (Py_TYPE(emitted) != function_type || self->has_symbols || self->has_unchecked) return nullptr;
  auto* function = reinterpret_cast<Function*>(emitted);
  const wir::ProgramInfo& info = *function->info;
  if (!function->boxed || info.num_inputs != count) return nullptr;
  const auto is_tensor = [](const wir::InputSpec& each) { return each.kind == wir::Kind::kTensor; };
  return std::all_of(info.inputs, info.inputs + count, is_tensor) ? function : nullptr;
}

// Context variables as they were when the backward pass began.
class InContext {
 public:
  // False: a Python error is set.
  bool enter() {
    if (!at::impl::ThreadLocalPythonObjects::contains("context")) return true;
    PyObject* kept = at::impl::ThreadLocalPythonObjects::get("context")->ptr(getPyInterpreter());
    if (!PyContext_CheckExact(kept)) return true;
    context_ = pybind11::reinterpret_steal<Object>(PyContext_Copy(kept));
    return context_.ptr() != nullptr && PyContext_Enter(context_.ptr()) == 0;
  }
  bool exit() { return context_.ptr() == nullptr || PyContext_Exit(context_.ptr()) == 0; }

 private:
  Object context_;
};

// Calls something with these. Its result as a tuple; null: a Python error is set.
template <class Call>
PyObject* in_context(Call call) {
  InContext context;
  if (!context.enter()) return nullptr;
  PyObject* made = call();
  if (!context.exit()) Py_CLEAR(made);
  if (made == nullptr || PyTuple_CheckExact(made)) return made;
  const Object results = pybind11::reinterpret_steal<Object>(made);
  return PySequence_Tuple(made);
}

// Empty the list of gradients, and what a node has saved: a program frees what it alone holds.
// False: a Python error is set.
inline bool let_go(PyObject* node, PyObject* gradients) {
  static PyObject* const clearing = PyUnicode_InternFromString("maybe_clear_saved_tensors");
  if (PyList_SetSlice(gradients, 0, PyList_GET_SIZE(gradients), nullptr) < 0) return false;
  return truth(pybind11::reinterpret_steal<Object>(PyObject_CallMethodNoArgs(node, clearing))) >= 0;
}

inline PyObject* backward(const Recorded* self, PyObject* node, PyObject* gradients) {
  const int is_simple = is_usual(self, node, gradients);
  if (is_simple < 0) return nullptr;
  if (is_simple == 0) {
    return PyObject_CallFunctionObjArgs(self->part(Recorded::kUnusual), node, gradients, nullptr);
  }
  const Object emitted = emitted_of(self->part(Recorded::kReady));
  if (emitted.ptr() == nullptr) return nullptr;
  const auto& held = *reinterpret_cast<const THPFunction*>(node);
  const std::size_t count = held.saved_variables.size() + self->given->size();
  Function* program = program_for(self, emitted.ptr(), count);
  std::vector<at::Tensor> tensors;
  if (program != nullptr && append_saved(held, &tensors)) {
    const auto add = [&tensors](at::Tensor&& tensor) {
      tensors.push_back(std::move(tensor));
      return true;
    };
    if (!append_gradients(self, gradients, add) || !let_go(node, gradients)) return nullptr;
    return in_context([program, &tensors]() -> PyObject* {
      Run run(program, nullptr, true);
      return run.take_tensors(std::move(tensors)) && run.execute() ? run.results() : nullptr;
    });
  }
  const Object values = inputs_of(self, node, gradients);
  if (values.ptr() == nullptr || !let_go(node, gradients)) return nullptr;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
  if (self->has_autocast) no_autocast.emplace(c10::autocast_dispatch_keyset);
  return in_context([&] { return PyObject_CallOneArg(emitted.ptr(), values.ptr()); });
}

// Python's side.

inline PyObject* call_backward(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyObject_TypeCheck(args[0], &THPFunctionType)) {
    PyErr_SetString(PyExc_TypeError, "a node and a list of gradients are needed");
    return nullptr;
  }
  const Object alive = borrowed(object);
  try {
    return backward(reinterpret_cast<const Recorded*>(object), args[0], args[1]);
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

inline PyMethodDef backward_method = {
    "backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call_backward)),
    METH_FASTCALL, "backward(node, gradients) -> gradients"};

// What a class of nodes has as its method.
inline PyObject* backward_of(PyObject* object, void*) {
  const Object function =
      pybind11::reinterpret_steal<Object>(PyCFunction_New(&backward_method, object));
  return function.ptr() == nullptr ? nullptr : PyInstanceMethod_New(function.ptr());
}

inline int set_ready(PyObject* object, PyObject* value, void*) {
  if (value == nullptr || (value != Py_None && !PyDict_Check(value))) {
    PyErr_SetString(PyExc_TypeError, "it is a dict or None");
    return -1;
  }
  Py_SETREF(reinterpret_cast<Recorded*>(object)->parts[Recorded::kReady], Py_NewRef(value));
  return 0;
}

inline PyObject* ready_of(PyObject* object, void*) {
  return Py_NewRef(reinterpret_cast<Recorded*>(object)->part(Recorded::kReady));
}

inline PyObject* new_recorded(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"graph",         "save",
                                "finish",        "external",
                                "note",          "unusual",
                                "switches",      "callback",
                                "restrided",     "layouts",
                                "returned",      "saved",
                                "made",          "given",
                                "strides",       "has_autocast",
                                "has_symbols",   "has_unchecked",
                                "frees_saved",   "is_deterministic",
                                nullptr};
  std::array<PyObject*, Recorded::kParts> parts{};
  parts[Recorded::kReady] = parts[Recorded::kNode] = Py_None;
  parts[Recorded::kApply] = parts[Recorded::kCompiling] = Py_None;
  Py_ssize_t returned, first, end;
  PyObject *made, *given, *strides;
  int flags[5];
  using R = Recorded;
  if (!PyArg_ParseTupleAndKeywords(
          args, keywords, "$O!OOOOOO!OOO!n(nn)O!O!O!ppppp", const_cast<char**>(names),
          &PyDict_Type, &parts[R::kGraph], &parts[R::kSave], &parts[R::kFinish],
          &parts[R::kExternal], &parts[R::kNote], &parts[R::kUnusual], &PyTuple_Type,
          &parts[R::kSwitches], &parts[R::kCallback], &parts[R::kRestrided], &PyTuple_Type,
          &parts[R::kLayouts], &returned, &first, &end, &PyTuple_Type, &made, &PyTuple_Type,
          &given, &PyTuple_Type, &strides, &flags[0], &flags[1], &flags[2], &flags[3],
          &flags[4])) {
    return nullptr;
  }
  auto made_ = numbers_in(made), given_ = numbers_in(given);
  auto layouts = layouts_in(strides);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (layouts->size() != given_->size() ||
      PyTuple_GET_SIZE(parts[R::kLayouts]) != static_cast<Py_ssize_t>(given_->size())) {
    PyErr_SetString(PyExc_ValueError, "there is a layout for each gradient");
    return nullptr;
  }
  auto* self = reinterpret_cast<Recorded*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call_forward;
  for (PyObject* each : parts) Py_INCREF(each);
  self->parts = parts;
  self->returned = returned;
  self->first_saved = first;
  self->end_saved = end;
  self->made = made_.release();
  self->given = given_.release();
  self->layouts = layouts.release();
  self->has_autocast = flags[0] != 0;
  self->has_symbols = flags[1] != 0;
  self->has_unchecked = flags[2] != 0;
  self->frees_saved = flags[3] != 0;
  self->is_deterministic = flags[4] != 0;
  return reinterpret_cast<PyObject*>(self);
}

inline int visit_recorded(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  for (PyObject* each : reinterpret_cast<Recorded*>(object)->parts) Py_VISIT(each);
  return 0;
}

inline void delete_recorded(PyObject* object) {
  auto* self = reinterpret_cast<Recorded*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  delete self->made;
  delete self->given;
  delete self->layouts;
  for (PyObject* each : self->parts) Py_XDECREF(each);
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyMemberDef recorded_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Recorded, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

inline PyObject* record_by_node(PyObject* object, PyObject* args);  // node.h

inline PyMethodDef recorded_methods[] = {
    {"record_by_node", record_by_node, METH_VARARGS,
     "record_by_node(node, apply, compiling, clears_saved, is_boxed) -> what records a call, in the "
     "place of `apply`"},
    {nullptr, nullptr, 0, nullptr}};

inline PyGetSetDef recorded_properties[] = {
    {"backward", backward_of, nullptr, nullptr, nullptr},
    {"ready", ready_of, set_ready, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

inline PyType_Slot recorded_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_recorded)},
                                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                       {Py_tp_dealloc, reinterpret_cast<void*>(delete_recorded)},
                                       {Py_tp_traverse, reinterpret_cast<void*>(visit_recorded)},
                                       {Py_tp_methods, recorded_methods},
                                       {Py_tp_members, recorded_members},
                                       {Py_tp_getset, recorded_properties},
                                       {0, nullptr}};

inline PyType_Spec recorded_spec = {
    "wir_python.Recorded", sizeof(Recorded), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, recorded_slots};

inline bool add_recorded_type(PyObject* module) {
  const Object type = pybind11::reinterpret_steal<Object>(PyType_FromSpec(&recorded_spec));
  return type.ptr() != nullptr && PyModule_AddObjectRef(module, "Recorded", type.ptr()) == 0;
}

}  // namespace wir_py
