// What captures work on a GPU and repeats it, and keeps calls in order among streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <wir/program.h>

namespace wir::runtime {

// Work that was captured.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;  // on the current stream
};

// One for each runner, unless calls of several have to take turns on the GPU.
class Recorder {
 public:
  virtual ~Recorder() = default;

  virtual std::int32_t device_type() const = 0;
  virtual std::int32_t device_index() const = 0;

  // Around all that follows: uses the GPU, on the caller's stream. Returns whether somebody is
  // capturing that.
  virtual bool enter() = 0;
  virtual void leave() = 0;

  // Captures what `work` does on the device, which does not do it. Its memory is shared with
  // `beside`, a recording that is never replayed at the same time; null if there is none. What goes
  // wrong is thrown, and leaves streams and PyTorch as they were.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work,
                                            Recording* beside) = 0;

  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;

  // What comes between is done after what came between the last time, whatever the streams.
  virtual void begin() = 0;
  virtual void end() noexcept = 0;
  // Until all of that is done. May be called at any time, by any thread.
  virtual void wait() noexcept = 0;
};

// Why nothing can be captured in this process; null if it can. Of src/gpu_graphs.cpp, which is linked
// where a program runs on a GPU.
[[gnu::weak]] const char* why_no_recorder();
[[gnu::weak]] std::shared_ptr<Recorder> make_recorder(const ProgramInfo& program);

}  // namespace wir::runtime
