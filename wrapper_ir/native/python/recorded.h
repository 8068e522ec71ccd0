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
    kGraph,      // a dict that holds the emitted function as `current_callable`
    kSave,       // saves results for the backward pass where that is unusual, or None
    kFinish,     // makes results ready to be returned, or None
    kMark,       // marks dimensions of a tensor as dynamic
    kDynamic,    // pairs of a saved tensor's position and of dimensions, for `kMark`
    kNote,       // notes the user's objects that graphs refer to; None if they refer to none
    kUnusual,    // what backward passes go to that are not usual
    kSwitches,   // as of `Straight`
    kCallback,   // returns Dynamo's callback, or None
    kRestrided,  // gives a gradient the layout that the backward graph was compiled for
    kLayouts,    // such layouts, for `kRestrided`
    kWrap,       // makes tensor subclasses of what the backward graph returns, or None
    kReady,      // the dict of the backward graph; or None, before its first pass
    kNode,       // the class of nodes, or None: no call is recorded by a node of ours
    kApply,      // torch's function that records a call
    kCompiling,  // is called with a node that compiled autograd is about to trace
    kParts
  };

  PyObject_HEAD
  vectorcallfunc vectorcall;
  std::array<PyObject*, kParts> parts;
  Py_ssize_t returned;              // how many results are returned
  Py_ssize_t first_saved;           // from which on they are saved: tensors, then those
  Py_ssize_t unchecked;             // that may be overwritten, then
  Py_ssize_t objects;               // objects, then
  Py_ssize_t symbols;               // numbers
  std::vector<Py_ssize_t>* inputs;  // which saved tensors are arguments, and saved as they are
  std::vector<Py_ssize_t>* viewed;  // which results are returned as views of themselves
  std::vector<Py_ssize_t>* fixed;   // which results have no gradient
  std::vector<Py_ssize_t>* given;   // positions of gradients that the backward graph takes
  std::vector<Layout>* layouts;     // their layouts
  std::vector<::wir_py::Part>* apart;  // what arguments are taken apart to; empty if all are plain
  bool has_autocast, is_deterministic;
  bool frees_saved;  // the backward graph takes over what is saved: the graph must not be kept
  bool hides;        // `kFinish` does more than `viewed` and `fixed` say
  bool clears_saved, is_boxed;  // of the class that `kApply` is of
  // How many calls were recorded by nodes of ours, and how many backward passes such nodes ran.
  Py_ssize_t nodes, passes;

  PyObject* part(Part which) const { return parts[which]; }
  bool has(Part which) const { return parts[which] != Py_None; }
  // Whether the backward graph takes and gives tensors and numbers alone.
  bool is_plain() const { return objects == 0 && !has(kWrap); }
  bool is_input(Py_ssize_t saved) const {
    return std::find(inputs->begin(), inputs->end(), saved) != inputs->end();
  }
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
      PyTuple_GetSlice(results, self->first_saved, PyTuple_GET_SIZE(results)));
  if (saved.ptr() == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved.ptr()); ++i) {
    PyObject*& value = PyTuple_GET_ITEM(saved.ptr(), i);
    if (!THPVariable_Unpack(value).is_view() || self->is_input(i)) continue;
    PyObject* detached = THPVariable_Wrap(THPVariable_Unpack(value).detach());
    if (detached == nullptr) return false;
    Py_SETREF(value, detached);
  }
  static PyObject* const name = PyUnicode_InternFromString("to_save");
  return PyObject_SetAttr(context, name, saved.ptr()) == 0;
}

// Who called has looked at the types of arguments.
inline PyObject* refuse_parts() {
  if (PyErr_Occurred() == nullptr) {
    PyErr_SetString(PyExc_TypeError, "an argument changed while it was taken apart");
  }
  return nullptr;
}

