// Heaps that serve PyTorch's CPU allocator within calls: the interface that all parts of wrapper_ir
// in one process share.
#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>

namespace wir::heaps1 {

// The allocator that replaces PyTorch's. Several libraries may contain its code; the first to need
// it installs its own, and the others find that one by its type. So the number in the namespace's
// name must change whenever anything in this file does.
//
// Not final: types would then be compared by address, and another library's server would not be
// found.
class Server : public c10::Allocator {
 public:
  // Creates a heap; the caller drops it.
  virtual void* make() = 0;
  // Memory still in use is released when it is freed.
  virtual void drop(void* heap) noexcept = 0;
  // The number of unused bytes that a heap holds.
  virtual std::size_t bytes(void* heap) noexcept = 0;

  // Begins a call, and serves this thread from a heap. Returns the heap that served it before.
  virtual void* begin(void* heap) noexcept = 0;
  // Ends a call; `outer` is the result of `begin`.
  virtual void end(void* heap, void* outer) noexcept = 0;
  // Serves this thread from another heap, or from none, within a call. Returns the former heap.
  virtual void* exchange(void* heap) noexcept = 0;
};

// The server of this process, installed now if there is none yet. It gets no requests if PyTorch
// has an allocator of a higher priority.
Server* server() noexcept;

}  // namespace wir::heaps1
