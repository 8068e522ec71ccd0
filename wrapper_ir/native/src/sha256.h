// SHA-256 (FIPS 180-4), to check a file of constants against the digest in its library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace wir::runtime {

// The digest in hexadecimal digits.
std::string sha256(const std::uint8_t* data, std::size_t size);

}  // namespace wir::runtime
