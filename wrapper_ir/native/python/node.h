// Recorded calls by one node of autograd: torch's function for this, and its node, where facts of the
// graph say what they would do.
//
// A node is made by torch's class for it, so that Python sees what it always sees: the names, what is
// saved, hooks. Of the two halves of such a node, Python's object and C++'s node, the second is
// replaced by ours: its backward pass hands tensors to the program and takes tensors from it, none of
// which becomes an object of Python. A pass that is not usual goes to torch's half, which ours keeps.
#pragma once

#include <torch/version.h>

#include "recorded.h"

// Torch's half and the fields of Python's object are private to it, and differ between releases.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 15
#include <ATen/record_function.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/utils/pyobject_preservation.h>

namespace torch::jit::tracer {
struct TracingState;
// From tracer.h, which takes seconds to compile.
TORCH_API const std::shared_ptr<TracingState>& getTracingState();
}  // namespace torch::jit::tracer

namespace wir_py {

using torch::autograd::Variable;
using torch::autograd::variable_list;

class RecordingNode final : public torch::autograd::Node {
 public:
  RecordingNode(c10::intrusive_ptr<Node> theirs, PyObject* recorded)
      : Node(theirs->sequence_nr()), theirs_(std::move(theirs)), recorded_(borrowed(recorded)) {}
  // Python's object dies first, which torch's half does not know of: it tells its own node alone.
  ~RecordingNode() override { theirs_->pyobj_slot()->store_pyobj(nullptr); }

  variable_list apply(variable_list&& gradients) override;
  void release_variables() override {
    if (pyobj_slot()->load_pyobj() == nullptr || released_.exchange(true)) return;
    theirs_->release_variables();
  }
  std::string name() const override { return theirs_->name(); }
  bool is_traceable() override { return theirs_->is_traceable(); }
  bool is_aot_backward() const override { return theirs_->is_aot_backward(); }
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override;
  variable_list apply_with_saved(const variable_list& inputs,
                                 torch::dynamo::autograd::SwapSavedVariables& saved) override {
    share_metadata();
    return theirs_->apply_with_saved(inputs, saved);
  }

 private:
  const Recorded* recorded() const { return reinterpret_cast<const Recorded*>(recorded_.ptr()); }
  THPFunction& held() { return *reinterpret_cast<THPFunction*>(pyobj_slot()->load_pyobj()); }

  bool has_usual(const variable_list& gradients) const;
  bool take(variable_list& gradients, std::vector<at::Tensor>* tensors);
  bool run(Function* program, std::vector<at::Tensor> tensors, variable_list* results);

  // Torch's half reads what is known of gradients for those that are missing.
  void share_metadata() {
    for (std::size_t i = theirs_->num_inputs(); i < num_inputs(); ++i) {
      theirs_->add_input_metadata(undefined_input{});
      torch::autograd::InputMetadata& place = theirs_->mutable_input_metadata(i);
      std::destroy_at(&place);  // it has fields that cannot be assigned
      std::construct_at(&place, input_metadata(i));
    }
  }

  c10::intrusive_ptr<Node> theirs_;
  Object recorded_;
  std::atomic<bool> released_ = false;
};

// Throw the current Python error, which another thread may show.
[[noreturn]] inline void throw_error() {
  python_error error;
  error.persist();
  throw error;
}

// The backward program if it takes `count` tensors and gives what autograd wants of a node; else null.
inline Function* program_for(const Recorded* self, PyObject* emitted, const THPFunction& held,
                             std::size_t count) {
  Function* program = program_for(self, emitted, count);
  if (program == nullptr || program->info->num_outputs != held.is_variable_input.size()) return nullptr;
  for (std::size_t i = 0; i < held.is_variable_input.size(); ++i) {
    const wir::Kind kind = program->info->outputs[i].kind;
    const bool is_right = kind == wir::Kind::kTensor ? held.is_variable_input[i]
                                                     : kind == wir::Kind::kNone;
    if (!is_right) return nullptr;
  }
  return program;
}

// Whether gradients are plain tensors. A parameter is none: torch refuses it.
inline bool RecordingNode::has_usual(const variable_list& gradients) const {
  for (const Py_ssize_t i : *recorded()->given) {
    const auto position = static_cast<std::size_t>(i);
    if (position >= gradients.size()) return false;
    const at::Tensor& each = gradients[position];
    if (!each.defined() || each.key_set().has(c10::DispatchKey::Python)) return false;
    const PyObject* object = each.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    if (object == nullptr) continue;
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != THPVariableClass) return false;
  }
  return true;
}

