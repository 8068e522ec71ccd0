#include "probe_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include <ATen/ops/view_as_real_ops.h>  // view_as_real.h takes three seconds more to compile

namespace wir::runtime {
namespace {

constexpr std::int64_t kPiece = 1 << 16;  // elements; in float64 they fit in a core's own cache

struct Type {
  at::ScalarType dtype;
  const char* name;
  at::ScalarType wide;  // holds all its values, and PyTorch can compute in it; or undefined
};

constexpr Type same(at::ScalarType dtype, const char* name) { return {dtype, name, dtype}; }

constexpr Type kTypes[] = {
    same(at::kDouble, "f64"),
    same(at::kFloat, "f32"),
    same(at::kHalf, "f16"),
    same(at::kBFloat16, "bf16"),
    {at::kFloat8_e4m3fn, "f8e4m3fn", at::kFloat},
    {at::kFloat8_e4m3fnuz, "f8e4m3fnuz", at::kFloat},
    {at::kFloat8_e5m2, "f8e5m2", at::kFloat},
    {at::kFloat8_e5m2fnuz, "f8e5m2fnuz", at::kFloat},
    {at::kFloat8_e8m0fnu, "f8e8m0fnu", at::kFloat},
    {at::kFloat4_e2m1fn_x2, "f4e2m1fnx2", at::ScalarType::Undefined},
    {at::kComplexHalf, "c32", at::kComplexFloat},
    same(at::kComplexFloat, "c64"),
    same(at::kComplexDouble, "c128"),
    same(at::kLong, "i64"),
    same(at::kInt, "i32"),
    same(at::kShort, "i16"),
    same(at::kChar, "i8"),
    same(at::kUInt64, "u64"),
    {at::kUInt32, "u32", at::kLong},
    {at::kUInt16, "u16", at::kLong},
    same(at::kByte, "u8"),
    same(at::kBool, "bool"),
};

const Type* type_of(const at::Tensor& tensor) {
  for (const Type& type : kTypes) {
    if (type.dtype == tensor.scalar_type()) return &type;
  }
  return nullptr;
}

std::pair<at::Scalar, at::Scalar> limits(const at::Tensor& values) {
  const auto [low, high] = values.aminmax();
  return {low.item(), high.item()};
}

// The index of the first true element.
Index first(const at::Tensor& mask) {
  Index index(static_cast<std::size_t>(mask.dim()));
  auto flat = mask.reshape(-1).to(at::kByte).argmax().item<std::int64_t>();
  for (std::int64_t n = mask.dim(); n-- > 0; flat /= mask.size(n)) {
    index[static_cast<std::size_t>(n)] = flat % mask.size(n);
  }
  return index;
}

Statistics not_finite(const at::Tensor& nan, const at::Tensor& inf) {
  Statistics found;
  found.nan = nan.sum().item<std::int64_t>();
  found.inf = inf.sum().item<std::int64_t>();
  if (found.nan != 0) found.first_nan = first(nan);
  if (found.inf != 0) found.first_inf = first(inf);
  return found;
}

void put_range(const std::pair<at::Scalar, at::Scalar>& range, Statistics* found) {
  const auto exact = [](const at::Scalar& value) -> at::Scalar {
    if (value.isFloatingPoint()) return value.toDouble() + 0.0;  // turns -0.0 into 0.0
    return value.isBoolean() ? at::Scalar(value.toLong()) : value;
  };
  found->minimum = exact(range.first);
  found->maximum = exact(range.second);
}

// All statistics but the moments, and the values to compute the moments from.
std::pair<Statistics, at::Tensor> extremes(const at::Tensor& values) {
  Statistics found;
  if (values.is_complex()) {
    auto [parts, finite] = extremes(at::_ops::view_as_real::call(values));
    if (parts.nan + parts.inf == 0) return {parts, finite};
    found = not_finite(values.isnan(), values.isinf());
    found.minimum = parts.minimum;
    found.maximum = parts.maximum;
    return {found, finite};
  }
  if (values.scalar_type() == at::kUInt64) {
    // PyTorch cannot order uint64. With the top bit flipped, int64 has the same order.
    const auto [low, high] = limits(values.view(at::kLong).bitwise_xor(INT64_MIN));
    const auto back = [](const at::Scalar& value) {
      return at::Scalar(static_cast<std::uint64_t>(value.toLong()) ^ std::uint64_t{1} << 63);
    };
    put_range({back(low), back(high)}, &found);
    return {found, values};
  }
  const auto range = limits(values);
  const bool is_finite = !values.is_floating_point() || (std::isfinite(range.first.toDouble()) &&
                                                         std::isfinite(range.second.toDouble()));
  if (is_finite) {
    put_range(range, &found);
    return {found, values};
  }
  const at::Tensor nan = values.isnan(), inf = values.isinf();
  found = not_finite(nan, inf);
  const at::Tensor finite = values.masked_select(nan.logical_or(inf).logical_not());
  if (finite.numel() != 0) put_range(limits(finite), &found);
  return {found, finite};
}

// Mean and standard deviation, combined from those of the pieces (Chan, Golub and LeVeque).
void put_moments(const at::Tensor& values, Statistics* found) {
  const at::Tensor flat = values.reshape(-1);
  const std::int64_t total = flat.numel();
  if (total == 0) return;
  const at::Tensor buffer = flat.new_empty({std::min(total, kPiece)}, at::kDouble);
  std::int64_t count = 0;
  double mean = 0, squares = 0;
  for (std::int64_t start = 0; start < total; start += kPiece) {
    const std::int64_t size = std::min(kPiece, total - start);
    const at::Tensor wide = buffer.narrow(0, 0, size).copy_(flat.narrow(0, start, size));
    const auto own = wide.mean().item<double>();
    const double own_squares =
        size > 1 ? wide.var().item<double>() * static_cast<double>(size - 1) : 0;
    const double apart = own - mean;
    const auto together = static_cast<double>(count + size);
    squares += own_squares + apart * apart * (static_cast<double>(count * size) / together);
    mean = count == 0 ? own : mean + apart * (static_cast<double>(size) / together);
    count += size;
  }
  found->mean = mean;
  if (total > 1) found->std = std::sqrt(squares / static_cast<double>(total - 1));
}

// The elements on the CPU, with conjugate and negative views resolved.
at::Tensor resolved(const at::Tensor& tensor) {
  return tensor.cpu().resolve_conj().resolve_neg();
}

constexpr std::array<std::uint32_t, 256> kCrcs = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t value = n;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
    table[n] = value;
  }
  return table;
}();

}  // namespace

