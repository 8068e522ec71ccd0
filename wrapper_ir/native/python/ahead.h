// Objects that a loop will look at soon, asked for ahead: since the last call others have pushed them
// out of the processor's caches, and one after the other they would take longer than what is done
// with them.
#pragma once

#include <cstddef>
#include <initializer_list>

#include <c10/core/TensorImpl.h>

namespace wir_py {

// So many objects ahead.
inline constexpr std::size_t kAhead = 16;

inline void fetch(const void* object) { __builtin_prefetch(object); }

// All of torch's object for a tensor, which takes three or four lines of a cache.
inline void fetch_all(const c10::TensorImpl& impl) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{64}, std::size_t{128},
                               sizeof(c10::TensorImpl) - 1}) {
    fetch(reinterpret_cast<const char*>(&impl) + at);
  }
}

}  // namespace wir_py
