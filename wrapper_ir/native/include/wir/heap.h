// Memory for library ops and results within a call, kept for the next call.
#pragma once

#include <cstddef>
#include <utility>

namespace wir {

// Serves PyTorch's large CPU allocations, for one call at a time, from memory that it keeps. The
// next call reuses memory that a call frees. Memory that leaves a call, such as a result, stays
// valid as long as somebody holds it, and then returns to the heap. If PyTorch does not let us
// replace its allocator, the heap does nothing.
class Heap {
 public:
  Heap();
  Heap(Heap&& other) noexcept : opaque_(std::exchange(other.opaque_, nullptr)) {}
  Heap& operator=(Heap&& other) noexcept {
    std::swap(opaque_, other.opaque_);
    return *this;
  }
  ~Heap();  // memory still in use is released when it is freed

  // The number of unused bytes that the heap holds: at most the peak usage of one call.
  std::size_t bytes() const noexcept;

  // Serves the thread while it exists. A nested one suspends the outer one.
  class Call {
   public:
    explicit Call(Heap& heap) noexcept;
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();

   private:
    Heap& heap_;
    void* outer_;
  };

  // Stops serving the thread while it exists, for memory that is to outlive the call.
  class Pause {
   public:
    explicit Pause(Heap& heap) noexcept;
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause();

   private:
    Heap& heap_;
    void* outer_;
  };

 private:
  void* opaque_;
};

}  // namespace wir
