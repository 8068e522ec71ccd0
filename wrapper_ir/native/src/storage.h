// The memory of constants: one storage for all that share it, and a view of it for each.
#pragma once

#include <cstdint>

#include <wir/program.h>
#include <wir/tensor.h>

namespace wir::runtime {

// The constant whose storage this one is in: itself, mostly.
inline std::size_t root_of(const ProgramInfo& program, std::size_t index) {
  const std::int32_t root = program.constants[index].tied_to;
  return root < 0 ? index : static_cast<std::size_t>(root);
}

// From the start of the storage to the end of the last element.
std::uint64_t bytes_spanned(const ConstantSpec& spec);

// Whether two constants of one storage are the same tensor.
bool same_layout(const ConstantSpec& a, const ConstantSpec& b);

// A storage, as a tensor of bytes: one that shows memory of ours, one that has a copy of it, one
// that is empty yet. `spec` is that of the root.
Tensor storage_at(std::uint8_t* bytes, std::uint64_t size);
Tensor copied_storage(const ConstantSpec& spec, const std::uint8_t* bytes);
Tensor new_storage(const ConstantSpec& spec);

Tensor view_of(AtenTensorHandle storage, const ConstantSpec& spec);

// Copies into a tensor whose strides may be 0: such a dimension repeats its elements, so the first
// of them is copied.
void copy_elements(AtenTensorHandle target, AtenTensorHandle source);

// Whether `tensor` has, bit for bit, the elements that `made`, a view of the constant, has. On the
// CPU; true elsewhere.
bool same_elements(const ConstantSpec& spec, AtenTensorHandle made, AtenTensorHandle tensor);

}  // namespace wir::runtime