// Run the graph for a context and the arguments after it.
inline PyObject* forward(const Recorded* self, PyObject* const* args, Py_ssize_t count) {
  TakenApart taken;
  if (!taken.take(*self->apart, args + 1, count - 1)) return refuse_parts();
  Object results = pybind11::reinterpret_steal<Object>(
      run_graph(self->part(Recorded::kGraph), self->has_autocast, taken.data(), taken.size()));
  if (results.ptr() != nullptr && !PyTuple_CheckExact(results.ptr())) {
    results = pybind11::reinterpret_steal<Object>(PySequence_Tuple(results.ptr()));
  }
  if (results.ptr() == nullptr || !save(self, args[0], results.ptr())) return nullptr;
  if (self->has(Recorded::kNote)) {
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

// The names under which a node has numbers, objects, and tensors that may be overwritten.
inline PyObject* symbols_name() {
  static PyObject* const name = PyUnicode_InternFromString("symints");
  return name;
}
inline PyObject* objects_name() {
  static PyObject* const name = PyUnicode_InternFromString("opaque_objects");
  return name;
}
inline PyObject* unchecked_name() {
  static PyObject* const name = PyUnicode_InternFromString("_tensors_no_vc_check");
  return name;
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
  static PyObject* const saved = PyUnicode_InternFromString("saved_tensors");
  Object values = pybind11::reinterpret_steal<Object>(PyList_New(0));
  if (values.ptr() == nullptr) return {};
  if (self->symbols != 0 && !append(values.ptr(), node, symbols_name())) return {};
  if (!append(values.ptr(), node, saved)) return {};
  if (self->unchecked != 0 && !append(values.ptr(), node, unchecked_name())) return {};
  if (self->objects != 0 && !append(values.ptr(), node, objects_name())) return {};
  const auto wrap = [&values](at::Tensor&& tensor) {
    const Object made = pybind11::reinterpret_steal<Object>(THPVariable_Wrap(std::move(tensor)));
    return made.ptr() != nullptr && PyList_Append(values.ptr(), made.ptr()) == 0;
  };
  return append_gradients(self, gradients, wrap) ? values : Object();
}

// What a backward graph takes, without objects of Python for tensors. Numbers come first, and other
// objects before gradients.
struct Taken {
  Object numbers, objects;          // tuples, or null: there are none
  std::vector<at::Tensor> tensors;  // undefined in the places of numbers and objects

  // The number or object in a place; null: a tensor is.
  PyObject* object(const Recorded* self, Py_ssize_t i) const {
    if (i < self->symbols) return PyTuple_GET_ITEM(numbers.ptr(), i);
    const auto end = static_cast<Py_ssize_t>(tensors.size() - self->given->size());
    const Py_ssize_t place = i - (end - self->objects);
    return place < 0 || i >= end ? nullptr : PyTuple_GET_ITEM(objects.ptr(), place);
  }
};

// An attribute of a node, as a tuple of that size. Null: it is none, or a Python error is set.
inline Object tuple_in(PyObject* node, PyObject* name, Py_ssize_t size) {
  const Object found = attribute(node, name);
  if (found.ptr() == nullptr) return {};
  Object made = pybind11::reinterpret_steal<Object>(PySequence_Tuple(found.ptr()));
  return made.ptr() != nullptr && PyTuple_GET_SIZE(made.ptr()) == size ? made : Object();
}

// Take numbers. False: there are not as many as there should be, or a Python error is set.
inline bool take_numbers(const Recorded* self, PyObject* node, Taken* taken) {
  if (self->symbols == 0) return true;
  taken->numbers = tuple_in(node, symbols_name(), self->symbols);
  taken->tensors.resize(static_cast<std::size_t>(self->symbols));
  return taken->numbers.ptr() != nullptr;
}

// Take objects. False: as above.
inline bool take_objects(const Recorded* self, PyObject* node, Taken* taken) {
  if (self->objects == 0) return true;
  taken->objects = tuple_in(node, objects_name(), self->objects);
  taken->tensors.resize(taken->tensors.size() + static_cast<std::size_t>(self->objects));
  return taken->objects.ptr() != nullptr;
}

// Take tensors that may be overwritten. False: as above.
inline bool take_unchecked(const Recorded* self, PyObject* node, Taken* taken) {
  if (self->unchecked == 0) return true;
  const Object found = attribute(node, unchecked_name());
  if (found.ptr() == nullptr || !PyList_CheckExact(found.ptr())) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found.ptr()); ++i) {
    PyObject* each = PyList_GET_ITEM(found.ptr(), i);
    if (!is_tensor(each)) return false;
    taken->tensors.push_back(THPVariable_Unpack(each));
  }
  return PyList_GET_SIZE(found.ptr()) == self->unchecked;
}

// Take what a node has saved. False: it has to be asked in Python, for its words on a graph that is
// gone through twice, or because this release of torch keeps it elsewhere; or a Python error is
// set.
template <class Node>
bool take_saved(const Recorded* self, const Node& node, PyObject* object, Taken* taken) {
  if constexpr (requires {
                  node.saved_variables.front().unpack(node.cdata);
                  node.clear_saved_tensors_on_access;
                }) {
    if (node.has_freed_buffers != 0 || node.clear_saved_tensors_on_access) return false;
    if (!take_numbers(self, object, taken)) return false;
    for (const auto& each : node.saved_variables) taken->tensors.push_back(each.unpack(node.cdata));
    return take_unchecked(self, object, taken) && take_objects(self, object, taken);
  }
  return false;
}

// How many inputs a backward graph has.
template <class Node>
std::size_t count_inputs(const Recorded* self, const Node& node) {
  return static_cast<std::size_t>(self->symbols + self->unchecked + self->objects) +
         node.saved_variables.size() + self->given->size();
}

// The program of a backward graph if it takes that many inputs: numbers, then tensors; else null.
inline Function* program_for(const Recorded* self, PyObject* emitted, std::size_t count) {
  if (Py_TYPE(emitted) != function_type || !self->is_plain()) return nullptr;
  auto* function = reinterpret_cast<Function*>(emitted);
  const wir::ProgramInfo& info = *function->info;
  if (!function->boxed || info.num_inputs != count) return nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    const wir::Kind kind = info.inputs[i].kind;
    const bool is_number = i < static_cast<std::size_t>(self->symbols);
    const bool is_tensor = kind == wir::Kind::kTensor;
    if (is_number ? is_tensor || kind == wir::Kind::kObject : !is_tensor) return nullptr;
  }
  return function;
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

