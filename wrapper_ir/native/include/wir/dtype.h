// PyTorch's numbers of element types and devices, which are part of its stable interface.
#pragma once

#include <cstdint>

namespace wir {

namespace dtype {
enum : std::int32_t {
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  complex32 = 8,
  complex64 = 9,
  complex128 = 10,
  bool_ = 11,
  qint8 = 12,
  quint8 = 13,
  qint32 = 14,
  bfloat16 = 15,
  float8_e5m2 = 23,
  float8_e4m3fn = 24,
  float8_e5m2fnuz = 25,
  float8_e4m3fnuz = 26,
  uint16 = 27,
  uint32 = 28,
  uint64 = 29,
  float8_e8m0fnu = 44,
  float4_e2m1fn_x2 = 45,
};
}  // namespace dtype

namespace device {
enum : std::int32_t { any = -1, cpu = 0, cuda = 1 };
}  // namespace device

inline const char* dtype_name(std::int32_t dtype) {
  switch (dtype) {
    case dtype::uint8: return "uint8";
    case dtype::int8: return "int8";
    case dtype::int16: return "int16";
    case dtype::int32: return "int32";
    case dtype::int64: return "int64";
    case dtype::float16: return "float16";
    case dtype::float32: return "float32";
    case dtype::float64: return "float64";
    case dtype::complex32: return "complex32";
    case dtype::complex64: return "complex64";
    case dtype::complex128: return "complex128";
    case dtype::bool_: return "bool";
    case dtype::qint8: return "qint8";
    case dtype::quint8: return "quint8";
    case dtype::qint32: return "qint32";
    case dtype::bfloat16: return "bfloat16";
    case dtype::float8_e5m2: return "float8_e5m2";
    case dtype::float8_e4m3fn: return "float8_e4m3fn";
    case dtype::float8_e5m2fnuz: return "float8_e5m2fnuz";
    case dtype::float8_e4m3fnuz: return "float8_e4m3fnuz";
    case dtype::uint16: return "uint16";
    case dtype::uint32: return "uint32";
    case dtype::uint64: return "uint64";
    case dtype::float8_e8m0fnu: return "float8_e8m0fnu";
    case dtype::float4_e2m1fn_x2: return "float4_e2m1fn_x2";
    default: return "unknown";
  }
}

inline const char* device_name(std::int32_t type) {
  switch (type) {
    case device::any: return "any device";
    case device::cpu: return "cpu";
    case device::cuda: return "cuda";
    case 12: return "xpu";
    case 13: return "mps";
    case 14: return "meta";
    case 15: return "hpu";
    case 20: return "privateuseone";
    default: return "unknown";
  }
}

}  // namespace wir
