// Captures work on a GPU, replays it, and keeps calls in order across streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <wir/program.h>

namespace wir::runtime {

// Captured work.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;  // on the current stream
};

// One per runner, unless calls of several runners have to take turns on the GPU.
class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual std::int32_t device_type() const = 0;
  virtual std::int32_t device_index() const = 0;

  // enter() and leave() enclose the uses below: on this GPU, on the caller's stream. enter()
  // returns whether that stream is already being captured.
  virtual bool enter() = 0;
  virtual void leave() = 0;

  // Captures what `work` does on the device, without executing it. Shares memory with `beside`, a
  // recording that is never replayed at the same time; null if there is none. Throws on failure,
  // and leaves streams and PyTorch as they were.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work,
                                            Recording* beside) = 0;

  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;

  // Work between begin() and end() runs after work between the previous two, on any streams.
  virtual void begin() = 0;
  virtual void end() noexcept = 0;
  // Waits until all of that is done. May be called at any time, from any thread.
  virtual void wait() noexcept = 0;
};

// Returns why nothing can be captured in this process, or null if captures work. Defined in
// src/gpu_graphs.cpp, which is linked into programs that run on a GPU.
[[gnu::weak]] const char* why_no_recorder();
[[gnu::weak]] std::shared_ptr<Recorder> make_recorder(const ProgramInfo& program);

}  // namespace wir::runtime
