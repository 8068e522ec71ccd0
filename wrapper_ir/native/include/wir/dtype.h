// PyTorch's numbers for element types and device types, which are part of its stable interface.
#pragma once

#include <cstdint>
#include <string>

// From libc10: a vendor's name for the device type `privateuseone`.
namespace c10 {
[[gnu::weak]] std::string get_privateuse1_backend(bool lower_case);
}

namespace wir {

// The element types, with PyTorch's names and numbers.
#define WIR_DTYPES(OF)                                                                     \
  OF(uint8, "uint8", 0)                                                                    \
  OF(int8, "int8", 1)                                                                      \
  OF(int16, "int16", 2)                                                                    \
  OF(int32, "int32", 3)                                                                    \
  OF(int64, "int64", 4)                                                                    \
  OF(float16, "float16", 5)                                                                \
  OF(float32, "float32", 6)                                                                \
  OF(float64, "float64", 7)                                                                \
  OF(complex32, "complex32", 8)                                                            \
  OF(complex64, "complex64", 9)                                                            \
  OF(complex128, "complex128", 10)                                                         \
  OF(bool_, "bool", 11)                                                                    \
  OF(qint8, "qint8", 12)                                                                   \
  OF(quint8, "quint8", 13)                                                                 \
  OF(qint32, "qint32", 14)                                                                 \
  OF(bfloat16, "bfloat16", 15)                                                             \
  OF(float8_e5m2, "float8_e5m2", 23)                                                       \
  OF(float8_e4m3fn, "float8_e4m3fn", 24)                                                   \
  OF(float8_e5m2fnuz, "float8_e5m2fnuz", 25)                                               \
  OF(float8_e4m3fnuz, "float8_e4m3fnuz", 26)                                               \
  OF(uint16, "uint16", 27)                                                                 \
  OF(uint32, "uint32", 28)                                                                 \
  OF(uint64, "uint64", 29)                                                                 \
  OF(float8_e8m0fnu, "float8_e8m0fnu", 44)                                                 \
  OF(float4_e2m1fn_x2, "float4_e2m1fn_x2", 45)

namespace dtype {
#define WIR_NUMBERED(member, name, number) member = number,
enum : std::int32_t { WIR_DTYPES(WIR_NUMBERED) };
#undef WIR_NUMBERED

inline bool is_complex(std::int32_t dtype) {
  return dtype == complex32 || dtype == complex64 || dtype == complex128;
}
}  // namespace dtype

// The device types, with PyTorch's names and numbers.
#define WIR_DEVICES(OF)                                                                    \
  OF(cpu, 0) OF(cuda, 1) OF(hip, 6) OF(xla, 9) OF(xpu, 12) OF(mps, 13) OF(meta, 14)        \
  OF(hpu, 15) OF(mtia, 19) OF(privateuseone, 20)

namespace device {
#define WIR_NUMBERED(name, number) name = number,
enum : std::int32_t { any = -1, WIR_DEVICES(WIR_NUMBERED) };
#undef WIR_NUMBERED
}  // namespace device

inline const char* dtype_name(std::int32_t dtype) {
  switch (dtype) {
#define WIR_NAMED(member, name, number) \
  case dtype::member: return name;
    WIR_DTYPES(WIR_NAMED)
#undef WIR_NAMED
    default: return "unknown";
  }
}

[[gnu::cold, gnu::noinline]] inline const char* device_name(std::int32_t type) {
  if (type == device::privateuseone && c10::get_privateuse1_backend != nullptr) {
    static const std::string own = c10::get_privateuse1_backend(true);
    return own.c_str();
  }
  switch (type) {
    case device::any: return "any device";
#define WIR_NAMED(name, number) \
  case device::name: return #name;
    WIR_DEVICES(WIR_NAMED)
#undef WIR_NAMED
    default: return "unknown";
  }
}

}  // namespace wir
