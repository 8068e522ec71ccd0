// The streams of a call besides the caller's, and the events that order them.
//
// A program that uses them names a class, which the device's kind defines. An object of that class
// lives as long as a call. It is constructed from the call, the device index, and the numbers of
// streams and events. Streams and events are numbered from 1; stream 0 is the caller's.
//
//   class Queues final : public wir::Queues {
//    public:
//     Queues(wir::Call& call, std::int32_t device, std::int32_t streams, std::int32_t events);
//     ...
//   };
//
// Errors are thrown, as a wir::Error or another std::exception.
#pragma once

#include <cstdint>

namespace wir {

class Queues {
 public:
  Queues() = default;
  // Makes the caller's stream current again. Work may continue after the call.
  virtual ~Queues() = default;
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  // Puts everything that follows, allocations and ops included, on a stream.
  virtual void enter(std::int32_t stream) = 0;
  // Records an event after all work that is on a stream so far.
  virtual void record(std::int32_t event, std::int32_t stream) = 0;
  // Makes later work on a stream wait for an event.
  virtual void wait(std::int32_t event, std::int32_t stream) = 0;
  // Makes the host wait for an event, or for all work on all streams of the device.
  virtual void wait_on_host(std::int32_t event) = 0;
  virtual void synchronize() = 0;
};

}  // namespace wir
