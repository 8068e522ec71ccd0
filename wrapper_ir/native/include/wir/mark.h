// Calls and allocations as PyTorch's profiler shows them.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

// Shows a range of its name from where it is made to the end of the block.
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

// Returns what a function returns, and shows a range of this name while it runs.
template <typename Make>
auto marked(const char* name, Make make) {
  const Mark mark(name);
  return make();
}

}  // namespace wir
