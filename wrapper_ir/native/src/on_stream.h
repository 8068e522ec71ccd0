// A guard that makes a GPU stream the calling thread's current one.
#pragma once

#include <cstdint>

#include <wir/error.h>

// Makes a stream current. Returns null if it already was, else the argument for wir_gpu_leave.
// Defined in src/gpu.cpp, which is linked if a program runs on a GPU.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void* wir_gpu_enter(std::int32_t gpu,
                                                                        void* stream);
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void wir_gpu_leave(void* entered);

namespace wir::runtime {

// Refuses streams that callers name, on third-party devices.
[[gnu::noinline]] inline void check_streams() {
  if (wir_gpu_enter != nullptr) return;
  throw Error("WIR2163", "calls run on the device's current stream, and on none that is named",
              "give no stream, and make that one the current one which the calls are to run on");
}

// Makes a stream current while it exists. Does nothing without a device (-1) or without a stream.
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
