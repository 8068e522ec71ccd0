// Calls from Dynamo's frames: from the arguments straight to the program.
#pragma once

#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "call.h"
#include "parts.h"
#include "restride.h"
#include "structure.h"

namespace wir_py {

// What Dynamo calls in the place of a compiled graph.
struct Straight {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* unusual;   // what calls go to that are not usual
  PyObject* graph;     // a dict that holds the emitted function as `current_callable`
  PyObject* apply;     // what records a call for autograd, or None
  PyObject* finish;    // what makes of arguments and results those to return, or None
  PyObject* switches;  // a tuple of pairs of a dict and a key: no call is usual where one is on
  PyObject* watchers;  // a dict: no call is usual while it holds something
  PyObject* dict;
  PyObject* weakrefs;
  std::vector<Py_ssize_t>* written;   // positions of arguments that count as written
  std::vector<Py_ssize_t>* detached;  // and of those that no gradient goes to
  std::vector<Part>* parts;           // what arguments are taken apart to; empty if all are plain
  bool has_autocast;                  // the graph was compiled under autocast: off while it runs
  bool is_ready;                      // unusual calls have prepared the graph
};

inline bool is_on(PyObject* pair) {
  PyObject* value = PyDict_GetItem(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
  return value != nullptr && value != Py_False && value != Py_None && PyObject_IsTrue(value) != 0;
}

inline bool any_is_on(PyObject* switches) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(switches); ++i) {
    if (is_on(PyTuple_GET_ITEM(switches, i))) return true;
  }
  return false;
}

inline bool is_transformed() {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet transforms{DispatchKey::FuncTorchDynamicLayerFrontMode,
                                           DispatchKey::FuncTorchDynamicLayerBackMode};
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(transforms);
}

inline bool is_usual(const Straight* self, PyObject* names) {
  if (!self->is_ready || names != nullptr || PyDict_GET_SIZE(self->watchers) != 0) return false;
  return !any_is_on(self->switches) && (self->apply == Py_None || !is_transformed());
}

// The emitted function of a graph, a dict. Null: a Python error is set.
inline Object emitted_of(PyObject* graph) {
  static PyObject* const name = PyUnicode_InternFromString("current_callable");
  Object emitted = borrowed(PyDict_GetItem(graph, name));
  if (emitted.ptr() == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "the compiled graph has no function");
  }
  return emitted;
}

// Call the emitted function of a graph with arguments that the caller holds.
inline PyObject* run_graph(PyObject* graph, bool has_autocast, PyObject* const* args,
                           Py_ssize_t count) {
  const Object emitted = emitted_of(graph);
  if (emitted.ptr() == nullptr) return nullptr;
  const bool is_program = Py_TYPE(emitted.ptr()) == function_type;
  auto* function = reinterpret_cast<Function*>(emitted.ptr());
  if (is_program && count == static_cast<Py_ssize_t>(function->info->num_inputs)) {
    Run run(function, nullptr, false);
    return run.take_inputs(args) && run.execute() ? run.results() : nullptr;
  }
  const at::NoGradGuard no_grad;
  std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
  if (has_autocast) no_autocast.emplace(c10::autocast_dispatch_keyset);
  const Object list = pybind11::reinterpret_steal<Object>(PyList_New(count));
  if (list.ptr() == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) PyList_SET_ITEM(list.ptr(), i, Py_NewRef(args[i]));
  return PyObject_CallOneArg(emitted.ptr(), list.ptr());
}

inline PyObject* run_recorded(const Straight* self, PyObject* const* args, Py_ssize_t count) {
  const at::AutoGradMode grad(true);
  const auto size = static_cast<std::size_t>(count);
  if (self->detached->empty()) return PyObject_Vectorcall(self->apply, args, size, nullptr);
  std::vector<PyObject*> given(args, args + size);
  std::vector<Object> held;
  for (const Py_ssize_t i : *self->detached) {
    if (i >= count || !is_tensor(args[i])) continue;
    PyObject* made = THPVariable_Wrap(THPVariable_Unpack(args[i]).detach());
    if (made == nullptr) return nullptr;
    held.push_back(pybind11::reinterpret_steal<Object>(made));
    given[static_cast<std::size_t>(i)] = made;
  }
  return PyObject_Vectorcall(self->apply, given.data(), size, nullptr);
}

