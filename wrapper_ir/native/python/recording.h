// Calls that a node of ours records: what torch's function for this does, where facts of the graph
// say what that would be.
#pragma once

#include "node.h"

#ifdef WIR_HAS_NODE
#include <unordered_set>

#include <ATen/ops/_unsafe_view.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/utils/pyobject_preservation.h>

namespace torch::jit::tracer {
struct TracingState;
// From tracer.h, which takes seconds to compile.
TORCH_API const std::shared_ptr<TracingState>& getTracingState();
}  // namespace torch::jit::tracer

namespace wir_py {

// What a recorded call returns: tensors, and in other places objects.
struct Returned {
  explicit Returned(std::size_t count) : tensors(count), others(count) {}

  std::vector<std::optional<Variable>> tensors;
  std::vector<Object> others;
  std::unordered_set<at::TensorImpl*> fixed;  // tensors that have no gradient

  // Object `i`, once.
  PyObject* object(std::size_t i) {
    return tensors[i].has_value() ? THPVariable_Wrap(std::move(*tensors[i]))
                                  : others[i].release().ptr();
  }
};

// What an emitted function of Python has returned, a tuple, as a `Run` has results.
class Listed {
 public:
  explicit Listed(Object values) : values_(std::move(values)) {}

  std::size_t count_results() const {
    return static_cast<std::size_t>(PyTuple_GET_SIZE(values_.ptr()));
  }
  bool is_tensor_result(std::size_t i) const { return is_tensor(item(i)); }
  at::Tensor tensor_result(std::size_t i) const { return THPVariable_Unpack(item(i)); }
  PyObject* result(std::size_t i) const { return Py_NewRef(item(i)); }

 private:
  PyObject* item(std::size_t i) const {
    return PyTuple_GET_ITEM(values_.ptr(), static_cast<Py_ssize_t>(i));
  }

  Object values_;
};

// A call that is being recorded.
class Recording {
 public:
  Recording(Recorded* self, PyObject* const* args, Py_ssize_t count)
      : self_(self), args_(args), count_(static_cast<std::size_t>(count)) {}

  // Whether a node of ours can record it. A Python error may be set.
  bool is_usual();

  // The results. Null: a Python error is set.
  PyObject* record();

 private:
  bool any_is_needed();
  bool make_node();
  bool hide(Returned* found);
  bool mark(const variable_list& saved);

  // Of the program's results: whether they are as many as expected, and of which kinds; those to
  // return; all, wrapped; those to save.
  template <class Results>
  bool has_right(const Results& results) const;
  template <class Results>
  bool take_results(Results& results, Returned* found);
  template <class Results>
  PyObject* wrap(Results& results);
  template <class Results>
  bool save(Results& results, const Returned& returned);
  template <class Results>
  bool keep(Results& results, PyObject* name, std::size_t first, std::size_t count);

  Recorded* self_;
  PyObject* const* args_;
  std::size_t count_;
  TakenApart taken_;
  c10::SmallVector<const Variable*, 24> variables_;
  c10::SmallVector<bool, 24> needed_;
  Object emitted_;
  Object node_;

  THPFunction& held() { return *reinterpret_cast<THPFunction*>(node_.ptr()); }
};

// Results are returned ones, tensors to save, objects, and numbers.
template <class Results>
bool Recording::has_right(const Results& results) const {
  const auto end =
      static_cast<Py_ssize_t>(results.count_results()) - self_->symbols - self_->objects;
  if (end < self_->first_saved + self_->unchecked || self_->first_saved < self_->returned)
    return false;
  for (Py_ssize_t i = self_->first_saved; i < end; ++i) {
    if (!results.is_tensor_result(static_cast<std::size_t>(i))) return false;
  }
  return true;
}

inline bool Recording::is_usual() {
  const Recorded& self = *self_;
  if (torch::autograd::AnomalyMode::is_enabled() || torch::jit::tracer::getTracingState()) {
    return false;
  }
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr) return false;
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) return false;
  if (self.has(Recorded::kNote)) return false;
  emitted_ = emitted_of(self.part(Recorded::kGraph));
  if (emitted_.ptr() == nullptr) return false;
  if (!taken_.take(*self.apart, args_, static_cast<Py_ssize_t>(count_))) return false;
  if (Py_TYPE(emitted_.ptr()) == function_type) {
    const wir::ProgramInfo& info = *reinterpret_cast<Function*>(emitted_.ptr())->info;
    if (static_cast<Py_ssize_t>(info.num_inputs) != taken_.size()) return false;
  }
  return any_is_needed();
}

