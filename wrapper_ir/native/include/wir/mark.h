// Ranges for calls and allocations in PyTorch's profiler.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

// A named profiler range that lasts to the end of the scope.
class Mark {
 public:
  explicit Mark(const char* name) {
    if (aoti_record_function_start(name, nullptr, nullptr, 0, &range_) != AOTI_TORCH_SUCCESS) {
      range_ = nullptr;
    }
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() {
    if (range_ != nullptr) {
      aoti_record_function_end(range_);
    }
  }

 private:
  AtenRecordFunctionHandle range_ = nullptr;
};

// Calls a function within a profiler range of this name, and returns its result.
template <typename Make>
auto marked(const char* name, Make make) {
  const Mark mark(name);
  return make();
}

}  // namespace wir