inline PyObject* run_usual(const Straight* self, PyObject* const* args, Py_ssize_t count,
                           const TakenApart& taken) {
  PyObject* made = nullptr;
  try {
    for (const Py_ssize_t i : *self->written) {
      if (i >= count || !is_tensor(args[i])) continue;  // the call will be refused
      THPVariable_Unpack(args[i]).unsafeGetTensorImpl()->bump_version();
    }
    made = self->apply == Py_None
               ? run_graph(self->graph, self->has_autocast, taken.data(), taken.size())
               : run_recorded(self, args, count);
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
  if (made == nullptr || self->finish == Py_None) return made;
  const Object results = pybind11::reinterpret_steal<Object>(made);
  const Object given = pybind11::reinterpret_steal<Object>(tuple_of(
      static_cast<std::size_t>(count), [args](std::size_t i) { return Py_NewRef(args[i]); }));
  if (given.ptr() == nullptr) return nullptr;
  return PyObject_CallFunctionObjArgs(self->finish, given.ptr(), results.ptr(), nullptr);
}

inline PyObject* call_straight(PyObject* object, PyObject* const* args, std::size_t flags,
                               PyObject* names) {
  const auto* self = reinterpret_cast<const Straight*>(object);
  const Object alive = borrowed(object);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  TakenApart taken;
  if (!is_usual(self, names) || !taken.take(*self->parts, args, count)) {
    return PyErr_Occurred() ? nullptr : PyObject_Vectorcall(self->unusual, args, flags, names);
  }
  return run_usual(self, args, count, taken);
}

// Python's side.

inline PyTypeObject* straight_type = nullptr;

inline PyObject* new_straight(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"unusual",  "graph",   "apply",        "finish", "switches",
                                "watchers", "written", "detached",     "parts",  "has_autocast",
                                nullptr};
  PyObject *unusual, *graph, *apply, *finish, *switches, *watchers, *written, *detached, *parts;
  int has_autocast = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "$OO!OOO!O!O!O!Op", const_cast<char**>(names),
                                   &unusual, &PyDict_Type, &graph, &apply, &finish, &PyTuple_Type,
                                   &switches, &PyDict_Type, &watchers, &PyTuple_Type,
                                   &written, &PyTuple_Type, &detached, &parts, &has_autocast)) {
    return nullptr;
  }
  auto written_ = numbers_in(written), detached_ = numbers_in(detached);
  auto parts_ = parts_in(parts);
  if (PyErr_Occurred() != nullptr) return nullptr;
  auto* self = reinterpret_cast<Straight*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = call_straight;
  self->unusual = Py_NewRef(unusual);
  self->graph = Py_NewRef(graph);
  self->apply = Py_NewRef(apply);
  self->finish = Py_NewRef(finish);
  self->switches = Py_NewRef(switches);
  self->watchers = Py_NewRef(watchers);
  self->written = written_.release();
  self->detached = detached_.release();
  self->parts = parts_.release();
  self->has_autocast = has_autocast != 0;
  return reinterpret_cast<PyObject*>(self);
}

inline int visit_straight(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Straight*>(object);
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self->unusual);
  Py_VISIT(self->graph);
  Py_VISIT(self->apply);
  Py_VISIT(self->finish);
  Py_VISIT(self->switches);
  Py_VISIT(self->watchers);
  Py_VISIT(self->dict);
  return 0;
}

// Keep what a call needs, because one may come while a reference cycle is torn down.
inline int clear_straight(PyObject* object) {
  Py_CLEAR(reinterpret_cast<Straight*>(object)->dict);
  return 0;
}

inline void delete_straight(PyObject* object) {
  auto* self = reinterpret_cast<Straight*>(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  delete self->written;
  delete self->detached;
  delete self->parts;
  for (PyObject* each : {self->unusual, self->graph, self->apply, self->finish, self->switches,
                         self->watchers, self->dict}) {
    Py_XDECREF(each);
  }
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyMemberDef straight_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Straight, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Straight, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Straight, weakrefs), READONLY, nullptr},
    {"is_ready", T_BOOL, offsetof(Straight, is_ready), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

inline PyType_Slot straight_slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_straight)},
                                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                       {Py_tp_dealloc, reinterpret_cast<void*>(delete_straight)},
                                       {Py_tp_traverse, reinterpret_cast<void*>(visit_straight)},
                                       {Py_tp_clear, reinterpret_cast<void*>(clear_straight)},
                                       {Py_tp_members, straight_members},
                                       {Py_tp_getset, properties},
                                       {0, nullptr}};

inline PyType_Spec straight_spec = {
    "wir_python.Straight", sizeof(Straight), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, straight_slots};

inline bool add_straight_type(PyObject* module) {
  PyObject* type = PyType_FromSpec(&straight_spec);
  if (type == nullptr) return false;
  straight_type = reinterpret_cast<PyTypeObject*>(type);
  return PyModule_AddObjectRef(module, "Straight", type) == 0;
}

}  // namespace wir_py
