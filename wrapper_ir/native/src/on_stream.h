// A stream of a GPU as the current one of the calling thread.
#pragma once

#include <cstdint>

#include <wir/error.h>

// Of src/gpu.cpp, which is linked where a program runs on a GPU: makes a stream the current one.
// Returns null if it was, else what ends that.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void* wir_gpu_enter(std::int32_t gpu,
                                                                        void* stream);
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void wir_gpu_leave(void* entered);

namespace wir::runtime {

// Refuses streams that callers name, on devices of others.
[[gnu::noinline]] inline void check_streams() {
  if (wir_gpu_enter != nullptr) return;
  throw Error("WIR2163", "calls run on the device's current stream, and on none that is named",
              "give no stream, and make that one the current one which the calls are to run on");
}

// As long as it lives. Does nothing without a device (-1), or without a stream.
class OnStream {
 public:
  OnStream(std::int32_t device, void* stream) {
    if (device < 0 || stream == nullptr) return;
    check_streams();
    entered_ = wir_gpu_enter(device, stream);
  }
  ~OnStream() {
    if (entered_ != nullptr) wir_gpu_leave(entered_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  void* entered_ = nullptr;
};

}  // namespace wir::runtime
