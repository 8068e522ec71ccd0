// Conversion of numbers to the tensors that callers receive.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/program.h>

#include "failure.h"

namespace wir::runtime {

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_result(const OutputSpec& output,
                                                                 const std::string& value) {
  throw Error("WIR2153", "result '" + std::string(output.name) + "' is " + value +
                             ", which does not fit its type, " + dtype_name(output.dtype),
              "read the number from a tensor of a wider type");
}

// A number in the type of its result. Throws if it does not fit.
template <class T>
T number_as(const OutputSpec& output, const Slot& slot) {
  if (output.kind == Kind::kReal) return static_cast<T>(slot.real);
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(slot.integer);
  const T value = static_cast<T>(slot.integer);
  const bool fits = static_cast<std::int64_t>(value) == slot.integer &&
                    (std::is_signed_v<T> || slot.integer >= 0);
  if (!fits) refuse_result(output, std::to_string(slot.integer));
  return value;
}

inline std::int32_t type_of(const OutputSpec& output) {
  if (output.dtype >= 0) return output.dtype;
  if (output.kind == Kind::kReal) return dtype::float64;
  return output.kind == Kind::kBool ? dtype::bool_ : dtype::int64;
}

// A new tensor that holds one number.
inline AtenTensorHandle tensor_of(const OutputSpec& output, const Slot& slot) {
  AtenTensorHandle made = nullptr;
#define WIR_NUMBER(name, member, type)                                                      \
  case dtype::member:                                                                       \
    check(aoti_torch_scalar_to_tensor_##name(number_as<type>(output, slot), &made));        \
    break
  switch (type_of(output)) {
    WIR_NUMBER(float32, float32, float);
    WIR_NUMBER(float64, float64, double);
    WIR_NUMBER(uint8, uint8, std::uint8_t);
    WIR_NUMBER(uint16, uint16, std::uint16_t);
    WIR_NUMBER(uint32, uint32, std::uint32_t);
    WIR_NUMBER(uint64, uint64, std::uint64_t);
    WIR_NUMBER(int8, int8, std::int8_t);
    WIR_NUMBER(int16, int16, std::int16_t);
    WIR_NUMBER(int32, int32, std::int32_t);
    WIR_NUMBER(int64, int64, std::int64_t);
    WIR_NUMBER(bool, bool_, bool);
    default:
      throw Error("WIR2163", "a number cannot be a tensor of " + std::string(dtype_name(output.dtype)));
  }
#undef WIR_NUMBER
  return made;
}

// The handle that a caller receives for a result.
inline AtenTensorHandle packed(const OutputSpec& output, const Slot& slot) {
  if (output.kind == Kind::kTensor) return slot.tensor;
  const bool is_nothing = output.kind == Kind::kNone || output.kind == Kind::kObject;
  return is_nothing ? nullptr : tensor_of(output, slot);
}

}  // namespace wir::runtime
