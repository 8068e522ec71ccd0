// Memory that the host cannot touch: each allocation has pages of its own, which are closed but for
// the length of the device's own calls. What is freed is gone, so that later uses fault as well.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <map>
#include <mutex>

#include "device_protected.h"

namespace {

using at::IntArrayRef, at::ScalarType, at::Tensor, device_protected::Open, std::optional;
constexpr auto kType = c10::DeviceType::PrivateUse1;
const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
const c10::Device device(kType, 0);
const c10::Stream stream(c10::Stream::DEFAULT, device);

std::mutex lock;
std::map<void*, size_t> pages;  // where each allocation begins, and how many bytes it has
int calls = 0;                  // of the device's own, that are running now
int access = PROT_NONE;

void count(int more) {
  std::lock_guard<std::mutex> guard(lock);
  access = (calls += more) > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
  for (auto& [begin, bytes] : pages) TORCH_CHECK(mprotect(begin, bytes, access) == 0);
}

void release(void* begin) {
  std::lock_guard<std::mutex> guard(lock);
  if (begin != nullptr) munmap(begin, pages.extract(begin).mapped());
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, device};
    std::lock_guard<std::mutex> guard(lock);
    void* begin = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(begin != MAP_FAILED, "no memory for ", bytes, " bytes");
    pages[begin] = bytes;
    return {begin, begin, &release, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    Open open;
    std::memcpy(to, from, bytes);
  }
} memory;

// What torch asks of every device. There is one of ours, and it is always the current one.

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device getDevice() const override { return device; }
  c10::Device exchangeDevice(c10::Device) const override { return device; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream; }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
} hooks;

// Ops: what makes, views and copies tensors. Everything else is left to the CPU, on copies.

Tensor empty(IntArrayRef size, optional<ScalarType> dtype, optional<at::Layout>,
             optional<at::Device>, optional<bool>, optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, keys, at::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<ScalarType> dtype,
                     optional<at::Layout>, optional<at::Device>, optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, keys, at::dtype_or_default(dtype));
}

const Tensor& resize(const Tensor& self, IntArrayRef size, optional<at::MemoryFormat> format) {
  Open open;
  return at::native::resize_(self, size, format);
}

Tensor on_host(const Tensor& x) {
  const auto options = x.options().device(at::kCPU);
  return x.is_cpu() ? x : at::from_blob(x.data_ptr(), x.sizes(), x.strides(), options);
}

Tensor copy(const Tensor& from, const Tensor& to, bool) {
  Open open;
  on_host(to).copy_(on_host(from));
  return to;
}

Tensor copy_and_resize(const Tensor& from, const Tensor& to) {
  return copy(from, resize(to, from.sizes(), std::nullopt), false);
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

// What torch's loaders run libraries by.

using Runner = torch::inductor::AOTIModelContainerRunner;
struct OwnRunner : Runner { template <class... T> OwnRunner(T... given) : Runner(given...) {} };
template <class... T> std::unique_ptr<Runner> make(T... t) { return std::make_unique<OwnRunner>(t...); }
const torch::inductor::RegisterAOTIModelRunner registered("protected", make);

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  c10::SetAllocator(kType, &memory);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<Tensor (*)(const Tensor&, IntArrayRef)>(at::native::view));
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", copy);
  m.impl("_copy_from_and_resize", copy_and_resize);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>());
}

Open::Open() { count(1); }
Open::~Open() { count(-1); }
