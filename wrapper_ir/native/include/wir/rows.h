// Products that are added to the rows of a small matrix, each of which is the same vector.
#pragma once

#include <cstdint>
#include <cstring>

#include <wir/error.h>

extern "C" AOTITorchError aoti_torch_cpu_addmm_out(AtenTensorHandle out, AtenTensorHandle self,
    AtenTensorHandle mat1, AtenTensorHandle mat2, double beta, double alpha);

namespace wir {

// out = vector + alpha * (left * right), as ATen's addmm computes it: it adds to what is there.
// `to` are the contiguous rows of `out`, and a row has so many bytes.
inline void addmm(AtenTensorHandle out, AtenTensorHandle left, AtenTensorHandle right, void* to,
                  const void* vector, std::int64_t rows, std::int64_t bytes, double alpha) {
  auto* row = static_cast<char*>(to);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(row + i * bytes, vector, static_cast<std::size_t>(bytes));
  }
  check(aoti_torch_cpu_addmm_out(out, out, left, right, 1, alpha));
}

}  // namespace wir
