// Memory that the peers of a process group address.
//
// All ranks of a group have to meet before they can address an allocation of one another. Memory is
// therefore kept: the ranks meet in their first call, and later ones find memory that they know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include <wir/program.h>
#include <wir/tensor.h>

namespace wir {

struct PeerBlocks;

// Memory for one buffer of a program, kept from call to call. A library has one for all its states:
// ranks get theirs in the same order, even if their calls take states in another one. Thread-safe.
//
// A call gets memory that nobody holds any more: that of earlier calls on its stream, which orders
// their work. A captured call gets memory that an earlier call has used, on whichever stream, and
// no other call ever gets it, because replays use it at any time; only other captured calls may, if
// there is none left for them.
class PeerMemory {
 public:
  // A tensor with undefined contents, at the start of an allocation.
  Tensor empty_strided(const GpuStream& stream, std::int64_t rank, const std::int64_t* size,
                       const std::int64_t* stride, Options options);

  // Frees memory that nobody holds, except that of captured calls; returns its bytes. The next call
  // allocates again and waits for its peers, so all ranks have to do so.
  std::size_t release();

 private:
  std::mutex changing_;
  // Never deleted: when the process ends, the device may be gone before this object is.
  PeerBlocks* blocks_ = nullptr;
};

// A tensor in new memory. The ranks of a group meet for it when an op first uses it.
Tensor empty_for_peers(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                       Options options);

}  // namespace wir
