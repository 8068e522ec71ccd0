#include "probe_values.h"

#include <algorithm>
#include <cmath>

#include <wir/dtype.h>
#include <wir/op.h>

namespace wir::runtime {
namespace {

Op to_dtype{"aten::to", "dtype"};
Op make_contiguous{"aten::contiguous", ""};
Op resolve_conj{"aten::resolve_conj", ""};
Op resolve_neg{"aten::resolve_neg", ""};
Op smallest{"aten::min", ""};
Op largest{"aten::max", ""};
Op mean_of{"aten::mean", ""};
Op std_of{"aten::std", ""};

struct Type {
  std::int32_t dtype;
  const char* name;
  std::int64_t bytes;
  std::int32_t wide;  // a type that holds all its values and that PyTorch computes with
};

constexpr Type kTypes[] = {
    {dtype::float64, "f64", 8, dtype::float64},
    {dtype::float32, "f32", 4, dtype::float32},
    {dtype::float16, "f16", 2, dtype::float32},
    {dtype::bfloat16, "bf16", 2, dtype::float32},
    {dtype::float8_e4m3fn, "f8e4m3fn", 1, dtype::float32},
    {dtype::float8_e4m3fnuz, "f8e4m3fnuz", 1, dtype::float32},
    {dtype::float8_e5m2, "f8e5m2", 1, dtype::float32},
    {dtype::float8_e5m2fnuz, "f8e5m2fnuz", 1, dtype::float32},
    {dtype::float8_e8m0fnu, "f8e8m0fnu", 1, dtype::float32},
    {dtype::float4_e2m1fn_x2, "f4e2m1fnx2", 1, -1},
    {dtype::complex32, "c32", 4, dtype::complex64},
    {dtype::complex64, "c64", 8, dtype::complex64},
    {dtype::complex128, "c128", 16, dtype::complex128},
    {dtype::int64, "i64", 8, dtype::int64},
    {dtype::int32, "i32", 4, dtype::int32},
    {dtype::int16, "i16", 2, dtype::int16},
    {dtype::int8, "i8", 1, dtype::int8},
    {dtype::uint64, "u64", 8, dtype::uint64},
    {dtype::uint32, "u32", 4, dtype::int64},
    {dtype::uint16, "u16", 2, dtype::int64},
    {dtype::uint8, "u8", 1, dtype::uint8},
    {dtype::bool_, "bool", 1, dtype::bool_},
};

const Type* type_of(std::int32_t dtype) {
  for (const Type& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

Tensor in_type(AtenTensorHandle tensor, std::int32_t dtype) {
  Tensor made;
  to_dtype({tensor, Dtype{dtype}}, {made});
  return made;
}

Tensor row_major(AtenTensorHandle tensor) {
  Tensor made;
  make_contiguous({tensor}, {made});
  return made;
}

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr std::int32_t value = dtype::float32;
};
template <>
struct DtypeOf<double> {
  static constexpr std::int32_t value = dtype::float64;
};

template <class T>
T only(const Tensor& tensor) { return *data<T>(tensor); }

}  // namespace

Shown::Shown(AtenTensorHandle tensor) : tensor_(tensor) {
  check(aoti_torch_get_dtype(tensor, &dtype_));
  check(aoti_torch_get_layout(tensor, &layout_));
  std::int64_t rank = 0;
  check(aoti_torch_get_dim(tensor, &rank));
  const std::int64_t* size = sizes(tensor);
  size_.assign(size, size + rank);
  if (layout_ == 0) {
    const std::int64_t* stride = strides(tensor);
    stride_.assign(stride, stride + rank);
  }
  for (const std::int64_t each : size_) count_ *= each;
  if (const Type* type = type_of(dtype_)) element_bytes_ = type->bytes;
}

bool Shown::is_contiguous() const {
  std::int64_t step = 1;
  for (std::size_t n = size_.size(); count_ != 0 && n-- > 0;) {
    if (size_[n] != 1 && stride_[n] != step) return false;
    step *= size_[n];
  }
  return true;
}

bool Shown::is_complex() const {
  return dtype_ == dtype::complex32 || dtype_ == dtype::complex64 || dtype_ == dtype::complex128;
}

bool Shown::is_floating() const {
  const char* name = short_dtype();
  return name != nullptr && (*name == 'f' || dtype_ == dtype::bfloat16);
}

const char* Shown::short_dtype() const {
  const Type* type = type_of(dtype_);
  return type == nullptr ? nullptr : type->name;
}

bool Shown::is_readable() const {
  const Type* type = type_of(dtype_);
  return layout_ == 0 && type != nullptr && type->wide >= 0;
}

void Shown::read() {
  wide_dtype_ = type_of(dtype_)->wide;
  Tensor plain;
  resolve_conj({tensor_}, {plain});
  resolve_neg({plain}, {plain});
  wide_ = in_type(plain, wide_dtype_);
  flat_ = row_major(wide_);
}

Tensor Shown::packed() const { return row_major(tensor_); }

Number Shown::element(std::int64_t position) const {
  const auto integer = [](std::int64_t value) { return Number::of(value); };
  switch (wide_dtype_) {
    case dtype::float64: return Number::of(flat<double>()[position]);
    case dtype::float32: return Number::of(static_cast<double>(flat<float>()[position]));
    case dtype::complex64: {
      const float* parts = flat<float>() + 2 * position;
      return Number::of(static_cast<double>(parts[0]), static_cast<double>(parts[1]));
    }
    case dtype::complex128: {
      const double* parts = flat<double>() + 2 * position;
      return Number::of(parts[0], parts[1]);
    }
    case dtype::int64: return integer(flat<std::int64_t>()[position]);
    case dtype::int32: return integer(flat<std::int32_t>()[position]);
    case dtype::int16: return integer(flat<std::int16_t>()[position]);
    case dtype::int8: return integer(flat<std::int8_t>()[position]);
    case dtype::uint64: return Number::of(flat<std::uint64_t>()[position]);
    case dtype::uint8: return integer(flat<std::uint8_t>()[position]);
    default: return integer(flat<std::uint8_t>()[position] != 0 ? 1 : 0);  // bool
  }
}

Index Shown::index_of(std::int64_t position) const {
  Index index(size_.size());
  for (std::size_t n = size_.size(); n-- > 0;) {
    index[n] = position % size_[n];
    position /= size_[n];
  }
  return index;
}

Statistics Shown::statistics() const {
  Statistics found;
  if (count_ == 0) return found;
  switch (wide_dtype_) {
    case dtype::float64: count_floats<double>(1, &found); break;
    case dtype::float32: count_floats<float>(1, &found); break;
    case dtype::complex64: count_floats<float>(2, &found); break;
    case dtype::complex128: count_floats<double>(2, &found); break;
    case dtype::int64: range<std::int64_t>(&found); break;
    case dtype::int32: range<std::int32_t>(&found); break;
    case dtype::int16: range<std::int16_t>(&found); break;
    case dtype::int8: range<std::int8_t>(&found); break;
    case dtype::uint64: range<std::uint64_t>(&found); break;
    default:
      range<std::uint8_t>(&found);
      if (dtype_ == dtype::bool_) {  // memory that nobody wrote holds other numbers than 0 and 1
        found.minimum.integer = found.minimum.integer != 0 ? 1 : 0;
        found.maximum.integer = found.maximum.integer != 0 ? 1 : 0;
      }
      break;
  }
  return found;
}

template <class T>
void Shown::count_floats(std::int64_t parts, Statistics* found) const {
  const T* values = flat<T>();
  std::vector<T> finite;
  const std::int64_t total = count_ * parts;
  for (std::int64_t position = 0; position < count_; ++position) {
    bool nan = false;
    bool inf = false;
    for (std::int64_t part = 0; part < parts; ++part) {
      const T value = values[position * parts + part];
      nan = nan || std::isnan(value);
      inf = inf || std::isinf(value);
    }
    if (nan && found->nan++ == 0) found->first_nan = index_of(position);
    if (inf && found->inf++ == 0) found->first_inf = index_of(position);
  }
  std::int64_t left = total;
  const T* first = values;
  if (found->nan != 0 || found->inf != 0) {
    std::copy_if(values, values + total, std::back_inserter(finite),
                 [](T value) { return std::isfinite(value); });
    left = static_cast<std::int64_t>(finite.size());
    first = finite.data();
  }
  if (left == 0) return;
  static constexpr std::int64_t kStep = 1;
  AtenTensorHandle made = nullptr;
  check(aoti_torch_create_tensor_from_blob(const_cast<T*>(first), 1, &left, &kStep, 0,
                                           DtypeOf<T>::value, device::cpu, 0, &made));
  const Tensor view(made);
  Tensor low;
  Tensor high;
  smallest({view}, {low});
  largest({view}, {high});
  found->has_range = true;
  found->minimum = Number::of(static_cast<double>(only<T>(low)));
  found->maximum = Number::of(static_cast<double>(only<T>(high)));
  mean(view, left, found);
}

template <class T>
void Shown::range(Statistics* found) const {
  using Wide = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  const auto [low, high] = std::minmax_element(flat<T>(), flat<T>() + count_);
  found->has_range = true;
  found->minimum = Number::of(static_cast<Wide>(*low));
  found->maximum = Number::of(static_cast<Wide>(*high));
  mean(wide_, count_, found);
}

void Shown::mean(AtenTensorHandle values, std::int64_t count, Statistics* found) const {
  const Tensor wide = in_type(values, dtype::float64);
  Tensor made;
  mean_of({wide}, {made});
  found->has_mean = true;
  found->mean = only<double>(made);
  if (count < 2) return;
  std_of({wide}, {made});
  found->has_std = true;
  found->std = only<double>(made);
}

}  // namespace wir::runtime
