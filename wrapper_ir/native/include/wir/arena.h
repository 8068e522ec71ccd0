// Arenas that a state keeps: one block of memory that storages have their places in.
#pragma once

#include <cstddef>
#include <cstdint>

#include <wir/dtype.h>
#include <wir/huge_pages.h>
#include <wir/modes.h>
#include <wir/tensor.h>

namespace wir {

// Memory that outlives a call and grows when a call needs more. What lies in it is undefined when a
// call begins.
class Arena {
 public:
  Arena() = default;
  // With no bytes it is empty until a call says how many it needs.
  explicit Arena(std::int64_t bytes, std::int32_t device_type = device::cpu,
                 std::int32_t device_index = 0)
      : device_type_(device_type), device_index_(device_index) {
    if (bytes != 0) allocate(bytes);
  }

  // A tensor of bytes that begins where the arena does. Views of it that were made before the arena
  // grew are views of nothing.
  AtenTensorHandle at_least(std::int64_t bytes) {
    if (__builtin_expect(bytes > bytes_ || shown_ == nullptr, 0)) {
      // The old memory goes first, so that both are never held at a time.
      shown_.reset();
      memory_.reset();
      outside_inference_mode([&] { allocate(bytes); });
    }
    return shown_;
  }

  // Likewise in a call that is served from a heap, which it shall not come from.
  template <typename Heap>
  AtenTensorHandle at_least(std::int64_t bytes, Heap& heap) {
    if (bytes <= bytes_ && shown_ != nullptr) return shown_;
    const typename Heap::Pause pause(heap);
    return at_least(bytes);
  }

  operator AtenTensorHandle() const noexcept { return shown_; }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(bytes_); }

 private:
  void allocate(std::int64_t bytes) {
    static constexpr std::int64_t kOne = 1;
    bytes_ = 0;
    memory_ = empty(1, &bytes, &kOne, {dtype::uint8, device_type_, device_index_});
    if (device_type_ == device::cpu) {
      advise_huge_pages(data(memory_), static_cast<std::size_t>(bytes));
    }
    // Storage that is lent cannot be resized: a library op whose result is larger than its place
    // fails, instead of moving the arena from under the others.
    check(aoti_torch_create_tensor_from_blob(data(memory_), 1, &bytes, &kOne, 0, dtype::uint8,
                                             device_type_, device_index_, shown_.out()));
    bytes_ = bytes;
  }

  Tensor memory_;
  Tensor shown_;
  std::int64_t bytes_ = 0;
  std::int32_t device_type_ = device::cpu;
  std::int32_t device_index_ = 0;
};

}  // namespace wir
