// Inputs at addresses that kernels rely on.
#pragma once

#include <cstdint>

#include <wir/layout.h>
#include <wir/tensor.h>

namespace wir {

// A copy of a tensor with its strides, in memory of its own.
[[gnu::cold, gnu::noinline]] inline Tensor copied(AtenTensorHandle tensor) {
  const Metadata found(tensor);
  std::int64_t count = 1;
  const std::int64_t one = 1;
  for (std::int64_t d = 0; d < found.rank; ++d) count += (found.size[d] - 1) * found.stride[d];
  const Options options{found.dtype, found.device_type, found.device_index};
  const Tensor memory = empty(1, &count, &one, options), flat = view(tensor, 1, &count, &one, 0);
  check(aoti_torch_copy_(memory, flat, 1));
  return view(memory, found.rank, found.size, found.stride, 0);
}

// The tensor, or, if it begins at no multiple of so many bytes, `copy`, which is made then.
inline AtenTensorHandle realigned(AtenTensorHandle tensor, std::uintptr_t alignment,
                                  Tensor& copy) {
  if (__builtin_expect(reinterpret_cast<std::uintptr_t>(data(tensor)) % alignment == 0, 1)) {
    return tensor;
  }
  copy = copied(tensor);
  return copy;
}

}  // namespace wir
