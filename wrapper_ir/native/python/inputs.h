// Conversion of Python objects to a program's inputs, and of its outputs back. Nothing is copied.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <c10/core/DispatchKeySet.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

#include <wir/dtype.h>
#include <wir/program.h>

namespace torch {
TORCH_API c10::ClassTypePtr getCustomClass(const std::string& name);
namespace jit {
// From pybind_utils.h, which takes seconds to compile.
c10::IValue toIValue(pybind11::handle value, const c10::TypePtr& type, std::optional<int32_t> count);
}  // namespace jit
}  // namespace torch

namespace wir_py {

// True for the dispatch keys of a tensor whose elements are plain memory of some device, or that
// has none. A tensor with any other key (sparse, quantised, a subclass with its own computation, a
// functorch wrapper) cannot be an input.
inline bool is_plain(c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  static const c10::DispatchKeySet plain =
      c10::DispatchKeySet(c10::DispatchKeySet::RAW, c10::full_backend_mask) |
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet{DispatchKey::Dense, DispatchKey::AutogradFunctionality,
                          DispatchKey::Conjugate, DispatchKey::Negative,
                          DispatchKey::ADInplaceOrView};
  return (keys.raw_repr() & ~plain.raw_repr()) == 0 && keys.has(DispatchKey::Dense);
}

// `number` is that of the device that the tensor has to be on; -1: any.
inline bool is_on(const wir::TensorSpec& spec, std::int32_t number, c10::Device device) {
  if (spec.device_type == wir::device::any) return true;
  return static_cast<std::int32_t>(device.type()) == spec.device_type &&
         (number == -1 || device.is_cpu() || device.index() == number);
}

inline bool same_layout(const wir::TensorSpec& spec, const c10::TensorImpl& impl) {
  const auto sizes = impl.sizes();
  if (sizes.size() != static_cast<std::size_t>(spec.rank)) return false;
  const auto strides = impl.strides();
  bool same_strides = true;
  for (std::int32_t d = 0; d < spec.rank; ++d) {
    if (spec.size[d] != sizes[d] && spec.size[d] != wir::kDynamic) return false;
    // The stride of a dimension of size 1 is never used.
    same_strides &= spec.stride[d] == strides[d] || sizes[d] == 1 || spec.stride[d] == wir::kDynamic;
  }
  return same_strides || impl.numel() == 0;
}

// True if a tensor may be conjugated or negated lazily, or is not.
inline bool is_in_form(const wir::TensorSpec& spec, c10::DispatchKeySet keys) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet lazy{DispatchKey::Conjugate, DispatchKey::Negative};
  return !keys.has_any(lazy) || (!spec.plain && wir::dtype::is_complex(spec.dtype));
}

// True if a tensor matches its specification. It may wrongly return false, but never wrongly true:
// the reporter checks again before it reports an error.
inline bool matches(const wir::TensorSpec& spec, std::int32_t number, const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return is_plain(impl.key_set()) && is_in_form(spec, impl.key_set()) &&
         static_cast<std::int32_t>(c10::typeMetaToScalarType(impl.dtype())) == spec.dtype &&
         is_on(spec, number, impl.device()) && same_layout(spec, impl);
}

// The same for an input or a result of a program.
inline bool matches(const wir::ProgramInfo& info, const wir::TensorSpec& spec,
                    const at::Tensor& tensor) {
  return matches(spec, info.number(spec), tensor);
}

inline bool is_tensor(PyObject* value) {
  PyTypeObject* type = Py_TYPE(value);
  return THPVariable_CheckTypeExact(type) ||
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass)) != 0;
}

// Fill a slot with a number. False: the value is of another kind, or does not fit.
inline bool number_in(wir::Kind kind, PyObject* value, wir::Slot* slot) {
  switch (kind) {
    case wir::Kind::kBool:
      slot->integer = value == Py_True;
      return PyBool_Check(value) != 0;
    case wir::Kind::kInteger:
      if (!PyLong_CheckExact(value)) return false;
      slot->integer = PyLong_AsLongLong(value);
      break;
    case wir::Kind::kReal:
      if (!PyFloat_CheckExact(value) && !PyLong_CheckExact(value)) return false;
      slot->real = PyFloat_AsDouble(value);
      break;
    default:
      return false;
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return true;
}

// Convert a Python object to an object of a custom class. False: it is not one of that class.
inline bool object_in(const char* class_name, PyObject* value, c10::IValue* found) {
  if (std::string_view(class_name) == "torch::Generator") {
    if (!THPGenerator_Check(value)) return false;
    *found = reinterpret_cast<THPGenerator*>(value)->cdata;
    return true;
  }
  std::string name = std::string("__torch__.torch.classes.") + class_name;
  const std::size_t at = name.find("::");
  if (at != std::string::npos) name.replace(at, 2, ".");
  try {
    const c10::TypePtr wanted = torch::getCustomClass(name);
    if (wanted == nullptr) return false;
    *found = torch::jit::toIValue(value, wanted, std::nullopt);
    return found->isObject() && *found->type() == *wanted;
  } catch (const std::exception&) {
    PyErr_Clear();
    return false;  // the reporter checks again
  }
}

inline const void* storage_of(const c10::TensorImpl& impl) {
  return impl.unsafe_storage().unsafeGetStorageImpl();
}

inline const void* storage_of(const at::Tensor& tensor) {
  return storage_of(*tensor.unsafeGetTensorImpl());
}

inline AtenTensorHandle handle_of(const at::Tensor* tensor) {
  return reinterpret_cast<AtenTensorHandle>(const_cast<at::Tensor*>(tensor));
}

inline at::Tensor* tensor_of(AtenTensorHandle handle) {
  return reinterpret_cast<at::Tensor*>(handle);
}

// The tensor of an output of the program, or an undefined one. Takes ownership of the handle.
inline at::Tensor tensor_out(wir::Slot* slot) {
  if (slot->tensor == nullptr) return {};
  at::Tensor* owned = tensor_of(std::exchange(slot->tensor, nullptr));
  at::Tensor tensor = std::move(*owned);
  delete owned;
  return tensor;
}

// A new reference to an output of the program. Takes ownership of the handle.
inline PyObject* value_out(wir::Kind kind, wir::Slot* slot) {
  switch (kind) {
    case wir::Kind::kTensor:
      return THPVariable_Wrap(tensor_out(slot));  // None for an undefined one
    case wir::Kind::kInteger:
      return PyLong_FromLongLong(slot->integer);
    case wir::Kind::kReal:
      return PyFloat_FromDouble(slot->real);
    case wir::Kind::kBool:
      return PyBool_FromLong(slot->integer != 0);
    case wir::Kind::kObject:
    case wir::Kind::kNone:
      break;
  }
  Py_RETURN_NONE;
}

}  // namespace wir_py
