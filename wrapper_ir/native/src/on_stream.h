// A stream of a GPU as the current one of the calling thread.
#pragma once

#include <cstdint>

// Of src/gpu.cpp, which is linked where a program runs on a GPU: makes a stream the current one.
// Returns null if it was, else what ends that.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void* wir_gpu_enter(std::int32_t gpu,
                                                                        void* stream);
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void wir_gpu_leave(void* entered);

namespace wir::runtime {

// As long as it lives. Does nothing without a GPU, or without a stream.
class OnStream {
 public:
  OnStream(std::int32_t gpu, void* stream)
      : entered_(gpu >= 0 && stream != nullptr ? wir_gpu_enter(gpu, stream) : nullptr) {}
  ~OnStream() {
    if (entered_ != nullptr) wir_gpu_leave(entered_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  void* entered_;
};

}  // namespace wir::runtime
