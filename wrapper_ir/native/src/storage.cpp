#include "storage.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/layout.h>

namespace wir::runtime {
namespace {

constexpr std::int64_t kOne = 1;

bool is_empty(const TensorSpec& spec) {
  return std::find(spec.size, spec.size + spec.rank, 0) != spec.size + spec.rank;
}

// Appends the elements to `out` in row-major order.
void gather(const std::byte* from, const TensorSpec& spec, const std::int64_t* stride,
            std::size_t width, std::int32_t dim, std::vector<std::byte>& out) {
  if (dim == spec.rank) {
    out.insert(out.end(), from, from + width);
    return;
  }
  for (std::int64_t i = 0; i < spec.size[dim]; ++i) {
    gather(from + i * stride[dim] * static_cast<std::int64_t>(width), spec, stride, width, dim + 1,
           out);
  }
}

std::vector<std::byte> elements(const TensorSpec& spec, AtenTensorHandle tensor) {
  std::vector<std::byte> found;
  if (is_empty(spec)) return found;
  if (spec.device_type != device::cpu) {
    TensorSpec here = spec;
    here.device_type = device::cpu;
    here.device_index = -1;
    const Tensor copy = empty(spec.rank, spec.size, spec.stride, {spec.dtype, device::cpu, -1});
    check(aoti_torch_copy_(copy, tensor, 0));
    return elements(here, copy);
  }
  gather(data<std::byte>(tensor), spec, strides(tensor), aoti_torch_dtype_element_size(spec.dtype),
         0, found);
  return found;
}

}  // namespace

std::uint64_t bytes_spanned(const ConstantSpec& spec) {
  if (is_empty(spec.tensor)) return 0;
  std::uint64_t last = spec.storage_offset;
  for (std::int32_t i = 0; i < spec.tensor.rank; ++i) {
    last += (spec.tensor.size[i] - 1) * spec.tensor.stride[i];
  }
  return (last + 1) * aoti_torch_dtype_element_size(spec.tensor.dtype);
}

bool same_layout(const ConstantSpec& a, const ConstantSpec& b) {
  const TensorSpec& x = a.tensor;
  const TensorSpec& y = b.tensor;
  return x.dtype == y.dtype && x.rank == y.rank && std::equal(x.size, x.size + x.rank, y.size) &&
         std::equal(x.stride, x.stride + x.rank, y.stride) && a.storage_offset == b.storage_offset;
}

Tensor storage_at(std::uint8_t* bytes, std::uint64_t size) {
  const auto count = static_cast<std::int64_t>(size);
  AtenTensorHandle made = nullptr;
  check(aoti_torch_create_tensor_from_blob(bytes, 1, &count, &kOne, 0, dtype::uint8, device::cpu,
                                           -1, &made));
  return Tensor(made);
}

Tensor copied_storage(const ConstantSpec& spec, const std::uint8_t* bytes) {
  Tensor made = new_storage(spec);
  if (spec.data_bytes == 0) return made;
  if (spec.tensor.device_type == device::cpu) {
    std::memcpy(data(made), bytes, spec.data_bytes);
  } else {
    // The const_cast is safe, because the bytes are only read.
    check(aoti_torch_copy_(made, storage_at(const_cast<std::uint8_t*>(bytes), spec.data_bytes), 0));
  }
  return made;
}

Tensor new_storage(const ConstantSpec& spec) {
  const auto count = static_cast<std::int64_t>(spec.data_bytes);
  return empty(1, &count, &kOne, {dtype::uint8, spec.tensor.device_type, spec.tensor.device_index});
}

Tensor view_of(AtenTensorHandle storage, const ConstantSpec& spec) {
  const TensorSpec& tensor = spec.tensor;
  const std::int64_t start = spec.storage_offset *
                             static_cast<std::int64_t>(aoti_torch_dtype_element_size(tensor.dtype));
  AtenTensorHandle made = nullptr;
  check(aoti_torch__alloc_from_pool(storage, start, tensor.dtype, tensor.rank, tensor.size,
                                    tensor.stride, &made));
  return Tensor(made);
}

void copy_elements(AtenTensorHandle target, AtenTensorHandle source) {
  std::int64_t rank = 0;
  check(aoti_torch_get_dim(target, &rank));
  std::vector<std::int64_t> size(sizes(target), sizes(target) + rank);
  bool repeats = false;
  for (std::int64_t i = 0; i < rank; ++i) {
    if (strides(target)[i] == 0 && size[i] > 1) {
      size[i] = 1;
      repeats = true;
    }
  }
  if (!repeats) return check(aoti_torch_copy_(target, source, 0));
  const Tensor to = view(target, rank, size.data(), strides(target), 0);
  const Tensor from = view(source, rank, size.data(), strides(source), 0);
  check(aoti_torch_copy_(to, from, 0));
}

Tensor separate(AtenTensorHandle tensor) {
  const Metadata found(tensor);
  Tensor made = empty(found.rank, found.size, found.stride,
                      {found.dtype, found.device_type, found.device_index});
  copy_elements(made, tensor);
  return made;
}

bool same_elements(const ConstantSpec& spec, AtenTensorHandle made, AtenTensorHandle tensor) {
  return elements(spec.tensor, made) == elements(spec.tensor, tensor);
}

}  // namespace wir::runtime
