#include "inputs.h"

#include <ATen/core/TensorBase.h>  // the C shim does not tell whether a tensor is lazy

#include <wir/control.h>
#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/layout.h>

namespace wir::runtime {
namespace {

// Compares exactly, with five calls into PyTorch and no allocation. It may wrongly return false for
// a tensor that matches, but never true for one that does not. `number` is the device's; -1: any.
inline bool is_exactly(const TensorSpec& spec, std::int32_t number, AtenTensorHandle tensor) {
  std::int32_t dtype;
  std::int32_t device;
  std::int64_t rank;
  std::int64_t* size;
  std::int64_t* stride;
  // The dtype of an undefined tensor is in no specification, so nothing else is queried.
  if (aoti_torch_get_dtype(tensor, &dtype) != 0 || dtype != spec.dtype) return false;
  if (aoti_torch_get_device_type(tensor, &device) != 0 || device != spec.device_type) return false;
  if (aoti_torch_get_dim(tensor, &rank) != 0 || rank != spec.rank) return false;
  if (aoti_torch_get_sizes(tensor, &size) != 0) return false;
  if (aoti_torch_get_strides(tensor, &stride) != 0) return false;  // it is not strided
  bool same = true;
  for (std::int32_t i = 0; i < spec.rank; ++i) {
    same &= (spec.size[i] == size[i]) | (spec.size[i] == kDynamic);
    same &= (spec.stride[i] == stride[i]) | (spec.stride[i] == kDynamic);
  }
  if (same && number >= 0 && device != device::cpu) {
    std::int32_t index;
    same = aoti_torch_get_device_index(tensor, &index) == 0 && index == number;
  }
  return same;
}

const at::TensorBase& tensor_of(AtenTensorHandle handle) {
  return *reinterpret_cast<const at::TensorBase*>(handle);
}

// True if a defined tensor may be conjugated or negated lazily, or is not.
inline bool is_in_form(const TensorSpec& spec, AtenTensorHandle handle) {
  const at::TensorBase& tensor = tensor_of(handle);
  if (!tensor.is_neg() && !tensor.is_conj()) return true;
  return !spec.plain && dtype::is_complex(spec.dtype);
}

[[noreturn]] void refuse(const InputSpec& input, const std::string& difference,
                         const std::string& expected, const std::string& got,
                         const std::string& hint) {
  throw Error("WIR2151",
              std::string("input '") + input.name + "' has the wrong " + difference +
                  ": expected " + expected + ", got " + got,
              hint);
}

[[gnu::cold, gnu::noinline]] void compare(const InputSpec& input, AtenTensorHandle tensor, bool all) {
  const TensorSpec& spec = input.tensor;
  bool defined = false;
  if (tensor == nullptr || aoti_torch_is_defined(tensor, &defined) != 0 || !defined) {
    refuse(input, "type", described(spec), "no tensor", hint_for("type", spec));
  }
  const Metadata found(tensor);
  if (!found.fits(spec)) refuse_input(input.name, found, spec);
  if (all && !is_in_form(spec, tensor)) {
    const bool conjugated = tensor_of(tensor).is_conj();
    refuse(input, "form", "a tensor stored as it reads",
           std::string("one that is ") + (conjugated ? "conjugated" : "negated") + " lazily",
           std::string("pass the tensor's .resolve_") + (conjugated ? "conj()" : "neg()"));
  }
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "an integer";
    case Kind::kReal:
      return "a number";
    case Kind::kBool:
      return "a truth value";
    case Kind::kTensor:
    case Kind::kObject:
    case Kind::kNone:
      break;
  }
  return "nothing";
}

// True if a tensor of this dtype can stand for a number of this kind.
bool is_of_kind(Kind kind, std::int32_t dtype) {
  const bool integral = (dtype >= dtype::uint8 && dtype <= dtype::int64) ||
                        (dtype >= dtype::uint16 && dtype <= dtype::uint64);
  const bool real = (dtype >= dtype::float16 && dtype <= dtype::float64) || dtype == dtype::bfloat16;
  if (kind == Kind::kBool) return dtype == dtype::bool_ || integral;
  return kind == Kind::kReal ? integral || real : kind == Kind::kInteger && integral;
}

void unpack(const InputSpec& input, AtenTensorHandle tensor, Slot& slot) {
  if (tensor == nullptr && input.is_fixed) {
    slot = input.fixed;
    return;
  }
  bool defined = false;
  std::int64_t count = 0;
  if (tensor == nullptr || aoti_torch_is_defined(tensor, &defined) != 0 || !defined) {
    refuse(input, "type", kind_name(input.kind), "no tensor",
           "numbers are passed as tensors of one element");
  }
  const Metadata found(tensor);
  check(aoti_torch_get_numel(tensor, &count));
  if (count != 1 || !is_of_kind(input.kind, found.dtype)) {
    refuse(input, "type", kind_name(input.kind), described(found),
           "numbers are passed as tensors of one element");
  }
  if (input.kind == Kind::kReal) {
    slot.real = real_item(tensor);
  } else {
    slot.integer = integer_item(tensor);
    if (input.kind == Kind::kBool) slot.integer = slot.integer != 0;
  }
}

}  // namespace

void check_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, bool all) {
  for (std::size_t i = 0; i < program.num_inputs; ++i) {
    const InputSpec& input = program.inputs[i];
    if (input.kind != Kind::kTensor) continue;
    if (handles[i] != nullptr &&
        (!all || (is_exactly(input.tensor, program.number(input.tensor), handles[i]) &&
                  is_in_form(input.tensor, handles[i])))) [[likely]] {
      continue;
    }
    InputSpec wanted = input;
    wanted.tensor.device_index = program.number(input.tensor);
    compare(wanted, handles[i], all);
  }
}

void unpack_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, Slot* slots) {
  for (std::size_t i = 0; i < program.num_given(); ++i) {
    const InputSpec& input = program.inputs[i];
    if (input.kind == Kind::kTensor) [[likely]] {
      slots[i].tensor = handles[i];
    } else if (input.kind != Kind::kNone) {
      unpack(input, handles[i], slots[i]);
    } else {
      slots[i].tensor = nullptr;
    }
  }
}

}  // namespace wir::runtime
