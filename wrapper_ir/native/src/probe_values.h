// What probes say of a tensor's values: the numbers, by the same library ops as in Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <wir/tensor.h>

namespace wir::runtime {

using Index = std::vector<std::int64_t>;

// An element, or a part of one.
struct Number {
  enum class Kind { kInteger, kUnsigned, kReal, kComplex };
  Kind kind = Kind::kInteger;
  std::int64_t integer = 0;  // also the bits of a kUnsigned
  double real = 0;
  double imag = 0;

  static Number of(std::int64_t value) { return {Kind::kInteger, value}; }
  static Number of(std::uint64_t value) {
    return {Kind::kUnsigned, static_cast<std::int64_t>(value)};
  }
  static Number of(double value) { return {Kind::kReal, 0, value}; }
  static Number of(double real, double imag) { return {Kind::kComplex, 0, real, imag}; }
};

// Of complex tensors all but the counts are of real and imaginary parts together; the first four
// are of the finite values.
struct Statistics {
  bool has_range = false;
  Number minimum;
  Number maximum;
  bool has_mean = false;
  double mean = 0;
  bool has_std = false;
  double std = 0;
  std::int64_t nan = 0;
  std::int64_t inf = 0;
  Index first_nan;
  Index first_inf;
};

// Layout of a tensor, and its elements once something asks for them.
class Shown {
 public:
  explicit Shown(AtenTensorHandle tensor);

  AtenTensorHandle tensor() const { return tensor_; }
  std::int32_t dtype() const { return dtype_; }
  std::int32_t layout() const { return layout_; }  // 0: strided
  const Index& size() const { return size_; }
  const Index& stride() const { return stride_; }
  std::int64_t count() const { return count_; }
  std::int64_t element_bytes() const { return element_bytes_; }
  bool is_contiguous() const;
  bool is_floating() const;
  bool is_complex() const;
  const char* short_dtype() const;  // as in the text form of programs; null: no such
  std::string device() const;       // as PyTorch writes it

  bool is_readable() const;  // whether its values can be read
  void read();               // makes the elements ready
  Number element(std::int64_t position) const;  // in row-major order
  Statistics statistics(bool with_moments = true) const;

  // A contiguous tensor of the same elements.
  Tensor packed() const;

 private:
  template <class T>
  const T* flat() const { return data<T>(flat_); }
  template <class T>
  void measure_floats(std::int64_t parts, bool with_moments, Statistics* found) const;
  template <class T>
  void measure(bool with_moments, Statistics* found) const;
  Index index_of(std::int64_t position) const;

  // The tensor in memory that the host reads: itself, or a copy that is made once.
  AtenTensorHandle on_host() const;

  AtenTensorHandle tensor_;
  mutable Tensor host_;
  std::int32_t device_type_ = -1;
  std::int32_t device_index_ = -1;
  std::int32_t dtype_ = -1;
  std::int32_t layout_ = 0;
  Index size_;
  Index stride_;
  std::int64_t count_ = 1;
  std::int64_t element_bytes_ = 1;
  Tensor flat_;  // in a type that PyTorch computes with, in row-major order
  std::int32_t wide_dtype_ = -1;
};

}  // namespace wir::runtime
