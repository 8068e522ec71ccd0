// The device of a program that names its kind, but no number.
#pragma once

#include <atomic>
#include <cstdint>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

// The device that was current when the program was loaded, unless its loader named one. All calls
// run there, whichever is current when they begin. A library has one such object.
class Here {
 public:
  // Binds the program to the current device, unless it is bound; returns the device's index.
  std::int32_t index() noexcept {
    const std::int32_t found = index_.load(std::memory_order_acquire);
    return __builtin_expect(found >= 0, 1) ? found : bind(current());
  }
  operator std::int32_t() noexcept { return index(); }

  // Binds the program to a device; returns the index of the one that it is bound to, which is
  // another if it was bound before.
  std::int32_t bind(std::int32_t index) noexcept {
    std::int32_t before = -1;
    return index_.compare_exchange_strong(before, index) ? index : before;
  }

 private:
  // Where there is no device at all, the first one: a library can be inspected there.
  static std::int32_t current() noexcept {
    std::int32_t found = 0;
    return aoti_torch_get_current_device_index(&found) == 0 && found >= 0 ? found : 0;
  }

  std::atomic<std::int32_t> index_{-1};
};

// Makes a device current as long as it exists: a place for what is made outside of calls.
class OnDevice {
 public:
  // Does nothing for the host alone, -1.
  explicit OnDevice(std::int32_t index) {
    if (index >= 0) aoti_torch_create_device_guard(index, &guard_);
  }
  ~OnDevice() {
    if (guard_ != nullptr) aoti_torch_delete_device_guard(guard_);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  DeviceGuardHandle guard_ = nullptr;
};

}  // namespace wir
