// Streams of a call besides its caller's, and events that put them in order.
//
// A program with such names a class of the device's, which the device's kind says: an object of it
// lives as long as a call runs, made of the call, the device's number, and how many streams and
// events there are. Streams and events are counted from 1; stream 0 is the caller's.
//
//   class Queues final : public wir::Queues {
//    public:
//     Queues(wir::Call& call, std::int32_t device, std::int32_t streams, std::int32_t events);
//     ...
//   };
//
// What goes wrong is thrown, as a wir::Error or another std::exception.
#pragma once

#include <cstdint>

namespace wir {

class Queues {
 public:
  Queues() = default;
  // Makes the caller's stream the current one again. Work may go on behind the call.
  virtual ~Queues() = default;
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  // What comes from here on, allocations and ops included, is put on a stream.
  virtual void enter(std::int32_t stream) = 0;
  // Sets an event behind all that is on a stream so far.
  virtual void record(std::int32_t event, std::int32_t stream) = 0;
  // What comes on a stream waits for an event.
  virtual void wait(std::int32_t event, std::int32_t stream) = 0;
  // The host waits for an event, or for all that is on any stream of the device.
  virtual void wait_on_host(std::int32_t event) = 0;
  virtual void synchronize() = 0;
};

}  // namespace wir
