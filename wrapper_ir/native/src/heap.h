// Heaps from which PyTorch's CPU allocator is served inside of calls: what parts of wrapper_ir that
// are in one process know of each other.
#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>

namespace wir::heaps1 {

// The allocator that is in the place of PyTorch's. Several libraries may bring the code for it; the
// first to need it installs its own, and the others find that by its type. So the number in the
// name of the namespace changes whenever something in here does.
//
// Not final: comparing types by their address would not find what another library made.
class Server : public c10::Allocator {
 public:
  // A heap; the caller drops it.
  virtual void* make() = 0;
  // What is in use goes when it is freed.
  virtual void drop(void* heap) noexcept = 0;
  // How many bytes it holds that nobody uses.
  virtual std::size_t bytes(void* heap) noexcept = 0;

  // Begin a call, and serve this thread from a heap. Returns what it was served from before.
  virtual void* begin(void* heap) noexcept = 0;
  // End it; `outer` is what `begin` returned.
  virtual void end(void* heap, void* outer) noexcept = 0;
  // Serve this thread from another heap, or from none, in the middle of a call. Returns the former.
  virtual void* exchange(void* heap) noexcept = 0;
};

// The server of this process, installed now if there is none yet. Where PyTorch has an allocator
// that insists on its place, nobody is served.
Server* server() noexcept;

}  // namespace wir::heaps1
