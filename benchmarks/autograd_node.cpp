// What autograd alone costs: one node that computes nothing, written in C++.
//
// apply(inputs, results, gradients): the results, as if a function had made them of the inputs. It
// saves the inputs, and its backward pass gives the gradients, one for each.
#define PY_SSIZE_T_CLEAN
#include <torch/csrc/python_headers.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace {

using torch::autograd::variable_list;

struct Held : torch::autograd::Node {
  std::vector<torch::autograd::SavedVariable> saved;
  variable_list gradients;

  variable_list apply(variable_list&&) override {
    for (const auto& each : saved) each.unpack();
    return gradients;
  }
  void release_variables() override { saved.clear(); }
};

variable_list tensors(PyObject* tuple) {
  variable_list found;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    found.push_back(THPVariable_Unpack(PyTuple_GET_ITEM(tuple, i)));
  }
  return found;
}

PyObject* apply(PyObject*, PyObject* const* args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  const variable_list inputs = tensors(args[0]);
  auto node = c10::make_intrusive<Held>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  node->gradients = tensors(args[2]);
  for (const auto& each : inputs) node->saved.emplace_back(each, false);
  PyObject* made = PyTuple_New(PyTuple_GET_SIZE(args[1]));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[1]); ++i) {
    at::Tensor result = THPVariable_Unpack(PyTuple_GET_ITEM(args[1], i)).detach();
    torch::autograd::set_history(result, node);
    PyTuple_SET_ITEM(made, i, THPVariable_Wrap(std::move(result)));
  }
  return made;
  END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(apply)), METH_FASTCALL,
     "apply(inputs, results, gradients) -> results"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "autograd_node", nullptr, -1, methods,
                      nullptr,               nullptr,         nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_autograd_node() { return PyModule_Create(&module); }