// Take what is saved, and gradients as the program wants them; let go of both. False: Python has to
// be asked, and nothing is taken.
inline bool RecordingNode::take(variable_list& gradients, std::vector<at::Tensor>* tensors) {
  THPFunction& object = held();
  if (!append_saved(object, tensors)) return false;
  for (std::size_t i = 0; i < recorded()->given->size(); ++i) {
    const auto position = static_cast<std::size_t>((*recorded()->given)[i]);
    tensors->push_back(restrided(recorded(), gradients[position], i));
    if (!tensors->back().defined()) throw_error();
  }
  gradients.clear();
  if (torch::autograd::get_current_graph_task_keep_graph() || released_.exchange(true)) return true;
  object.saved_variables.clear();
  object.has_freed_buffers = 1;
  return true;
}

// False: a Python error is set.
inline bool RecordingNode::run(Function* program, std::vector<at::Tensor> tensors,
                               variable_list* results) {
  InContext context;
  if (!context.enter()) return false;
  Run run(program, nullptr, true);
  const bool is_done = run.take_tensors(std::move(tensors)) && run.execute();
  if (!context.exit() || !is_done) return false;
  const std::vector<bool>& is_variable = held().is_variable_input;
  results->reserve(is_variable.size());
  for (std::size_t i = 0; i < is_variable.size(); ++i) {
    if (is_variable[i]) results->push_back(run.tensor_result(i));
  }
  return true;
}

inline variable_list RecordingNode::apply(variable_list&& gradients) {
  const pybind11::gil_scoped_acquire_simple acquired;
  const int is_usual = has_usual(gradients) ? has_usual_modes(recorded()) : 0;
  if (is_usual < 0) throw_error();
  if (is_usual > 0) {
    const Object emitted = emitted_of(recorded()->part(Recorded::kReady));
    if (emitted.ptr() == nullptr) throw_error();
    const std::size_t count = held().saved_variables.size() + recorded()->given->size();
    Function* program = program_for(recorded(), emitted.ptr(), held(), count);
    std::vector<at::Tensor> tensors;
    tensors.reserve(count);
    if (program != nullptr && take(gradients, &tensors)) {
      variable_list results;
      if (!run(program, std::move(tensors), &results)) throw_error();
      return results;
    }
  }
  share_metadata();
  return static_cast<torch::autograd::PyNode*>(theirs_.get())->apply(std::move(gradients));
}

inline void RecordingNode::compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const {
  {
    const pybind11::gil_scoped_acquire_simple acquired;
    const Object done = pybind11::reinterpret_steal<Object>(PyObject_CallOneArg(
        recorded()->part(Recorded::kCompiling), pyobj_slot()->load_pyobj()));
    if (done.ptr() == nullptr) throw_error();
  }
  theirs_->compiled_args(args);
}

// A call that is being recorded.
class Recording {
 public:
  Recording(Recorded* self, PyObject* const* args, Py_ssize_t count)
      : self_(self), args_(args), count_(static_cast<std::size_t>(count)) {}

  // The program that makes results of the arguments, if a node of ours can record it; else null. A
  // Python error may be set.
  Function* program();

  // The results. Null: a Python error is set.
  PyObject* record(Function* program);

 private:
  bool make_node();
  PyObject* wrap(Run& run);
  void save(Run& run, const std::vector<std::optional<Variable>>& results);

  Recorded* self_;
  PyObject* const* args_;
  std::size_t count_;
  c10::SmallVector<const Variable*, 24> variables_;
  c10::SmallVector<bool, 24> needed_;
  Object node_;

  THPFunction& held() { return *reinterpret_cast<THPFunction*>(node_.ptr()); }
};