// Call the emitted function of a backward graph, and make tensor subclasses of what it returns.
inline PyObject* call_backward_graph(const Recorded* self, PyObject* emitted, PyObject* values) {
  PyObject* made;
  {
    std::optional<c10::impl::ExcludeDispatchKeyGuard> no_autocast;
    if (self->has_autocast) no_autocast.emplace(c10::autocast_dispatch_keyset);
    made = PyObject_CallOneArg(emitted, values);
  }
  if (made == nullptr || !self->has(Recorded::kWrap)) return made;
  const Object results = pybind11::reinterpret_steal<Object>(made);
  return PyObject_CallOneArg(self->part(Recorded::kWrap), made);
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
  Function* program = program_for(self, emitted.ptr(), count_inputs(self, held));
  Taken taken;
  if (program != nullptr && take_saved(self, held, node, &taken)) {
    const auto add = [&taken](at::Tensor&& tensor) {
      taken.tensors.push_back(std::move(tensor));
      return true;
    };
    if (!append_gradients(self, gradients, add) || !let_go(node, gradients)) return nullptr;
    return in_context([program, &taken]() -> PyObject* {
      Run run(program, nullptr, true);
      const bool is_done = run.take_tensors(std::move(taken.tensors), taken.numbers.ptr());
      return is_done && run.execute() ? run.results() : nullptr;
    });
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  const Object values = inputs_of(self, node, gradients);
  if (values.ptr() == nullptr || !let_go(node, gradients)) return nullptr;
  return in_context([&] { return call_backward_graph(self, emitted.ptr(), values.ptr()); });
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
  static const char* names[] = {
      "graph",        "save",        "finish",           "mark",      "dynamic", "note",
      "unusual",      "switches",    "callback",         "restrided", "layouts", "wrap",
      "returned",     "saved",       "unchecked",        "objects",   "symbols", "inputs",
      "viewed",       "fixed",       "given",            "strides",   "apart",   "hides",
      "has_autocast", "frees_saved", "is_deterministic", nullptr};
  std::array<PyObject*, Recorded::kParts> parts{};
  parts[Recorded::kReady] = parts[Recorded::kNode] = Py_None;
  parts[Recorded::kApply] = parts[Recorded::kCompiling] = Py_None;
  Py_ssize_t returned, first, unchecked, objects, symbols;
  PyObject *inputs, *viewed, *fixed, *given, *strides, *apart;
  int flags[4];
  using R = Recorded;
  if (!PyArg_ParseTupleAndKeywords(
          args, keywords, "$O!OOOO!OOO!OOO!OnnnnnO!O!O!O!O!Opppp", const_cast<char**>(names),
          &PyDict_Type, &parts[R::kGraph], &parts[R::kSave], &parts[R::kFinish], &parts[R::kMark],
          &PyTuple_Type, &parts[R::kDynamic], &parts[R::kNote], &parts[R::kUnusual],
          &PyTuple_Type, &parts[R::kSwitches], &parts[R::kCallback], &parts[R::kRestrided],
          &PyTuple_Type, &parts[R::kLayouts], &parts[R::kWrap], &returned, &first, &unchecked,
          &objects, &symbols, &PyTuple_Type, &inputs, &PyTuple_Type, &viewed, &PyTuple_Type,
          &fixed, &PyTuple_Type, &given, &PyTuple_Type, &strides, &apart, &flags[0], &flags[1],
          &flags[2], &flags[3])) {
    return nullptr;
  }
  auto inputs_ = numbers_in(inputs), viewed_ = numbers_in(viewed), fixed_ = numbers_in(fixed);
  auto given_ = numbers_in(given);
  auto layouts = layouts_in(strides);
  auto apart_ = parts_in(apart);
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
  self->unchecked = unchecked;
  self->objects = objects;
  self->symbols = symbols;
  self->inputs = inputs_.release();
  self->viewed = viewed_.release();
  self->fixed = fixed_.release();
  self->given = given_.release();
  self->layouts = layouts.release();
  self->apart = apart_.release();
  self->hides = flags[0] != 0;
  self->has_autocast = flags[1] != 0;
  self->frees_saved = flags[2] != 0;
  self->is_deterministic = flags[3] != 0;
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
  delete self->inputs;
  delete self->viewed;
  delete self->fixed;
  delete self->given;
  delete self->layouts;
  delete self->apart;
  for (PyObject* each : self->parts) Py_XDECREF(each);
  type->tp_free(object);
  Py_DECREF(type);
}

inline PyMemberDef recorded_members[] = {
    {"nodes", T_PYSSIZET, offsetof(Recorded, nodes), READONLY,
     "how many calls were recorded by nodes of our own"},
    {"passes", T_PYSSIZET, offsetof(Recorded, passes), READONLY,
     "how many backward passes such nodes ran"},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Recorded, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

inline PyObject* record_by_node(PyObject* object, PyObject* args);  // recording.h

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
