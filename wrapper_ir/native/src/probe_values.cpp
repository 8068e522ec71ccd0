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
Op mean_of{"aten::mean", ""};
Op var_of{"aten::var", ""};

constexpr std::int64_t kPiece = 1 << 16;  // elements: in float64 they fit a processor's own cache

// A bool in memory: what nobody wrote holds other bytes than 0 and 1.
struct Truth {
  std::uint8_t byte;
  explicit operator std::int64_t() const { return byte != 0 ? 1 : 0; }
  bool operator<(Truth other) const { return byte == 0 && other.byte != 0; }
};

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

// The elements, as they are meant where a view says that they are conjugate or negative.
Tensor resolved(AtenTensorHandle tensor) {
  Tensor made;
  resolve_conj({tensor}, {made});
  resolve_neg({made}, {made});
  return made;
}

double item(const Tensor& tensor) { return *data<double>(tensor); }

// Mean and sum of squared deviations of what was seen so far; pieces are combined as by Chan,
// Golub and LeVeque.
struct Moments {
  std::int64_t count = 0;
  double mean = 0;
  double squares = 0;

  void add(double* values, std::int64_t size) {
    static constexpr std::int64_t kStep = 1;
    AtenTensorHandle made = nullptr;
    check(aoti_torch_create_tensor_from_blob(values, 1, &size, &kStep, 0, dtype::float64,
                                             device::cpu, 0, &made));
    const Tensor piece(made);
    Tensor found;
    mean_of({piece}, {found});
    const double own = item(found);
    double own_squares = 0;
    if (size > 1) {
      var_of({piece, true}, {found});
      own_squares = item(found) * static_cast<double>(size - 1);
    }
    const double apart = own - mean;
    const auto together = static_cast<double>(count + size);
    squares += own_squares + apart * apart * (static_cast<double>(count * size) / together);
    mean = count == 0 ? own : mean + apart * (static_cast<double>(size) / together);
    count += size;
  }
};

// Of as many values, `get` giving one each time.
template <class Get>
void put_moments(std::int64_t total, Get get, Statistics* found) {
  std::vector<double> buffer(static_cast<std::size_t>(std::min(total, kPiece)));
  Moments moments;
  for (std::int64_t start = 0; start < total; start += kPiece) {
    const std::int64_t size = std::min(kPiece, total - start);
    for (std::int64_t n = 0; n < size; ++n) buffer[static_cast<std::size_t>(n)] = get();
    moments.add(buffer.data(), size);
  }
  found->has_mean = total != 0;
  found->mean = moments.mean;
  found->has_std = total > 1;
  found->std = std::sqrt(moments.squares / static_cast<double>(total - 1));
}

}  // namespace

Shown::Shown(AtenTensorHandle tensor) : tensor_(tensor) {
  check(aoti_torch_get_dtype(tensor, &dtype_));
  check(aoti_torch_get_layout(tensor, &layout_));
  check(aoti_torch_get_device_type(tensor, &device_type_));
  if (device_type_ != device::cpu) check(aoti_torch_get_device_index(tensor, &device_index_));
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
  flat_ = row_major(in_type(resolved(on_host()), wide_dtype_));
}

Tensor Shown::packed() const { return row_major(resolved(on_host())); }

std::string Shown::device() const {
  std::string name = device_name(device_type_);
  return device_type_ == device::cpu ? name : name + ":" + std::to_string(device_index_);
}

AtenTensorHandle Shown::on_host() const {
  if (device_type_ == device::cpu) return tensor_;
  if (host_ == nullptr) {
    Index stride(size_.size());
    std::int64_t step = 1;
    for (std::size_t n = size_.size(); n-- > 0; step *= size_[n]) stride[n] = step;
    host_ = empty(static_cast<std::int64_t>(size_.size()), size_.data(), stride.data(),
                  {dtype_, device::cpu, 0});
    check(aoti_torch_copy_(host_, tensor_, 0));  // waits for the GPU
  }
  return host_;
}

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

Statistics Shown::statistics(bool with_moments) const {
  Statistics found;
  if (count_ == 0) return found;
  switch (wide_dtype_) {
    case dtype::float64: measure_floats<double>(1, with_moments, &found); break;
    case dtype::float32: measure_floats<float>(1, with_moments, &found); break;
    case dtype::complex64: measure_floats<float>(2, with_moments, &found); break;
    case dtype::complex128: measure_floats<double>(2, with_moments, &found); break;
    case dtype::int64: measure<std::int64_t>(with_moments, &found); break;
    case dtype::int32: measure<std::int32_t>(with_moments, &found); break;
    case dtype::int16: measure<std::int16_t>(with_moments, &found); break;
    case dtype::int8: measure<std::int8_t>(with_moments, &found); break;
    case dtype::uint64: measure<std::uint64_t>(with_moments, &found); break;
    case dtype::uint8: measure<std::uint8_t>(with_moments, &found); break;
    default: measure<Truth>(with_moments, &found); break;
  }
  return found;
}

template <class T>
void Shown::measure_floats(std::int64_t parts, bool with_moments, Statistics* found) const {
  const T* values = flat<T>();
  const std::int64_t total = count_ * parts;
  std::int64_t finite = 0;
  T low = 0;
  T high = 0;
  for (std::int64_t n = 0; n < total; n += parts) {
    bool nan = false;
    bool inf = false;
    for (std::int64_t part = 0; part < parts; ++part) {
      const T value = values[n + part];
      nan = nan || std::isnan(value);
      inf = inf || std::isinf(value);
      if (!std::isfinite(value)) continue;
      low = finite == 0 ? value : std::min(low, value);
      high = finite == 0 ? value : std::max(high, value);
      ++finite;
    }
    if (nan && found->nan++ == 0) found->first_nan = index_of(n / parts);
    if (inf && found->inf++ == 0) found->first_inf = index_of(n / parts);
  }
  if (finite == 0) return;
  found->has_range = true;
  found->minimum = Number::of(static_cast<double>(low) + 0.0);  // of zeros always the same one
  found->maximum = Number::of(static_cast<double>(high) + 0.0);
  if (!with_moments) return;
  const auto next = [&values] {
    while (!std::isfinite(*values)) ++values;
    return static_cast<double>(*values++);
  };
  put_moments(finite, next, found);
}

template <class T>
void Shown::measure(bool with_moments, Statistics* found) const {
  using Wide = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>;
  const T* values = flat<T>();
  const auto [low, high] = std::minmax_element(values, values + count_);
  found->has_range = true;
  found->minimum = Number::of(static_cast<Wide>(*low));
  found->maximum = Number::of(static_cast<Wide>(*high));
  if (!with_moments) return;
  const auto next = [&values] { return static_cast<double>(static_cast<Wide>(*values++)); };
  put_moments(count_, next, found);
}

}  // namespace wir::runtime
