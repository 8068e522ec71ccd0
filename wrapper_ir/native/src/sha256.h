// SHA-256 (FIPS 180-4), for comparing a file of constants with the digest its library knows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace wir::runtime {

// In hexadecimal digits.
std::string sha256(const std::uint8_t* data, std::size_t size);

}  // namespace wir::runtime
