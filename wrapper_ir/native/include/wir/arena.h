// Arenas that a state keeps: one block of memory that storages have their places in.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <wir/dtype.h>
#include <wir/modes.h>
#include <wir/tensor.h>

namespace wir {

// Advises the system to back large memory with large pages: fewer faults when it is first touched,
// and fewer misses of address translation later. Nothing depends on it, so errors are ignored.
inline void advise_huge_pages(void* memory, std::size_t bytes) noexcept {
#ifdef __linux__
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  constexpr std::size_t kLeast = std::size_t{4} << 20;
  if (bytes < kLeast) return;
  // Whole pages only: their neighbours belong to somebody else.
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (begin + bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

// Memory that outlives a call and grows when a call needs more. What lies in it is undefined when a
// call begins.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::int64_t bytes) { allocate(bytes); }

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
    memory_ = empty(1, &bytes, &kOne, {dtype::uint8, device::cpu, 0});
    advise_huge_pages(data(memory_), static_cast<std::size_t>(bytes));
    // Storage that is lent cannot be resized: a library op whose result is larger than its place
    // fails, instead of moving the arena from under the others.
    check(aoti_torch_create_tensor_from_blob(data(memory_), 1, &bytes, &kOne, 0, dtype::uint8,
                                             device::cpu, 0, shown_.out()));
    bytes_ = bytes;
  }

  Tensor memory_;
  Tensor shown_;
  std::int64_t bytes_ = 0;
};

}  // namespace wir