// Whether an argument needs a gradient.
inline bool Recording::any_is_needed() {
  bool any = false;
  for (std::size_t i = 0; i < count_; ++i) {
    const bool is_variable = THPVariable_Check(args_[i]);
    if (is_variable) variables_.push_back(&THPVariable_Unpack(args_[i]));
    needed_.push_back(is_variable && variables_.back()->requires_grad());
    any |= needed_.back();
  }
  return any;
}

// Make a node as torch does, and give it our half. False: a Python error is set.
inline bool Recording::make_node() {
  node_ = pybind11::reinterpret_steal<Object>(PyObject_CallNoArgs(self_->part(Recorded::kNode)));
  if (node_.ptr() == nullptr) return false;
  THPFunction& object = held();
  auto made = c10::make_intrusive<RecordingNode>(std::move(object.cdata),
                                                 reinterpret_cast<PyObject*>(self_));
  torch::utils::PyObjectPreservation::init_fresh_nonatomic(*made, node_.ptr());
  object.cdata = std::move(made);
  torch::autograd::edge_list edges;
  edges.reserve(variables_.size());
  object.input_info.reserve(variables_.size());
  for (const Variable* each : variables_) {
    edges.push_back(torch::autograd::impl::gradient_edge(*each));
    object.input_info.emplace_back(*each);
  }
  object.cdata->set_next_edges(std::move(edges));
  object.is_variable_input.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    object.is_variable_input.push_back(THPVariable_Check(args_[i]));
  }
  object.needs_input_grad_bits = std::move(needed_);
  object.clear_saved_tensors_on_access = self_->clears_saved;
  object.boxed_grads_call = self_->is_boxed;
  return true;
}

inline PyObject* Recording::record() {
  if (!make_node()) return nullptr;
  ++self_->nodes;
  if (Py_TYPE(emitted_.ptr()) == function_type) {
    Run run(reinterpret_cast<Function*>(emitted_.ptr()), nullptr, false);
    return run.take_inputs(taken_.data()) && run.execute() ? wrap(run) : nullptr;
  }
  Object made = pybind11::reinterpret_steal<Object>(run_graph(
      self_->part(Recorded::kGraph), self_->has_autocast, taken_.data(), taken_.size()));
  if (made.ptr() == nullptr) return nullptr;
  if (!PyTuple_CheckExact(made.ptr())) {
    made = pybind11::reinterpret_steal<Object>(PySequence_Tuple(made.ptr()));
    if (made.ptr() == nullptr) return nullptr;
  }
  Listed results(std::move(made));
  return wrap(results);
}

// Take what the program returns, as torch's function would. False: a Python error is set.
template <class Results>
bool Recording::take_results(Results& results, Returned* found) {
  for (std::size_t i = 0; i < found->tensors.size(); ++i) {
    if (!results.is_tensor_result(i)) {
      found->others[i] = pybind11::reinterpret_steal<Object>(results.result(i));
      if (found->others[i].ptr() == nullptr) return false;
    } else if (at::Tensor tensor = results.tensor_result(i); tensor.defined()) {
      found->tensors[i] = std::move(tensor);
    } else {
      found->others[i] = pybind11::none();
    }
  }
  held().materialize_non_diff_grads = false;
  const at::NoGradGuard no_grad;
  if (self_->hides) return hide(found);
  for (const Py_ssize_t i : *self_->viewed) {
    auto& each = found->tensors.at(static_cast<std::size_t>(i));
    if (each.has_value()) each = at::_unsafe_view(*each, each->sizes());
  }
  for (const Py_ssize_t i : *self_->fixed) {
    const auto& each = found->tensors.at(static_cast<std::size_t>(i));
    if (each.has_value()) found->fixed.insert(each->unsafeGetTensorImpl());
  }
  return true;
}

