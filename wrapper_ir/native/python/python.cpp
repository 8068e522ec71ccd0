// Programs as Python functions: an extension module, compiled once per version of PyTorch.
//
// It opens a library, finds its program under the symbol `wir_program_info` (or another name, if
// the library holds several programs) and makes functions of it. A call adds little to the cost of
// the program: tensors go in and out without a copy, the fixed properties of inputs are compared
// with the library's tables, and the GIL is released while the program runs. Every message to the
// user is worded in Python, by the "reporter" that each function is given.
#define PY_SSIZE_T_CLEAN
#include "alone.h"
#include "call.h"
#include "recording.h"
#include "recorded.h"
#include "straight.h"
#include "table.h"

#include <dlfcn.h>

namespace wir_py {
namespace {

// The program of an open library. Libraries are never closed: results of calls, and threads, may
// outlive every function.
const wir::ProgramInfo* info_of(PyObject* capsule) {
  return static_cast<const wir::ProgramInfo*>(PyCapsule_GetPointer(capsule, "wir.ProgramInfo"));
}

PyObject* open_library(PyObject*, PyObject* args) {
  PyObject* bytes = nullptr;
  const char* name = "wir_program_info";
  if (!PyArg_ParseTuple(args, "O&|s", PyUnicode_FSConverter, &bytes, &name)) return nullptr;
  dlerror();
  void* library = dlopen(PyBytes_AS_STRING(bytes), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, name);
  Py_DECREF(bytes);
  if (symbol == nullptr) {
    const char* reason = dlerror();
    PyErr_SetString(PyExc_ImportError, reason == nullptr ? "cannot be opened" : reason);
    return nullptr;
  }
  const auto* info = static_cast<const wir::ProgramInfo*>(symbol);
  if (info->contract != wir::kContract) {
    PyErr_Format(PyExc_ImportError, "it was made for contract %u, not %u",
                 static_cast<unsigned>(info->contract), static_cast<unsigned>(wir::kContract));
    return nullptr;
  }
  return PyCapsule_New(symbol, "wir.ProgramInfo", nullptr);
}

// The device that a library is bound to from now on; empty if its program names the number.
PyObject* bound_device(PyObject*, PyObject* capsule) {
  const wir::ProgramInfo* info = info_of(capsule);
  if (info == nullptr) return nullptr;
  if (info->here == nullptr) return PyUnicode_FromString("");
  return PyUnicode_FromFormat("%s:%d", info->device, static_cast<int>(info->number()));
}

PyObject* numbers(const std::int64_t* values, std::int32_t count) {
  PyObject* made = PyTuple_New(count);
  for (std::int32_t i = 0; made != nullptr && i < count; ++i) {
    PyObject* value =
        values[i] == wir::kDynamic ? Py_NewRef(Py_None) : PyLong_FromLongLong(values[i]);
    PyTuple_SET_ITEM(made, i, value);
  }
  return made;
}

// (name, kind, dtype number, device type number, device index, size, stride, class, plain)
PyObject* described(const wir::ProgramInfo& info, const char* name, wir::Kind kind,
                    const wir::TensorSpec& spec, const char* class_name = nullptr) {
  if (kind != wir::Kind::kTensor) {
    return Py_BuildValue("siiii()()sO", name, static_cast<int>(kind), 0, 0, -1,
                         class_name == nullptr ? "" : class_name, Py_False);
  }
  return Py_BuildValue("siiiiNNsO", name, static_cast<int>(kind), spec.dtype, spec.device_type,
                       info.number(spec), numbers(spec.size, spec.rank),
                       numbers(spec.stride, spec.rank), "", spec.plain ? Py_True : Py_False);
}

// (label, is after its call, level, source, ((name, kind), ...))
PyObject* described(const wir::ProbeInfo& probe) {
  PyObject* operands = tuple_of(probe.num_operands, [&](std::size_t i) {
    const wir::ProbeOperand& operand = probe.operands[i];
    return Py_BuildValue("si", operand.name, static_cast<int>(operand.kind));
  });
  return Py_BuildValue("sOisN", probe.label, probe.after ? Py_True : Py_False,
                       static_cast<int>(probe.level), probe.source, operands);
}

PyObject* describe(PyObject*, PyObject* capsule) {
  const wir::ProgramInfo* info = info_of(capsule);
  if (info == nullptr) return nullptr;
  PyObject* inputs = tuple_of(info->num_inputs, [&](std::size_t i) {
    const wir::InputSpec& input = info->inputs[i];
    return described(*info, input.name, input.kind, input.tensor, input.class_name);
  });
  PyObject* constants = tuple_of(info->num_constants, [&](std::size_t i) {
    const wir::ConstantSpec& constant = info->constants[i];
    return described(*info, constant.name, wir::Kind::kTensor, constant.tensor);
  });
  PyObject* outputs = tuple_of(info->num_outputs, [&](std::size_t i) {
    const wir::OutputSpec& output = info->outputs[i];
    return described(*info, output.name, output.kind, output.tensor);
  });
  PyObject* probes =
      tuple_of(info->num_probes, [&](std::size_t i) { return described(info->probes[i]); });
  return Py_BuildValue("sNNNN", info->name, inputs, outputs, constants, probes);
}

PyMethodDef methods[] = {
    {"open", open_library, METH_VARARGS, "open(path, name='wir_program_info') -> library"},
    {"are_alone", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(are_alone)),
     METH_FASTCALL, "are_alone(positions, count, args) -> bool"},
    {"clocked", wir_py::clocked, METH_VARARGS,
     "clocked(callable, inputs) -> (results, nanoseconds)\n\nCall with a list, which is emptied, and "
     "measure how long checks of inputs take."},
    {"bound_device", bound_device, METH_O, "bound_device(library) -> str"},
    {"describe", describe, METH_O, "describe(library) -> (name, inputs, outputs, constants, probes)"},
    {"bind", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(bind)),
     METH_VARARGS | METH_KEYWORDS,
     "bind(library, constants, reporter, *, boxed, keep, name, doc, probes, output) -> callable"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "wir_python", nullptr, -1, methods,
                      nullptr,               nullptr,      nullptr, nullptr};

}  // namespace
}  // namespace wir_py

PyMODINIT_FUNC PyInit_wir_python() {
  PyObject* made = PyModule_Create(&wir_py::module);
  if (made == nullptr || !wir_py::add_type(made) || !wir_py::add_table_types(made) ||
      !wir_py::add_straight_type(made) || !wir_py::add_recorded_type(made)) {
    Py_XDECREF(made);
    return nullptr;
  }
  return made;
}
