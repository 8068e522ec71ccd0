// GPU kernels, and the stream that a call runs on. Linked into programs that run on a GPU.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/gpu.h>
#include <wir/number.h>
#include <wir/tensor.h>

#include "driver.h"

extern "C" {
struct CUDAGuardOpaque;
struct CUDAStreamGuardOpaque;
// From PyTorch's C shim, which declares them only if CUDA's headers are present.
AOTITorchError aoti_torch_create_cuda_guard(std::int32_t device, CUDAGuardOpaque** guard);
AOTITorchError aoti_torch_delete_cuda_guard(CUDAGuardOpaque* guard);
AOTITorchError aoti_torch_get_current_cuda_stream(std::int32_t device, void** stream);
AOTITorchError aoti_torch_create_cuda_stream_guard(
    void* stream, std::int32_t device, CUDAStreamGuardOpaque** guard);
AOTITorchError aoti_torch_delete_cuda_stream_guard(CUDAStreamGuardOpaque* guard);
}

namespace wir {
namespace {

// From cuda.h.
constexpr CUresult kInvalidContext = 201;
constexpr int kMajor = 75;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kMinor = 76;            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr std::uint32_t kSharedByDefault = 49152;  // bytes; more must be requested

// A GPU in its primary context, as PyTorch uses it. The context lives as long as the process.
struct Gpu {
  int arch = 0;
  void* context = nullptr;

  explicit Gpu(std::int32_t index) {
    const Driver& driver = Driver::get();
    int count = 0, device = 0, major = 0, minor = 0;
    driver.check(driver.device_count(&count), "counting GPUs");
    if (index >= count) {
      throw Error("WIR2167", "the program runs on GPU " + std::to_string(index) + ", and there " +
                                 (count == 1 ? "is" : "are") + " " + std::to_string(count));
    }
    driver.check(driver.device_get(&device, index), "finding the GPU");
    driver.check(driver.device_attribute(&major, kMajor, device), "asking the GPU what it is");
    driver.check(driver.device_attribute(&minor, kMinor, device), "asking the GPU what it is");
    driver.check(driver.retain_context(&context, device), "using the GPU");
    arch = major * 10 + minor;
  }
};

std::string arch_name(std::int32_t arch) { return "sm_" + std::to_string(arch); }

// Returns the best image that runs on a GPU, or null. Up to compute capability 8.x, code also runs
// on later minor versions of the same major version. What Triton compiles for newer GPUs runs only
// on the exact version.
const GpuImage* fitting(const GpuImage* images, int arch) {
  const GpuImage* best = nullptr;
  for (const GpuImage* image = images; image->arch != 0; ++image) {
    const bool runs =
        image->arch == arch || (arch < 90 && image->arch / 10 == arch / 10 && image->arch < arch);
    if (runs && (best == nullptr || image->arch > best->arch)) best = image;
  }
  return best;
}

[[noreturn, gnu::cold]] void refuse(const char* kernel, const std::string& reason,
                                    const std::string& hint = "") {
  throw Error("WIR2167", "Triton kernel '{kernel}': {reason}", {kernel, reason}, hint);
}

[[noreturn]] void refuse_arch(const char* kernel, const GpuImage* images, int arch) {
  std::string found;
  for (const GpuImage* image = images; image->arch != 0; ++image) {
    found += (found.empty() ? "" : ", ") + arch_name(image->arch);
  }
  refuse(kernel, "it was compiled for " + found + ", and this GPU is " + arch_name(arch),
         "build the library again, with gpu_arch='" + arch_name(arch) + "'");
}

[[noreturn, gnu::cold]] void refuse_grid(const char* name, const Grid& grid) {
  refuse(name, "it cannot be launched over [" + std::to_string(grid.x) + ", " +
                   std::to_string(grid.y) + ", " + std::to_string(grid.z) + "] blocks");
}

bool fits(std::int64_t size) { return 0 <= size && size <= INT32_MAX; }

Tensor bytes_on(std::int32_t device, std::int64_t count) {
  static constexpr std::int64_t kOne = 1;
  return empty(1, &count, &kOne, { dtype::uint8, device::cuda, device });
}

const Gpu& gpu_of(std::int32_t device) {
  static std::mutex mutex;
  static std::map<std::int32_t, const Gpu> gpus;
  const std::lock_guard lock(mutex);
  return gpus.try_emplace(device, device).first->second;
}

bool has_many_gpus() {
  static const bool many = [] {
    int count = 0;
    return Driver::get().device_count(&count) == 0 && count > 1;
  }();
  return many;
}

}  // namespace

void use_gpu(std::int32_t device) {
  Driver::get().check(Driver::get().set_context(gpu_of(device).context), "using the GPU");
}

void GpuCode::load(std::int32_t device) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (function_ != nullptr) return;
  const Gpu& gpu = gpu_of(device);
  const Driver& driver = Driver::get();
  const GpuImage* image = fitting(images_, gpu.arch);
  if (image == nullptr) refuse_arch(name_, images_, gpu.arch);
  const Current current(gpu.context);
  const auto check = [&](CUresult result, const char* what) {
    if (result != 0) refuse(name_, std::string(what) + ": " + driver.words(result));
  };
  void* module = nullptr;
  void* function = nullptr;
  check(driver.load_module(&module, image->code), "loading its code");
  check(driver.get_function(&function, module, image->symbol), "finding it");
  if (image->shared > kSharedByDefault) {
    check(driver.set_attribute(function, kMaxDynamicShared, static_cast<int>(image->shared)),
        "asking for shared memory");
  }
  image_ = image;
  device_ = device;
  context_ = gpu.context;
  function_ = function;
}