// Have torch hide views from autograd. False: a Python error is set.
inline bool Recording::hide(Returned* found) {
  const std::size_t count = found->tensors.size();
  const Object given = pybind11::reinterpret_steal<Object>(
      tuple_of(count, [found](std::size_t i) { return found->object(i); }));
  if (given.ptr() == nullptr) return false;
  const Object made = pybind11::reinterpret_steal<Object>(PyObject_CallFunctionObjArgs(
      self_->part(Recorded::kFinish), node_.ptr(), given.ptr(), nullptr));
  if (made.ptr() == nullptr) return false;
  if (!PyTuple_CheckExact(made.ptr()) || PyTuple_GET_SIZE(made.ptr()) != self_->returned) {
    PyErr_SetString(PyExc_TypeError, "as many results are returned as there are");
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* each = PyTuple_GET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i));
    found->tensors[i].reset();
    if (THPVariable_Check(each)) {
      found->tensors[i] = THPVariable_Unpack(each);
    } else {
      found->others[i] = borrowed(each);
    }
  }
  if (held().non_differentiable == nullptr) return true;
  for (const auto& each : borrowed(held().non_differentiable)) {
    if (THPVariable_Check(each.ptr())) {
      found->fixed.insert(THPVariable_Unpack(each.ptr()).unsafeGetTensorImpl());
    }
  }
  Py_CLEAR(held().non_differentiable);
  return true;
}

// Returned results, as results of the node. Null: a Python error is set.
template <class Results>
PyObject* Recording::wrap(Results& results) {
  if (!has_right(results)) {
    PyErr_SetString(PyExc_TypeError, "a forward graph returns results, and what it saves");
    return nullptr;
  }
  Returned returned(static_cast<std::size_t>(self_->returned));
  if (!take_results(results, &returned)) return nullptr;
  c10::intrusive_ptr<torch::autograd::Node> attached;
  returned.tensors = torch::autograd::_wrap_outputs(
      at::ArrayRef<const Variable*>(variables_.data(), variables_.size()), returned.fixed, {},
      returned.tensors, held().cdata,
      [](const variable_list&, const variable_list&) -> variable_list { return {}; }, {},
      [](const at::Tensor& x) { return x.view_as(x); }, false, attached);
  held().output_info.reserve(returned.tensors.size());
  for (const auto& each : returned.tensors) {
    each.has_value() ? held().output_info.emplace_back(*each) : held().output_info.emplace_back();
  }
  if (!save(results, returned)) return nullptr;
  if (attached) torch::autograd::fire_node_creation_hooks(attached);
  return tuple_of(returned.tensors.size(),
                  [&returned](std::size_t i) { return returned.object(i); });
}

