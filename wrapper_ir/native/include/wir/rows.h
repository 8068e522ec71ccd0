// Rows of a small matrix that are all the same.
#pragma once

#include <cstdint>
#include <cstring>

namespace wir {

// Copies a row of so many bytes to each of the contiguous rows of a matrix.
inline void fill_rows(void* matrix, const void* row, std::int64_t rows, std::int64_t bytes) {
  auto* to = static_cast<char*>(matrix);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(to + i * bytes, row, static_cast<std::size_t>(bytes));
  }
}

}  // namespace wir
