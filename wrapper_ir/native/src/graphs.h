// The container's interface to calls that are captured as CUDA graphs and replayed.
#pragma once

#include <cstddef>
#include <memory>

#include <wir/modes.h>
#include <wir/program.h>

namespace wir::runtime {

// A call that may be replayed.
struct GraphCall {
  Call& call;
  const Slot* inputs;  // borrowed
  Slot* outputs;
  const AtenTensorHandle* constants;
  void*& state;          // the runner's; null until a call needs it
  bool is_lent = false;  // the caller keeps the state: no graph takes it over
};

// The graphs of one runner, used by one call at a time.
class RunnerGraphs {
 public:
  virtual ~RunnerGraphs() = default;
  // Replays a call, or runs the program if there is no graph for it or there must not be one.
  virtual void run(const GraphCall& given) = 0;
  virtual std::size_t kept_bytes() const = 0;
};

// The graphs of a container.
class Graphs {
 public:
  virtual ~Graphs() = default;
  // Null if no call of the program can be captured.
  virtual std::unique_ptr<RunnerGraphs> of_runner() = 0;
  // Counts a call that ran the program, for the reasons known at construction.
  virtual void ran() = 0;
};

// Creates a program's state if there is none yet.
inline void ensure_state(const ProgramInfo& program, void*& state,
                         const AtenTensorHandle* constants) {
  if (state != nullptr) [[likely]] {
    return;
  }
  outside_inference_mode([&] { state = program.create_state(constants); });
}

}  // namespace wir::runtime

// Defined in src/graph_calls.cpp, which is linked into libraries that capture calls.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] wir::runtime::Graphs* wir_make_graphs(
    const wir::ProgramInfo& program);
// Returns statistics of the calls of one container as JSON; null: of all of the library's. The text
// is valid until the thread's next call. Modules that Python loads without a container export this
// function themselves.
extern "C" [[gnu::weak, gnu::visibility("default")]] const char* wir_graph_status(
    const wir::runtime::Graphs* graphs);