// Save what the backward pass needs; results are known as such. A view is detached, so that it does
// not keep what it is a view of. False: a Python error is set.
template <class Results>
bool Recording::save(Results& results, const Returned& returned) {
  const auto numbers = static_cast<std::size_t>(self_->symbols);
  const auto objects = static_cast<std::size_t>(self_->objects);
  const std::size_t end = results.count_results() - numbers - objects;
  variable_list saved;
  for (auto i = static_cast<std::size_t>(self_->first_saved); i < end; ++i) {
    saved.push_back(results.tensor_result(i));
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (!saved[i].is_view() || self_->is_input(static_cast<Py_ssize_t>(i))) continue;
    const at::NoGradGuard no_grad;
    saved[i] = saved[i].detach();
  }
  if (!mark(saved)) return false;
  const std::size_t checked = saved.size() - static_cast<std::size_t>(self_->unchecked);
  held().saved_variables.reserve(checked);
  for (std::size_t i = 0; i < checked; ++i) {
    const auto is_it = [&saved, i](const auto& other) {
      return other.has_value() && other->is_same(saved[i]);
    };
    held().saved_variables.emplace_back(
        saved[i], std::any_of(returned.tensors.begin(), returned.tensors.end(), is_it));
  }
  if (self_->unchecked != 0) {
    pybind11::list unchecked;
    for (std::size_t i = checked; i < saved.size(); ++i) {
      unchecked.append(pybind11::reinterpret_steal<Object>(THPVariable_Wrap(saved[i])));
    }
    if (PyObject_SetAttr(node_.ptr(), unchecked_name(), unchecked.ptr()) < 0) return false;
  }
  return keep(results, objects_name(), end, objects) &&
         keep(results, symbols_name(), end + objects, numbers);
}

// Keep results as an attribute of the node. False: a Python error is set.
template <class Results>
bool Recording::keep(Results& results, PyObject* name, std::size_t first, std::size_t count) {
  if (count == 0) return true;
  const Object kept = pybind11::reinterpret_steal<Object>(tuple_of(
      count, [&results, first](std::size_t i) { return results.result(first + i); }));
  return kept.ptr() != nullptr && PyObject_SetAttr(node_.ptr(), name, kept.ptr()) == 0;
}

// Mark the dimensions of saved tensors that vary. False: a Python error is set.
inline bool Recording::mark(const variable_list& saved) {
  for (const auto& pair : borrowed(self_->part(Recorded::kDynamic))) {
    const auto position = PyLong_AsSize_t(PyTuple_GET_ITEM(pair.ptr(), 0));
    if (PyErr_Occurred() != nullptr) return false;
    const Object tensor = pybind11::reinterpret_steal<Object>(THPVariable_Wrap(saved.at(position)));
    if (tensor.ptr() == nullptr) return false;
    const Object done = pybind11::reinterpret_steal<Object>(PyObject_CallFunctionObjArgs(
        self_->part(Recorded::kMark), tensor.ptr(), PyTuple_GET_ITEM(pair.ptr(), 1), nullptr));
    if (done.ptr() == nullptr) return false;
  }
  return true;
}

// Python's side.

inline PyObject* apply_by_node(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  auto* self = reinterpret_cast<Recorded*>(object);
  const Object alive = borrowed(object);
  try {
    Recording recording(self, args, count);
    if (recording.is_usual()) return recording.record();
    if (PyErr_Occurred() != nullptr) return nullptr;
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
  return PyObject_Vectorcall(self->part(Recorded::kApply), args, static_cast<std::size_t>(count),
                             nullptr);
}

inline PyMethodDef apply_method = {
    "apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply_by_node)),
    METH_FASTCALL, "apply(*args) -> results"};

inline PyObject* record_by_node(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<Recorded*>(object);
  PyObject *node, *apply, *compiling;
  int clears_saved, is_boxed;
  if (!PyArg_ParseTuple(args, "OOOpp", &node, &apply, &compiling, &clears_saved, &is_boxed)) {
    return nullptr;
  }
  Py_SETREF(self->parts[Recorded::kNode], Py_NewRef(node));
  Py_SETREF(self->parts[Recorded::kApply], Py_NewRef(apply));
  Py_SETREF(self->parts[Recorded::kCompiling], Py_NewRef(compiling));
  self->clears_saved = clears_saved != 0;
  self->is_boxed = is_boxed != 0;
  return PyCFunction_New(&apply_method, object);
}

}  // namespace wir_py

#else

namespace wir_py {

inline PyObject* record_by_node(PyObject*, PyObject* args) {
  return Py_NewRef(PyTuple_GET_ITEM(args, 1));
}

}  // namespace wir_py

#endif
