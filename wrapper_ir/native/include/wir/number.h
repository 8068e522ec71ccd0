// Python's arithmetic in machine types. A result that does not fit is an error, and so is one that
// Python leaves undefined. Nothing here wraps around.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

#include <wir/error.h>

namespace wir {

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_number(const char* why) {
  throw Error("WIR2161", "{problem}",
              {std::string("an expression of the program cannot be computed: ") + why},
              "give inputs of other sizes");
}

[[noreturn, gnu::cold, gnu::noinline]] inline void overflow() {
  refuse_number("a number is beyond 64 bits");
}

template <class T>
using if_integer = std::enable_if_t<std::is_integral_v<T>, int>;

// A 64-bit integer with checked arithmetic.
class Int {
 public:
  constexpr Int() = default;
  template <class T, if_integer<T> = 0>
  constexpr Int(T value) : value_(static_cast<std::int64_t>(value)) {}
  Int(double) = delete;  // would lose the fraction

  constexpr operator std::int64_t() const { return value_; }

  friend Int operator-(Int a) { return Int(0) - a; }
  friend Int operator+(Int a, Int b) {
    std::int64_t r = 0;
    if (__builtin_add_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }
  friend Int operator-(Int a, Int b) {
    std::int64_t r = 0;
    if (__builtin_sub_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }
  friend Int operator*(Int a, Int b) {
    std::int64_t r = 0;
    if (__builtin_mul_overflow(a.value_, b.value_, &r)) overflow();
    return r;
  }

 private:
  std::int64_t value_ = 0;
};

// Arithmetic with literals and, as in Python, with floats.
#define WIR_MIXED(OP)                                                                          \
  template <class T, if_integer<T> = 0>                                                        \
  Int operator OP(Int a, T b) { return a OP Int(b); }                                          \
  template <class T, if_integer<T> = 0>                                                        \
  Int operator OP(T a, Int b) { return Int(a) OP b; }                                          \
  inline double operator OP(Int a, double b) { return static_cast<double>(std::int64_t(a)) OP b; } \
  inline double operator OP(double a, Int b) { return a OP static_cast<double>(std::int64_t(b)); }
WIR_MIXED(+)
WIR_MIXED(-)
WIR_MIXED(*)
#undef WIR_MIXED

// Comparisons. An integer and a float are compared exactly: a long double can represent both.
#define WIR_COMPARED(OP)                                                                       \
  inline bool operator OP(Int a, Int b) { return std::int64_t(a) OP std::int64_t(b); }         \
  template <class T, if_integer<T> = 0>                                                        \
  bool operator OP(Int a, T b) { return std::int64_t(a) OP static_cast<std::int64_t>(b); }     \
  template <class T, if_integer<T> = 0>                                                        \
  bool operator OP(T a, Int b) { return static_cast<std::int64_t>(a) OP std::int64_t(b); }     \
  inline bool operator OP(Int a, double b) {                                                   \
    return static_cast<long double>(std::int64_t(a)) OP static_cast<long double>(b);           \
  }                                                                                            \
  inline bool operator OP(double a, Int b) {                                                   \
    return static_cast<long double>(a) OP static_cast<long double>(std::int64_t(b));           \
  }
WIR_COMPARED(==)
WIR_COMPARED(!=)
WIR_COMPARED(<)
WIR_COMPARED(<=)
WIR_COMPARED(>)
WIR_COMPARED(>=)
#undef WIR_COMPARED

inline double to_real(Int value) { return static_cast<double>(std::int64_t(value)); }
inline double to_real(double value) { return value; }

// Integer division, rounded down.
inline Int floor_div(Int a, Int b) {
  const std::int64_t n = a;
  const std::int64_t d = b;
  if (d == 0) refuse_number("it divides by zero");
  if (d == -1) return -a;
  return n / d - static_cast<std::int64_t>(n % d != 0 && (n % d < 0) != (d < 0));
}

inline Int ceil_div(Int a, Int b) {
  const std::int64_t n = a;
  const std::int64_t d = b;
  if (d == 0) refuse_number("it divides by zero");
  if (d == -1) return -a;
  return n / d + static_cast<std::int64_t>(n % d != 0 && (n % d < 0) == (d < 0));
}

// The remainder of floor_div, which has the sign of the divisor.
inline Int mod(Int a, Int b) {
  const std::int64_t n = a;
  const std::int64_t d = b;
  if (d == 0) refuse_number("it divides by zero");
  if (d == -1) return 0;
  const std::int64_t r = n % d;
  return r != 0 && (r < 0) != (d < 0) ? r + d : r;
}

inline Int abs(Int value) { return value < 0 ? -value : value; }
inline double abs(double value) { return std::fabs(value); }

inline Int pow(Int base, Int exponent) {
  if (exponent < 0) refuse_number("a power is not a natural number");
  Int result = 1;
  for (std::int64_t left = exponent; left != 0;) {
    if ((left & 1) != 0) result = result * base;
    left >>= 1;
    if (left != 0) base = base * base;
  }
  return result;
}

inline double float_pow(double base, double exponent) {
  if (base == 0 && exponent < 0 && std::isfinite(exponent)) refuse_number("it divides by zero");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent)) {
    refuse_number("a power of a negative number is not real");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    refuse_number("a power is too large");
  }
  return result;
}
inline double pow(double base, Int exponent) { return float_pow(base, to_real(exponent)); }

// The quotient of two integers, rounded once.
inline double true_div(Int a, Int b) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (b == 0) refuse_number("it divides by zero");
  const std::int64_t n = a;
  const std::int64_t d = b;
  if (-kExact <= n && n <= kExact && -kExact <= d && d <= kExact) {
    return static_cast<double>(n) / static_cast<double>(d);
  }
  // Compute a quotient of at least 63 bits, and set its last bit if there is a remainder. Rounding
  // it to 53 bits is then the only rounding.
  const bool negative = (n < 0) != (d < 0);
  const std::uint64_t top = n < 0 ? -static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  const std::uint64_t low = d < 0 ? -static_cast<std::uint64_t>(d) : static_cast<std::uint64_t>(d);
  if (top == 0) return negative ? -0.0 : 0.0;
  int shift = 63 + __builtin_clzll(top) - __builtin_clzll(low);
  if (shift < 0) shift = 0;
  const unsigned __int128 whole = static_cast<unsigned __int128>(top) << shift;
  std::uint64_t quotient = static_cast<std::uint64_t>(whole / low);
  if (whole % low != 0) quotient |= 1;
  const double result = std::ldexp(static_cast<double>(quotient), -shift);
  return negative ? -result : result;
}
inline double true_div(double a, double b) {
  if (b == 0) refuse_number("it divides by zero");
  return a / b;
}
inline double true_div(Int a, double b) { return true_div(to_real(a), b); }
inline double true_div(double a, Int b) { return true_div(a, to_real(b)); }

