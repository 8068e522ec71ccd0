#include "probe_words.h"

#include <charconv>
#include <cmath>

#include <wir/dtype.h>
#include <wir/layout.h>

namespace wir::runtime {
namespace {

constexpr std::int64_t kAll = 24;  // tensors of more elements are shown by the ends of dimensions
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

// Like printf's %.*g, whatever the locale.
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

bool is_wide(std::int32_t dtype) { return dtype == dtype::float64 || dtype == dtype::complex128; }

// The shortest decimal that rounds to the value; to float32 for types that fit in it.
std::string shortest(double value, std::int32_t dtype) {
  std::string text;
  for (int digits = kDigits; digits < 18; ++digits) {
    text = rounded(value, digits);
    const double found = read_back(text);
    if ((is_wide(dtype) ? found : static_cast<double>(static_cast<float>(found))) == value) break;
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

std::string truth(const Number& number) { return number.integer != 0 ? "true" : "false"; }

std::string exact(const Number& number, std::int32_t dtype) {
  if (dtype == dtype::bool_) return truth(number);
  return number.kind == Number::Kind::kReal ? shortest(number.real, dtype) : brief(number);
}

std::string statistics_words(const Statistics& found, std::int32_t dtype) {
  std::string text;
  if (found.has_range) {
    text += " min=" + exact(found.minimum, dtype) + " max=" + exact(found.maximum, dtype);
  }
  if (found.has_mean) text += " mean=" + real_words(found.mean);
  if (found.has_std) text += " std=" + real_words(found.std);
  if (found.nan != 0) {
    text += " nan=" + std::to_string(found.nan) + " first=" + index_words(found.first_nan);
  }
  if (found.inf != 0) {
    text += " inf=" + std::to_string(found.inf) + " first=" + index_words(found.first_inf);
  }
  return text;
}

// The values as nested lists. Of large tensors three values from each end of the last two
// dimensions, of the one before them one, of any further one the first alone.
std::string listed(const Shown& tensor, std::size_t depth, std::int64_t first, std::int64_t step) {
  const Index& size = tensor.size();
  if (depth == size.size()) {
    const Number number = tensor.element(first);
    return tensor.dtype() == dtype::bool_ ? truth(number) : brief(number);
  }
  const std::size_t left = size.size() - depth;
  std::int64_t head = left <= 2 ? kEdge : 1;
  std::int64_t tail = left > 3 ? 0 : head;
  if (tensor.count() <= kAll || size[depth] <= head + tail) {
    head = size[depth];
    tail = 0;
  }
  step /= size[depth];
  std::string text = "[";
  for (std::int64_t n = 0; n < size[depth]; ++n) {
    if (n != 0) text += ", ";
    if (n == head) {
      text += "...";
      n = size[depth] - tail;
      if (tail == 0) break;
      text += ", ";
    }
    text += listed(tensor, depth + 1, first + n * step, step);
  }
  return text + "]";
}

}  // namespace

std::string index_words(const Index& index, bool as_tuple) {
  return "(" + joined(index) + (as_tuple && index.size() == 1 ? ",)" : ")");
}

std::string layout_words(const Shown& tensor) {
  const char* name = tensor.short_dtype();
  std::string text = name != nullptr ? name : dtype_name(tensor.dtype());
  text += "[" + joined(tensor.size()) + "]";
  if (tensor.layout() != 0) return text + " " + layout_name(tensor.layout());
  if (!tensor.is_contiguous()) text += " stride=[" + joined(tensor.stride()) + "]";
  if (const std::string device = tensor.device(); device != "cpu") text += " @" + device;
  return text;
}

std::string described(const char* name, AtenTensorHandle handle) {
  Shown tensor(handle);
  std::string text = std::string(name) + ": " + layout_words(tensor);
  if (!tensor.is_readable() || tensor.count() == 0) return text;
  try {
    tensor.read();
    return text + statistics_words(tensor.statistics(), tensor.dtype()) + " " +
           listed(tensor, 0, 0, tensor.count());
  } catch (const std::exception& error) {
    const std::string words = error.what();
    return text + " cannot be shown: " + words.substr(0, words.find('\n'));
  }
}

std::string range_words(const char* name, AtenTensorHandle handle) {
  Shown tensor(handle);
  std::string text = std::string(name) + " " + layout_words(tensor);
  if (!tensor.is_readable()) return text;
  tensor.read();
  const Statistics found = tensor.statistics(false);
  if (found.has_range) {
    text += " in [" + exact(found.minimum, tensor.dtype()) + ", " +
            exact(found.maximum, tensor.dtype()) + "]";
  }
  if (found.nan != 0) text += " with " + std::to_string(found.nan) + " NaN";
  if (found.inf != 0) text += " with " + std::to_string(found.inf) + " inf";
  return text;
}

std::string brief(const Number& number) {
  switch (number.kind) {
    case Number::Kind::kInteger: return std::to_string(number.integer);
    case Number::Kind::kUnsigned:
      return std::to_string(static_cast<std::uint64_t>(number.integer));
    case Number::Kind::kReal: return real_words(number.real);
    case Number::Kind::kComplex: break;
  }
  return real_words(number.real) + (std::signbit(number.imag) ? "-" : "+") +
         real_words(std::fabs(number.imag)) + "i";
}

std::string repr(double value) {
  if (!std::isfinite(value)) return not_finite(value);
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
  const std::string found(text, end.ptr);
  const std::size_t mark = found.find('e');
  const int exponent = std::stoi(found.substr(mark + 1));
  if (exponent < -4 || exponent >= 16) return found;
  // The same digits, written out.
  std::string digits;
  for (const char c : found.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const std::string sign = found[0] == '-' ? "-" : "";
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) digits.append(whole + 1 - digits.size(), '0');
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr(double real, double imag) {
  const auto part = [](double value) {
    std::string text = repr(value);
    if (text.size() > 2 && text.compare(text.size() - 2, 2, ".0") == 0) text.resize(text.size() - 2);
    return text;
  };
  if (real == 0 && !std::signbit(real)) return part(imag) + "j";
  const bool signed_already = std::signbit(imag) && !std::isnan(imag);
  return "(" + part(real) + (signed_already ? "" : "+") + part(imag) + "j)";
}

std::string quoted(const std::string& text) {
  std::string made = "\"";
  const auto unit = [&made](unsigned value) {
    static constexpr char kHex[] = "0123456789abcdef";
    made += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) made += kHex[value >> shift & 15];
  };
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[n]);
    if (byte == '"' || byte == '\\') {
      made += {'\\', static_cast<char>(byte)};
    } else if (byte == '\n' || byte == '\r' || byte == '\t' || byte == '\b' || byte == '\f') {
      made += '\\';
      made += byte == '\n' ? 'n' : byte == '\r' ? 'r' : byte == '\t' ? 't' : byte == '\b' ? 'b' : 'f';
    } else if (byte < 32 || byte == 127) {
      unit(byte);
    } else if (byte < 0x80) {
      made += static_cast<char>(byte);
    } else {
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      unsigned point = byte & (0x3f >> more);
      for (int left = more; left > 0 && n + 1 < text.size(); --left) {
        point = point << 6 | (static_cast<unsigned char>(text[++n]) & 0x3f);
      }
      if (point >= 0x10000) {
        unit(0xd800 + ((point - 0x10000) >> 10));
        unit(0xdc00 + ((point - 0x10000) & 0x3ff));
      } else {
        unit(point);
      }
    }
  }
  return made + "\"";
}

}  // namespace wir::runtime
