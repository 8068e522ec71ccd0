// Calls that are captured as CUDA graphs and replayed: what the container knows of that.
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
  void*& state;  // the runner's; null until a call needs it
  bool is_lent = false;  // the state stays the caller's: no graph takes it over
};

// The graphs of one runner, which one call at a time uses.
class RunnerGraphs {
 public:
  virtual ~RunnerGraphs() = default;
  // Replays a call; has the program run where there is no graph, or none may be.
  virtual void run(const GraphCall& given) = 0;
  virtual std::size_t kept_bytes() const = 0;
};

// The graphs of a container.
class Graphs {
 public:
  virtual ~Graphs() = default;
  // Null where no call of the program can be captured.
  virtual std::unique_ptr<RunnerGraphs> of_runner() = 0;
  // A call that ran the program, for reasons known before.
  virtual void ran() = 0;
};

// Makes a program's state, where there is none yet.
inline void ensure_state(const ProgramInfo& program, void*& state,
                         const AtenTensorHandle* constants) {
  if (state != nullptr) [[likely]] {
    return;
  }
  outside_inference_mode([&] { state = program.create_state(constants); });
}

}  // namespace wir::runtime

// Of src/graph_calls.cpp, which is linked where calls are captured.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] wir::runtime::Graphs* wir_make_graphs(
    const wir::ProgramInfo& program);
// JSON: what became of the calls of one container, or of all of the library's. The text stays until
// the thread asks again. What Python loads without a container shows this function itself.
extern "C" [[gnu::weak, gnu::visibility("default")]] const char* wir_graph_status(
    const wir::runtime::Graphs* graphs);