// Like Python's max and min: the first of equal numbers wins, and NaN is treated as in Python.
template <class T>
T max(T a) { return a; }
template <class T, class... Rest>
T max(T a, T b, Rest... rest) { return wir::max<T>(b > a ? b : a, T(rest)...); }
template <class T>
T min(T a) { return a; }
template <class T, class... Rest>
T min(T a, T b, Rest... rest) { return wir::min<T>(b < a ? b : a, T(rest)...); }

// Converts a real number, already rounded, to an integer.
inline Int to_integer(double value) {
  if (std::isnan(value)) refuse_number("a number is NaN");
  if (!(value >= -0x1p63 && value < 0x1p63)) overflow();
  return static_cast<std::int64_t>(value);
}
inline Int truncate(double value) { return to_integer(std::trunc(value)); }
inline Int floor(double value) { return to_integer(std::floor(value)); }
inline Int ceil(double value) { return to_integer(std::ceil(value)); }
inline Int round(double value) { return to_integer(std::nearbyint(value)); }
inline Int truncate(Int value) { return value; }
inline Int floor(Int value) { return value; }
inline Int ceil(Int value) { return value; }
inline Int round(Int value) { return value; }

inline Int bit_and(Int a, Int b) { return std::int64_t(a) & std::int64_t(b); }
inline Int bit_or(Int a, Int b) { return std::int64_t(a) | std::int64_t(b); }
inline Int bit_xor(Int a, Int b) { return std::int64_t(a) ^ std::int64_t(b); }

inline Int shift_left(Int a, Int by) {
  if (by < 0) refuse_number("it shifts by a negative number");
  if (a == 0) return 0;
  if (by > 63) overflow();
  const __int128 wide = static_cast<__int128>(std::int64_t(a)) * (__int128{1} << std::int64_t(by));
  if (wide < INT64_MIN || wide > INT64_MAX) overflow();
  return static_cast<std::int64_t>(wide);
}
inline Int shift_right(Int a, Int by) {
  if (by < 0) refuse_number("it shifts by a negative number");
  return std::int64_t(a) >> (by > 63 ? 63 : std::int64_t(by));
}

// Functions of real numbers. They throw where Python raises.
inline double defined(double result, double argument) {
  if (std::isnan(result) && !std::isnan(argument)) refuse_number("a function is not defined there");
  if (std::isinf(result) && std::isfinite(argument)) refuse_number("a result is too large");
  return result;
}
inline double sqrt(double x) { return defined(std::sqrt(x), x); }
inline double exp(double x) { return defined(std::exp(x), x); }
inline double log(double x) { return defined(std::log(x), x); }
inline double log2(double x) { return defined(std::log2(x), x); }
inline double sin(double x) { return defined(std::sin(x), x); }
inline double cos(double x) { return defined(std::cos(x), x); }
inline double tanh(double x) { return std::tanh(x); }

// Converts an integer to the narrower or unsigned type of a kernel's parameter.
template <class T>
T narrow(Int value) {
  const std::int64_t given = value;
  const T result = static_cast<T>(given);
  if (static_cast<std::int64_t>(result) != given || (std::is_unsigned_v<T> && given < 0)) {
    refuse_number("a number does not fit a kernel's parameter");
  }
  return result;
}

// Numbers as text, for messages.
inline std::string shown(Int value) { return std::to_string(std::int64_t(value)); }
inline std::string shown(bool value) { return value ? "True" : "False"; }
inline std::string shown(double value) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {  // the fewest that read back as the value
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  std::string result = text;
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

// Reports a symbol that is out of range; INT64_MIN and INT64_MAX stand for no bound. `what`
// describes what the symbol was bound to, and may be empty.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_range(const char* name, Int value,
                                                                std::int64_t low,
                                                                std::int64_t high,
                                                                const char* what) {
  std::string relation = low == INT64_MIN ? "" : std::to_string(low) + " <= ";
  relation += name;
  if (high != INT64_MAX) relation += " <= " + std::to_string(high);
  std::string values = std::string(name) + " is " + shown(value);
  if (*what != '\0') values += std::string(" (") + what + ")";
  refuse_relation(relation.c_str(), values);
}
inline void check_range(const char* name, Int value, std::int64_t low, std::int64_t high,
                        const char* what = "") {
  if (__builtin_expect(value < low || value > high, 0)) refuse_range(name, value, low, high, what);
}

}  // namespace wir