void GpuCode::launch(const Call& call, const Grid& grid, void** params, void*& scratch) const {
  if (!(fits(grid.x) && fits(grid.y) && fits(grid.z))) refuse_grid(name_, grid);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;  // nothing to do
  Tensor memory;  // may be freed once launched: reuse is ordered after the kernel
  if (image_->scratch != 0) {
    memory = bytes_on(device_, Int(grid.x) * grid.y * grid.z * image_->scratch);
    scratch = data(memory);
  }
  CUresult result = 0;
  if (__builtin_expect(device_ == call.gpu, 1)) {
    result = launch_on(call.stream, grid, params);
    // The thread has not used the GPU yet.
    if (result == kInvalidContext && Driver::get().set_context(context_) == 0) {
      result = launch_on(call.stream, grid, params);
    }
  } else {
    void* stream = nullptr;
    check(aoti_torch_get_current_cuda_stream(device_, &stream));
    const Current current(context_);
    result = launch_on(stream, grid, params);
  }
  if (__builtin_expect(result != 0, 0)) {
    refuse(name_, "its launch failed: " + Driver::get().words(result));
  }
}

CUresult GpuCode::launch_on(void* stream, const Grid& grid, void** params) const {
  const auto x = static_cast<unsigned>(grid.x);
  const auto y = static_cast<unsigned>(grid.y);
  const auto z = static_cast<unsigned>(grid.z);
  const Driver& driver = Driver::get();
  if (image_->cooperative != 0) {
    return driver.launch_cooperative(
        function_, x, y, z, image_->threads, 1, 1, image_->shared, stream, params);
  }
  return driver.launch(
      function_, x, y, z, image_->threads, 1, 1, image_->shared, stream, params, nullptr);
}

GpuCall::GpuCall(Call& call, std::int32_t device) {
  if (has_many_gpus()) {
    CUDAGuardOpaque* guard = nullptr;
    check(aoti_torch_create_cuda_guard(device, &guard));
    guard_ = guard;
  }
  check(aoti_torch_get_current_cuda_stream(device, &call.stream));
  call.gpu = device;
}

GpuCall::~GpuCall() {
  if (guard_ != nullptr) aoti_torch_delete_cuda_guard(static_cast<CUDAGuardOpaque*>(guard_));
}

GpuStream current_stream(std::int32_t device) {
  GpuStream found;
  check(aoti_torch_get_current_cuda_stream(device, &found.stream));
  int capturing = 0;
  const CUresult result = Driver::get().is_capturing(found.stream, &capturing);
  found.is_captured = result == 0 && capturing != 0;
  return found;
}

void wait_for_gpu(std::int32_t device) noexcept {
  try {
    const Current current(gpu_of(device).context);
    Driver::get().synchronize();  // errors are reported to the next user of the GPU
  } catch (const Error&) {
  }
}

}  // namespace wir

// Called by the container, which is compiled without any knowledge of GPUs.

extern "C" [[gnu::visibility("hidden")]] void* wir_gpu_enter(std::int32_t gpu, void* stream) {
  void* current = nullptr;
  wir::check(aoti_torch_get_current_cuda_stream(gpu, &current));
  if (stream == current) return nullptr;
  CUDAStreamGuardOpaque* guard = nullptr;
  wir::check(aoti_torch_create_cuda_stream_guard(stream, gpu, &guard));
  return guard;
}

extern "C" [[gnu::visibility("hidden")]] void wir_gpu_leave(void* entered) {
  aoti_torch_delete_cuda_stream_guard(static_cast<CUDAStreamGuardOpaque*>(entered));
}
