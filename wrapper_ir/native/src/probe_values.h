// Measurements of a tensor's values, with the same library ops in the same order as probes in
// Python: wrapper_ir/runtime/probes/describe.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace wir::runtime {

using Index = std::vector<std::int64_t>;

// For complex tensors, everything but the counts covers real and imaginary parts together. The
// first four cover the finite values only.
struct Statistics {
  std::optional<at::Scalar> minimum;
  std::optional<at::Scalar> maximum;
  std::optional<double> mean;
  std::optional<double> std;
  std::int64_t nan = 0;
  std::int64_t inf = 0;
  Index first_nan;
  Index first_inf;
};

// The name of the dtype in the text form of programs; null: it has none.
const char* short_dtype(const at::Tensor& tensor);

// The values on the CPU, in a type that PyTorch can compute in; undefined if there is none.
at::Tensor readable(const at::Tensor& tensor);

// The statistics of a result of `readable`; all counts are zero if that is undefined.
Statistics statistics_of(const at::Tensor& values, bool with_moments = true);

// CRC-32 of the elements' bytes in row-major order, in eight hexadecimal digits.
std::string checksum(const at::Tensor& tensor);

// A copy of the elements in a storage of their own, in the same layout, with zeros in its gaps.
// Strides of 0 are not kept.
at::Tensor private_copy(const at::Tensor& tensor);

}  // namespace wir::runtime
