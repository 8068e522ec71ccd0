// The memory of constants: one storage for all constants that share it, and a view of it for each.
#pragma once

#include <cstdint>

#include <wir/program.h>
#include <wir/tensor.h>

namespace wir::runtime {

// The constant that owns this one's storage, usually itself.
inline std::size_t root_of(const ProgramInfo& program, std::size_t index) {
  const std::int32_t root = program.constants[index].tied_to;
  return root < 0 ? index : static_cast<std::size_t>(root);
}

// The number of bytes from the start of the storage to the end of the last element.
std::uint64_t bytes_spanned(const ConstantSpec& spec);

// True if two constants of one storage are the same tensor.
bool same_layout(const ConstantSpec& a, const ConstantSpec& b);

// A storage, as a tensor of bytes: one over existing memory, one with a copy of it, and one that is
// uninitialized. `spec` is that of the root.
Tensor storage_at(std::uint8_t* bytes, std::uint64_t size);
Tensor copied_storage(const ConstantSpec& spec, const std::uint8_t* bytes);
Tensor new_storage(const ConstantSpec& spec);

Tensor view_of(AtenTensorHandle storage, const ConstantSpec& spec);

// Copies into a tensor whose strides may be 0. Such a dimension repeats its elements, so only the
// first of them is copied.
void copy_elements(AtenTensorHandle target, AtenTensorHandle source);

// Returns a copy with the same sizes and strides, in memory of its own.
Tensor separate(AtenTensorHandle tensor);

// True if `tensor` has the same elements, bit for bit, as `made`, a view of the constant.
bool same_elements(const ConstantSpec& spec, AtenTensorHandle made, AtenTensorHandle tensor);

}  // namespace wir::runtime
