// Matrix products on a GPU that call cuBLAS exactly as ATen would, without creating tensors.
//
// Operands that ATen would not pass to cuBLAS unchanged are left to ATen, and so is everything
// under PyTorch settings that make ATen choose another path. The results are the same, bit for bit.
#pragma once

#include <cstdint>

namespace wir {

// A matrix in memory. Strides are in elements.
struct Matrix {
  void* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::int64_t batch_stride = 0;  // to the next matrix of a batch
};

// out = left * right, all of one type, on the current stream of `gpu`, which must be the current
// device.
void mm(std::int32_t gpu, std::int32_t dtype, const Matrix& out, const Matrix& left,
        const Matrix& right);

// The same for a batch of `count` matrices.
void bmm(std::int32_t gpu, std::int32_t dtype, std::int64_t count, const Matrix& out, const Matrix& left,
         const Matrix& right);

}  // namespace wir
