// Support for loops and conditionals in generated code.
#pragma once

#include <utility>
#include <vector>

#include <wir/dtype.h>
#include <wir/number.h>
#include <wir/tensor.h>

namespace wir {

// The only element of a tensor, in the type that Python's item() returns.
inline Int integer_item(AtenTensorHandle tensor) {
  std::int32_t type = -1;
  check(aoti_torch_get_dtype(tensor, &type));
  switch (type) {
#define WIR_ITEM(DTYPE, TYPE)                              \
  case dtype::DTYPE: {                                     \
    TYPE found{};                                          \
    check(aoti_torch_item_##DTYPE(tensor, &found));        \
    return found;                                          \
  }
    WIR_ITEM(uint8, std::uint8_t)
    WIR_ITEM(uint16, std::uint16_t)
    WIR_ITEM(uint32, std::uint32_t)
    WIR_ITEM(int8, std::int8_t)
    WIR_ITEM(int16, std::int16_t)
    WIR_ITEM(int32, std::int32_t)
    WIR_ITEM(int64, std::int64_t)
    case dtype::uint64: {
      std::uint64_t found = 0;
      check(aoti_torch_item_uint64(tensor, &found));
      if (found > static_cast<std::uint64_t>(INT64_MAX)) overflow();
      return found;
    }
    case dtype::bool_: {
      bool found = false;
      check(aoti_torch_item_bool(tensor, &found));
      return found;
    }
    default:
      refuse_number("an element is no integer");
  }
}

inline double real_item(AtenTensorHandle tensor) {
  std::int32_t type = -1;
  check(aoti_torch_get_dtype(tensor, &type));
  switch (type) {
    WIR_ITEM(float64, double)
    WIR_ITEM(float32, float)
    WIR_ITEM(float16, c10::Half)
    WIR_ITEM(bfloat16, c10::BFloat16)
#undef WIR_ITEM
    default:
      return to_real(integer_item(tensor));
  }
}

// True if the only element of a tensor is not zero.
inline bool truth(AtenTensorHandle tensor) {
  std::int32_t type = -1;
  check(aoti_torch_get_dtype(tensor, &type));
  switch (type) {
    case dtype::float64:
    case dtype::float32:
    case dtype::float16:
    case dtype::bfloat16:
      return real_item(tensor) != 0;
    default:
      return integer_item(tensor) != 0;
  }
}

inline Tensor clone(AtenTensorHandle tensor) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_clone(tensor, &made));
  return Tensor(made);
}

// A loop's result for a carried tensor, cloned if it is one of `given`, so that the result is a
// tensor of its own. Empty tensors have no address, and torch refuses one that is both read and
// written.
inline Tensor own(Tensor value, std::initializer_list<AtenTensorHandle> given) {
  const void* address = data(value);
  for (const AtenTensorHandle other : given) {
    if (data(other) == address) return clone(value);
  }
  return value;
}

// The values of a carried tensor after each iteration, stacked along a new first dimension. Without
// any iteration, it holds the initial value.
class Rounds {
 public:
  // `before` is the value before the first iteration.
  explicit Rounds(AtenTensorHandle before) : before_(share(before)) {
    check(aoti_torch_get_dtype(before, &options_.dtype));
    check(aoti_torch_get_device_type(before, &options_.device_type));
    check(aoti_torch_get_device_index(before, &options_.device_index));
    check(aoti_torch_get_dim(before, &rank_));
  }
  void add(AtenTensorHandle value) { values_.push_back(clone(value)); }

  Tensor stacked() const {
    const std::size_t count = values_.empty() ? 1 : values_.size();
    std::vector<std::int64_t> size{static_cast<std::int64_t>(count)};
    const std::int64_t* first = sizes(values_.empty() ? before_ : values_.front());
    size.insert(size.end(), first, first + rank_);
    std::vector<std::int64_t> stride(size.size(), 1);
    for (std::size_t n = size.size() - 1; n > 0; --n) {
      stride[n - 1] = Int(stride[n]) * (size[n] == 0 ? 1 : size[n]);
    }
    Tensor whole = empty(rank_ + 1, size.data(), stride.data(), options_);
    for (std::size_t n = 0; n < count; ++n) {
      const Tensor part = view(whole, rank_, size.data() + 1, stride.data() + 1,
                               static_cast<std::int64_t>(n) * stride[0]);
      check(aoti_torch_copy_(part, values_.empty() ? before_ : values_[n], 0));
    }
    return whole;
  }

 private:
  Options options_{-1, device::cpu, 0};
  std::int64_t rank_ = 0;
  Tensor before_;
  std::vector<Tensor> values_;
};

}  // namespace wir
