// The CUDA driver. Libraries do not link against it, so they can be inspected where it is missing.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <wir/error.h>

namespace wir {

using CUresult = int;  // from cuda.h

// The functions in use: our name, the symbol and the parameters.
#define WIR_DRIVER_FUNCTIONS(OF)                                                                   \
  OF(error_string, "cuGetErrorString", (CUresult, const char**))                                   \
  OF(init, "cuInit", (unsigned))                                                                   \
  OF(device_count, "cuDeviceGetCount", (int*))                                                     \
  OF(device_get, "cuDeviceGet", (int*, int))                                                       \
  OF(device_attribute, "cuDeviceGetAttribute", (int*, int, int))                                   \
  OF(retain_context, "cuDevicePrimaryCtxRetain", (void**, int))                                    \
  OF(set_context, "cuCtxSetCurrent", (void*))                                                      \
  OF(push_context, "cuCtxPushCurrent_v2", (void*))                                                 \
  OF(pop_context, "cuCtxPopCurrent_v2", (void**))                                                  \
  OF(load_module, "cuModuleLoadData", (void**, const void*))                                       \
  OF(get_function, "cuModuleGetFunction", (void**, void*, const char*))                            \
  OF(set_attribute, "cuFuncSetAttribute", (void*, int, int))                                       \
  OF(synchronize, "cuCtxSynchronize", ())                                                          \
  OF(is_capturing, "cuStreamIsCapturing", (void*, int*))                                           \
  OF(launch, "cuLaunchKernel",                                                                     \
     (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,  \
      void**))                                                                                     \
  OF(launch_cooperative, "cuLaunchCooperativeKernel",                                              \
     (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**))

// Functions that only captures and branches of captured calls need.
#define WIR_CAPTURE_FUNCTIONS(OF)                                                                  \
  OF(create_stream, "cuStreamCreate", (void**, unsigned))                                          \
  OF(destroy_stream, "cuStreamDestroy_v2", (void*))                                                \
  OF(wait_for_stream, "cuStreamSynchronize", (void*))                                              \
  OF(create_event, "cuEventCreate", (void**, unsigned))                                            \
  OF(destroy_event, "cuEventDestroy_v2", (void*))                                                  \
  OF(record_event, "cuEventRecord", (void*, void*))                                                \
  OF(wait_for_event, "cuEventSynchronize", (void*))                                                \
  OF(order_after_event, "cuStreamWaitEvent", (void*, void*, unsigned))                             \
  OF(copy, "cuMemcpyDtoDAsync_v2", (unsigned long long, unsigned long long, std::size_t, void*))   \
  OF(begin_capture, "cuStreamBeginCapture_v2", (void*, int))                                       \
  OF(end_capture, "cuStreamEndCapture", (void*, void**))                                           \
  OF(destroy_graph, "cuGraphDestroy", (void*))                                                     \
  OF(call_host, "cuLaunchHostFunc", (void*, void (*)(void*), void*))                               \
  OF(exchange_mode, "cuThreadExchangeStreamCaptureMode", (int*))

#define WIR_DECLARED(name, symbol, params) CUresult(*name) params;

// The CUDA driver, opened on first use.
class Driver {
 public:
  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  std::string words(CUresult result) const {
    const char* found = nullptr;
    error_string(result, &found);
    return found == nullptr ? "error " + std::to_string(result) : found;
  }

  void check(CUresult result, const char* what) const {
    if (result != 0) throw Error("WIR2167", std::string(what) + ": " + words(result));
  }

  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) {
      throw Error(
          "WIR2167", std::string("the CUDA driver lacks '") + name + "'", "install a newer driver");
    }
  }

  WIR_DRIVER_FUNCTIONS(WIR_DECLARED)

 private:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
    if (library_ == nullptr) {
      const char* reason = dlerror();
      throw Error("WIR2167",
          std::string("the program runs on a GPU, and the CUDA driver cannot be opened: ") +
              (reason == nullptr ? "libcuda.so.1" : reason),
          "load it on a machine with an NVIDIA GPU");
    }
#define WIR_FOUND(name, symbol, params) find(name, symbol);
    WIR_DRIVER_FUNCTIONS(WIR_FOUND)
#undef WIR_FOUND
    check(init(0), "the CUDA driver");
  }

  void* library_;
};

// The driver functions in WIR_CAPTURE_FUNCTIONS, looked up on first use.
struct CaptureDriver {
  static constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  static constexpr unsigned kNoTiming = 2;     // CU_EVENT_DISABLE_TIMING
  static constexpr int kThreadLocal = 1;       // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
  static constexpr int kRelaxed = 2;           // CU_STREAM_CAPTURE_MODE_RELAXED

  static const CaptureDriver& get() {
    static const CaptureDriver driver;
    return driver;
  }

  WIR_CAPTURE_FUNCTIONS(WIR_DECLARED)

 private:
  CaptureDriver() {
    const Driver& driver = Driver::get();
#define WIR_FOUND(name, symbol, params) driver.find(name, symbol);
    WIR_CAPTURE_FUNCTIONS(WIR_FOUND)
#undef WIR_FOUND
  }
};
#undef WIR_DECLARED

// Makes the GPU's primary context, which PyTorch uses, current for the calling thread.
void use_gpu(std::int32_t device);

// Makes a context current for its lifetime.
class Current {
 public:
  explicit Current(void* context) {
    Driver::get().check(Driver::get().push_context(context), "using the GPU");
  }
  ~Current() {
    void* popped = nullptr;
    Driver::get().pop_context(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

}  // namespace wir