inline Function* Recording::program() {
  const Recorded& self = *self_;
  if (self.has(Recorded::kSave) || self.has(Recorded::kFinish)) return nullptr;
  if (torch::autograd::AnomalyMode::is_enabled() || torch::jit::tracer::getTracingState()) {
    return nullptr;
  }
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr) return nullptr;
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) return nullptr;
  if (PyObject_IsTrue(self.part(Recorded::kExternal)) != 0) return nullptr;
  const Object emitted = emitted_of(self.part(Recorded::kGraph));
  if (emitted.ptr() == nullptr || Py_TYPE(emitted.ptr()) != function_type) return nullptr;
  auto* function = reinterpret_cast<Function*>(emitted.ptr());
  if (function->info->num_inputs != count_) return nullptr;
  bool any_is_needed = false;
  for (std::size_t i = 0; i < count_; ++i) {
    const bool is_variable = THPVariable_Check(args_[i]);
    if (is_variable) variables_.push_back(&THPVariable_Unpack(args_[i]));
    needed_.push_back(is_variable && variables_.back()->requires_grad());
    any_is_needed |= needed_.back();
  }
  return any_is_needed ? function : nullptr;
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

inline PyObject* Recording::record(Function* program) {
  const Object alive = borrowed(reinterpret_cast<PyObject*>(program));
  if (!make_node()) return nullptr;
  Run run(program, nullptr, false);
  return run.take_inputs(args_) && run.execute() ? wrap(run) : nullptr;
}

// Returned results, as results of the node.
inline PyObject* Recording::wrap(Run& run) {
  const auto count = static_cast<std::size_t>(self_->returned);
  std::vector<Object> others(count);
  std::vector<std::optional<Variable>> raw(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (run.is_tensor_result(i)) {
      raw[i] = run.tensor_result(i);
      if (raw[i]->defined()) continue;
      raw[i].reset();
      others[i] = pybind11::none();
    } else {
      others[i] = pybind11::reinterpret_steal<Object>(run.result(i));
      if (others[i].ptr() == nullptr) return nullptr;
    }
  }
  c10::intrusive_ptr<torch::autograd::Node> attached;
  std::vector<std::optional<Variable>> results = torch::autograd::_wrap_outputs(
      at::ArrayRef<const Variable*>(variables_.data(), variables_.size()), {}, {}, raw,
      held().cdata,
      [](const variable_list&, const variable_list&) -> variable_list { return {}; }, {},
      [](const at::Tensor& x) { return x.view_as(x); }, false, attached);
  held().output_info.reserve(count);
  for (const auto& each : results) {
    each.has_value() ? held().output_info.emplace_back(*each) : held().output_info.emplace_back();
  }
  save(run, results);
  if (attached) torch::autograd::fire_node_creation_hooks(attached);
  return tuple_of(count, [&](std::size_t i) {
    return results[i].has_value() ? THPVariable_Wrap(std::move(*results[i]))
                                  : others[i].release().ptr();
  });
}

// Save what the backward pass needs; results are known as such. A view is detached, so that it does
// not keep what it is a view of.
inline void Recording::save(Run& run, const std::vector<std::optional<Variable>>& results) {
  const auto first = static_cast<std::size_t>(self_->first_saved);
  const auto end = std::min(static_cast<std::size_t>(self_->end_saved), run.count_results());
  variable_list saved;
  for (std::size_t i = first; i < end; ++i) saved.push_back(run.tensor_result(i));
  for (const Py_ssize_t i : *self_->made) {
    const at::NoGradGuard no_grad;
    at::Tensor& each = saved.at(static_cast<std::size_t>(i));
    if (each.is_view()) each = each.detach();
  }
  held().saved_variables.reserve(saved.size());
  for (const at::Tensor& each : saved) {
    const bool is_result = std::any_of(results.begin(), results.end(), [&each](const auto& other) {
      return other.has_value() && other->is_same(each);
    });
    held().saved_variables.emplace_back(each, is_result);
  }
}

// Python's side.

inline PyObject* apply_by_node(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  auto* self = reinterpret_cast<Recorded*>(object);
  const Object alive = borrowed(object);
  try {
    Recording recording(self, args, count);
    if (Function* program = recording.program()) return recording.record(program);
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
