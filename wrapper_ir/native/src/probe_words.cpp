#include "probe_words.h"

#include <charconv>
#include <cmath>

#include <wir/dtype.h>
#include <wir/layout.h>

#include "text.h"

namespace wir::runtime {
namespace {

constexpr std::int64_t kAll = 24;  // elements; larger tensors show only the ends of dimensions
constexpr std::int64_t kEdge = 3;
constexpr int kDigits = 6;

template <class T>
std::string joined(const T& values) {
  std::string text;
  for (const std::int64_t value : values) {
    if (!text.empty()) text += ", ";
    text += std::to_string(value);
  }
  return text;
}

// Like printf's %.*g, but independent of the locale.
std::string rounded(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general,
                                 digits);
  return {text, end.ptr};
}

double read_back(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The shortest decimal that rounds to the value; to float32 for types that fit in it.
std::string shortest(double value, at::ScalarType dtype) {
  const bool is_wide = dtype == at::kDouble || dtype == at::kComplexDouble;
  std::string text;
  for (int digits = kDigits; digits < 18; ++digits) {
    text = rounded(value, digits);
    const double found = read_back(text);
    if ((is_wide ? found : static_cast<double>(static_cast<float>(found))) == value) break;
  }
  return text;
}

std::string not_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

std::string real_words(double value) {
  return std::isfinite(value) ? rounded(value, kDigits) : not_finite(value);
}

std::string exact(const at::Scalar& number, at::ScalarType dtype) {
  if (dtype == at::kBool) return brief(number.toBool());
  return number.isFloatingPoint() ? shortest(number.toDouble(), dtype) : brief(number);
}

std::string statistics_words(const Statistics& found, at::ScalarType dtype) {
  std::string text;
  if (found.minimum) {
    text += " min=" + exact(*found.minimum, dtype) + " max=" + exact(*found.maximum, dtype);
  }
  if (found.mean) text += " mean=" + real_words(*found.mean);
  if (found.std) text += " std=" + real_words(*found.std);
  if (found.nan != 0) {
    text += " nan=" + std::to_string(found.nan) + " first=" + index_words(found.first_nan);
  }
  if (found.inf != 0) {
    text += " inf=" + std::to_string(found.inf) + " first=" + index_words(found.first_inf);
  }
  return text;
}

// The values as nested lists. Large tensors show three values from each end of the last two
// dimensions, one from each end of the dimension before them, and the first one of any other.
std::string listed(const at::Tensor& values, bool shorten) {
  if (values.dim() == 0) return brief(values.item());
  const std::int64_t size = values.size(0);
  std::int64_t head = values.dim() <= 2 ? kEdge : 1;
  std::int64_t tail = values.dim() > 3 ? 0 : head;
  if (!shorten || size <= head + tail) {
    head = size;
    tail = 0;
  }
  std::string text = "[";
  for (std::int64_t n = 0; n < size; ++n) {
    if (n != 0) text += ", ";
    if (n == head) {
      text += "...";
      n = size - tail;
      if (tail == 0) break;
      text += ", ";
    }
    text += listed(values.select(0, n), shorten);
  }
  return text + "]";
}

}  // namespace

std::string index_words(const Index& index, bool as_tuple) {
  return "(" + joined(index) + (as_tuple && index.size() == 1 ? ",)" : ")");
}

std::string layout_words(const at::Tensor& tensor) {
  const char* name = short_dtype(tensor);
  if (name == nullptr) name = dtype_name(static_cast<std::int32_t>(tensor.scalar_type()));
  std::string text = name;
  text += "[" + joined(tensor.sizes()) + "]";
  if (tensor.layout() != at::kStrided) {
    return text + " " + layout_name(static_cast<std::int32_t>(tensor.layout()));
  }
  if (!tensor.is_contiguous()) text += " stride=[" + joined(tensor.strides()) + "]";
  if (!tensor.is_cpu()) text += " @" + tensor.device().str();
  return text;
}

std::string described(const char* name, const at::Tensor& tensor) {
  std::string text = std::string(name) + ": " + layout_words(tensor);
  try {
    const at::Tensor values = readable(tensor);
    if (!values.defined() || values.numel() == 0) return text;
    return text + statistics_words(statistics_of(values), tensor.scalar_type()) + " " +
           listed(values, values.numel() > kAll);
  } catch (const std::exception& error) {
    return text + " cannot be shown: " + first_line(error.what());
  }
}

std::string range_words(const char* name, const at::Tensor& tensor) {
  std::string text = std::string(name) + " " + layout_words(tensor);
  const Statistics found = statistics_of(readable(tensor), false);
  if (found.minimum) {
    text += " in [" + exact(*found.minimum, tensor.scalar_type()) + ", " +
            exact(*found.maximum, tensor.scalar_type()) + "]";
  }
  if (found.nan != 0) text += " with " + std::to_string(found.nan) + " NaN";
  if (found.inf != 0) text += " with " + std::to_string(found.inf) + " inf";
  return text;
}

std::string brief(const at::Scalar& number) {
  if (number.isBoolean()) return number.toBool() ? "true" : "false";
  if (number.isFloatingPoint()) return real_words(number.toDouble());
  if (number.isComplex()) {
    const auto value = number.toComplexDouble();
    return real_words(value.real()) + (std::signbit(value.imag()) ? "-" : "+") +
           real_words(std::fabs(value.imag())) + "i";
  }
  return number.type() == at::kUInt64 ? std::to_string(number.toUInt64())
                                      : std::to_string(number.toLong());
}

std::string repr(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  const double size = std::fabs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string found(text, end.ptr);
  return is_plain && found.find('.') == std::string::npos ? found + ".0" : found;
}

std::string repr(c10::complex<double> value) {
  const double real = value.real(), imag = value.imag();
  const auto part = [](double value) {
    std::string text = repr(value);
    if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
    return text;
  };
  if (real == 0 && !std::signbit(real)) return part(imag) + "j";
  const bool signed_already = std::signbit(imag) && !std::isnan(imag);
  return "(" + part(real) + (signed_already ? "" : "+") + part(imag) + "j)";
}

}  // namespace wir::runtime
