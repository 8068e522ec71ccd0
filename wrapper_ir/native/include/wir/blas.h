// Products of matrices on a GPU that call cuBLAS just as ATen would, without tensors around it.
//
// What ATen would not hand to cuBLAS as it is, and all of it under settings of PyTorch that have
// ATen choose otherwise, goes to ATen: results have the same bits either way.
#pragma once

#include <cstdint>

#include <wir/program.h>

namespace wir {

// Where a matrix lies; strides are in elements.
struct Matrix {
  void* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::int64_t batch_stride = 0;  // to the next one, of several
};

// cuBLAS on the current stream of a GPU, which is the current one. It holds until something else
// may have used cuBLAS in this thread, for all that does has the same handle.
Blas current_blas(std::int32_t gpu);

// out = left * right, all of one type.
void mm(const Call& call, std::int32_t dtype, const Matrix& out, const Matrix& left,
        const Matrix& right);

// The same for each of `count` matrices that follow one another.
void bmm(const Call& call, std::int32_t dtype, std::int64_t count, const Matrix& out, const Matrix& left,
         const Matrix& right);

}  // namespace wir
