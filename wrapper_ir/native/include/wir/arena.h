// Arenas that a state owns: one block of memory each, in which storages are placed.
#pragma once

#include <cstddef>
#include <cstdint>

#include <wir/dtype.h>
#include <wir/huge_pages.h>
#include <wir/modes.h>
#include <wir/tensor.h>

namespace wir {

// Memory that outlives a call and grows when a call needs more. Its contents are undefined when a
// call begins.
class Arena {
 public:
  Arena() = default;
  // With 0 bytes, the arena stays empty until a call asks for memory.
  explicit Arena(std::int64_t bytes, std::int32_t device_type = device::cpu,
                 std::int32_t device_index = 0)
      : device_type_(device_type), device_index_(device_index) {
    if (bytes != 0) allocate(bytes);
  }

  // Returns the arena as a tensor of bytes, after growing it to `bytes` if it is smaller. Growing
  // invalidates all views made before.
  AtenTensorHandle at_least(std::int64_t bytes) {
    if (__builtin_expect(bytes > bytes_ || shown_ == nullptr, 0)) {
      // Free the old memory first, so that old and new are never held together.
      shown_.reset();
      memory_.reset();
      outside_inference_mode([&] { allocate(bytes); });
    }
    return shown_;
  }

  // The same within a call that a heap serves. The arena must not be allocated from that heap.
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
    // Borrowed storage cannot be resized: a library op whose result does not fit its place fails
    // instead of moving the arena out from under the other storages.
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