const char* short_dtype(const at::Tensor& tensor) {
  const Type* type = type_of(tensor);
  return type == nullptr ? nullptr : type->name;
}

at::Tensor readable(const at::Tensor& tensor) {
  const Type* type = type_of(tensor);
  const bool is_stored = tensor.layout() == at::kStrided && !tensor.is_meta();
  if (!is_stored || type == nullptr || type->wide == at::ScalarType::Undefined) return {};
  return resolved(tensor).to(type->wide);
}

Statistics statistics_of(const at::Tensor& values, bool with_moments) {
  if (!values.defined() || values.numel() == 0) return {};
  auto [found, finite] = extremes(values);
  if (with_moments) put_moments(finite, &found);
  return found;
}

std::string checksum(const at::Tensor& tensor) {
  const at::Tensor flat = resolved(tensor).contiguous();
  const auto* bytes = static_cast<const std::uint8_t*>(flat.const_data_ptr());
  const std::size_t size = flat.nbytes();
  std::uint32_t value = ~std::uint32_t{0};
  for (std::size_t n = 0; n < size; ++n) value = value >> 8 ^ kCrcs[(value ^ bytes[n]) & 255];
  char text[16];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(~value));
  return text;
}

at::Tensor private_copy(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat4_e2m1fn_x2) {  // PyTorch cannot copy these
    return private_copy(tensor.view(at::kByte)).view(tensor.scalar_type());
  }
  const at::Tensor source = tensor.cpu();
  std::int64_t last = 0;
  for (std::int64_t n = 0; n < source.dim(); ++n) {
    if (source.stride(n) == 0 && source.size(n) > 1) {
      return source.clone(at::MemoryFormat::Contiguous).resolve_conj().resolve_neg();
    }
    last += (source.size(n) - 1) * source.stride(n);
  }
  const std::int64_t extent = source.numel() == 0 ? 0 : last + 1;
  return source.new_zeros({extent * source.element_size()}, at::kByte)
      .view(source.scalar_type())
      .as_strided(source.sizes(), source.strides())
      .copy_(source);
}

}  // namespace wir::runtime
