// A node of autograd that runs a backward program, in the place of torch's for functions of Python.
//
// A node is made by torch's class for it, so that Python sees what it always sees: the names, what
// is saved, hooks. Of the two halves of such a node, Python's object and C++'s node, the second is
// replaced by ours: its backward pass hands tensors to the program and takes tensors from it. If
// the program is in C++, none of them becomes an object of Python. A pass that is not usual goes to
// torch's half, which ours keeps.
#pragma once

#include <torch/version.h>

#include "recorded.h"

// Torch's half and the fields of Python's object are private to it, and differ between releases. On
// others than these torch makes its own nodes, and `explain_call` says so.
#if TORCH_VERSION_MAJOR == 2 && (TORCH_VERSION_MINOR == 14 || TORCH_VERSION_MINOR == 15)
#define WIR_HAS_NODE 1

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
  Recorded* recorded() const { return reinterpret_cast<Recorded*>(recorded_.ptr()); }
  THPFunction& held() { return *reinterpret_cast<THPFunction*>(pyobj_slot()->load_pyobj()); }

  bool has_usual(const variable_list& gradients);
  bool take(variable_list& gradients, Taken* taken);
  bool run(Function* program, Taken taken, variable_list* results);
  bool call(PyObject* emitted, Taken taken, variable_list* results);

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

// Whether gradients are plain tensors, or zeros that nobody made. A parameter is none: torch
// refuses it.
inline bool RecordingNode::has_usual(const variable_list& gradients) {
  const THPFunction& object = held();
  for (const Py_ssize_t i : *recorded()->given) {
    const auto position = static_cast<std::size_t>(i);
    if (position >= gradients.size() || position >= object.output_info.size()) return false;
    const at::Tensor& each = gradients[position];
    if (!each.defined()) {
      const bool is_wanted = !input_metadata(position).was_default_constructed();
      if (!is_wanted || !object.materialize_grads) return false;
      continue;
    }
    if (each.key_set().has(c10::DispatchKey::Python)) return false;
    const PyObject* python = each.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
    if (python == nullptr) continue;
    if (reinterpret_cast<PyObject*>(Py_TYPE(python)) != THPVariableClass) return false;
  }
  return true;
}

// Take what is saved, and gradients as the program wants them; let go of both. False: Python has to
// be asked, and nothing is taken.
inline bool RecordingNode::take(variable_list& gradients, Taken* taken) {
  THPFunction& object = held();
  if (!take_saved(recorded(), object, pyobj_slot()->load_pyobj(), taken)) {
    if (PyErr_Occurred() != nullptr) throw_error();
    return false;
  }
  at::OptionalDeviceGuard device;
  for (std::size_t i = 0; i < recorded()->given->size(); ++i) {
    const auto position = static_cast<std::size_t>((*recorded()->given)[i]);
    at::Tensor& each = gradients[position];
    if (!each.defined()) each = object.output_info[position].zeros(device);
    taken->tensors.push_back(restrided(recorded(), each, i));
    if (!taken->tensors.back().defined()) throw_error();
  }
  gradients.clear();
  if (torch::autograd::get_current_graph_task_keep_graph() || released_.exchange(true)) return true;
  object.saved_variables.clear();
  object.has_freed_buffers = 1;
  return true;
}

// False: a Python error is set.
inline bool RecordingNode::run(Function* program, Taken taken, variable_list* results) {
  InContext context;
  if (!context.enter()) return false;
  Run run(program, nullptr, true);
  const bool is_done =
      run.take_tensors(std::move(taken.tensors), taken.numbers.ptr()) && run.execute();
  if (!context.exit() || !is_done) return false;
  const std::vector<bool>& is_variable = held().is_variable_input;
  results->reserve(is_variable.size());
  for (std::size_t i = 0; i < is_variable.size(); ++i) {
    if (is_variable[i]) results->push_back(run.tensor_result(i));
  }
  return true;
}

// The same with an emitted function of Python, and where objects of Python go in or come out.
inline bool RecordingNode::call(PyObject* emitted, Taken taken, variable_list* results) {
  const std::size_t count = taken.tensors.size();
  const Object values =
      pybind11::reinterpret_steal<Object>(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; values.ptr() != nullptr && i < count; ++i) {
    const auto position = static_cast<Py_ssize_t>(i);
    PyObject* value = taken.object(recorded(), position);
    value = value != nullptr ? Py_NewRef(value) : THPVariable_Wrap(taken.tensors[i]);
    if (value == nullptr) return false;
    taken.tensors[i].reset();  // the list alone holds it
    PyList_SET_ITEM(values.ptr(), position, value);
  }
  if (values.ptr() == nullptr) return false;
  const Object made = pybind11::reinterpret_steal<Object>(in_context(
      [&] { return call_backward_graph(recorded(), emitted, values.ptr()); }));
  if (made.ptr() == nullptr) return false;
  const std::vector<bool>& is_variable = held().is_variable_input;
  if (static_cast<std::size_t>(PyTuple_GET_SIZE(made.ptr())) < is_variable.size()) {
    PyErr_SetString(PyExc_TypeError, "a backward graph returns a gradient for each argument");
    return false;
  }
  for (std::size_t i = 0; i < is_variable.size(); ++i) {
    if (!is_variable[i]) continue;
    PyObject* each = PyTuple_GET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i));
    results->push_back(is_tensor(each) ? THPVariable_Unpack(each) : at::Tensor());
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
    const std::size_t count = count_inputs(recorded(), held());
    Function* program = program_for(recorded(), emitted.ptr(), held(), count);
    const bool is_python = Py_TYPE(emitted.ptr()) != function_type || !recorded()->is_plain();
    Taken taken;
    taken.tensors.reserve(count);
    if ((is_python || program != nullptr) && take(gradients, &taken)) {
      variable_list results;
      const bool is_done = is_python ? call(emitted.ptr(), std::move(taken), &results)
                                     : run(program, std::move(taken), &results);
      if (!is_done) throw_error();
      ++recorded()->passes;
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

}  // namespace wir_py

#endif
