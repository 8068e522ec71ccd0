// The CUDA driver. A library is not linked with it, so that it can be looked at where there is none.
#pragma once

#include <dlfcn.h>

#include <string>

#include <wir/error.h>

namespace wir {

using CUresult = int;  // of cuda.h

// The CUDA driver, opened when it is first asked for.
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

  // Looks a function up.
  template <class Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr) {
      throw Error(
          "WIR2167", std::string("the CUDA driver lacks '") + name + "'", "install a newer driver");
    }
  }

  CUresult (*error_string)(CUresult, const char**);
  CUresult (*init)(unsigned);
  CUresult (*device_count)(int*);
  CUresult (*device_get)(int*, int);
  CUresult (*device_attribute)(int*, int, int);
  CUresult (*retain_context)(void**, int);
  CUresult (*set_context)(void*);
  CUresult (*push_context)(void*);
  CUresult (*pop_context)(void**);
  CUresult (*load_module)(void**, const void*);
  CUresult (*get_function)(void**, void*, const char*);
  CUresult (*set_attribute)(void*, int, int);
  CUresult (*is_capturing)(void*, int*);
  CUresult (*synchronize)();
  CUresult (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
      void*, void**, void**);
  CUresult (*launch_cooperative)(
      void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**);

 private:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) {
    if (library_ == nullptr) {
      const char* reason = dlerror();
      throw Error("WIR2167",
          std::string("the program runs on a GPU, and the CUDA driver cannot be opened: ") +
              (reason == nullptr ? "libcuda.so.1" : reason),
          "load it on a machine with an NVIDIA GPU");
    }
    find(error_string, "cuGetErrorString");
    find(init, "cuInit");
    find(device_count, "cuDeviceGetCount");
    find(device_get, "cuDeviceGet");
    find(device_attribute, "cuDeviceGetAttribute");
    find(retain_context, "cuDevicePrimaryCtxRetain");
    find(set_context, "cuCtxSetCurrent");
    find(push_context, "cuCtxPushCurrent_v2");
    find(pop_context, "cuCtxPopCurrent_v2");
    find(load_module, "cuModuleLoadData");
    find(get_function, "cuModuleGetFunction");
    find(set_attribute, "cuFuncSetAttribute");
    find(synchronize, "cuCtxSynchronize");
    find(is_capturing, "cuStreamIsCapturing");
    find(launch, "cuLaunchKernel");
    find(launch_cooperative, "cuLaunchCooperativeKernel");
    check(init(0), "the CUDA driver");
  }

  void* library_;
};

// Has a context current while it lives.
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
