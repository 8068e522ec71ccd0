// Measurements of a tensor's values, by the library ops that probes in Python call, in the same
// order: wrapper_ir/runtime/probes/measures.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace wir::runtime {

using Index = std::vector<std::int64_t>;

// Of complex tensors all but the counts are of real and imaginary parts together; the first four
// are of the finite values.
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

// As in the text form of programs; null: no such.
const char* short_dtype(const at::Tensor& tensor);

// The values on the CPU in a type that PyTorch computes with; undefined where it cannot.
at::Tensor readable(const at::Tensor& tensor);

// The statistics of what `readable` returned; all counts are zero where that is undefined.
Statistics statistics_of(const at::Tensor& values, bool with_moments = true);

// CRC-32 of the elements' bytes in row-major order, in eight hexadecimal digits.
std::string checksum(const at::Tensor& tensor);

// The elements in a storage of their own, in the same layout; zeros where it has gaps. Strides of 0
// are not kept.
at::Tensor private_copy(const at::Tensor& tensor);

}  // namespace wir::runtime
