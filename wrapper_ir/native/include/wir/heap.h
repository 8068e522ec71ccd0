// Memory that library ops and results take inside a call, kept for the next call.
#pragma once

#include <cstddef>
#include <utility>

namespace wir {

// Serves large allocations of PyTorch on the CPU, those of one call at a time, from memory that
// stays. What a call frees, the next one finds; what leaves a call, such as a result, stays valid
// as long as somebody holds it, and comes back then. Where PyTorch does not let us serve it, the
// heap does nothing.
class Heap {
 public:
  Heap();
  Heap(Heap&& other) noexcept : opaque_(std::exchange(other.opaque_, nullptr)) {}
  Heap& operator=(Heap&& other) noexcept {
    std::swap(opaque_, other.opaque_);
    return *this;
  }
  ~Heap();  // what is in use goes when it is freed

  // How many bytes it holds that nobody uses. At most what one call used at a time.
  std::size_t bytes() const noexcept;

  // While one lives, its thread is served; inside of another, that one waits.
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

  // While one lives, its thread is not served: for what is made in a call and stays.
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
