// Pieces of a program, captured as CUDA graphs when the whole program cannot be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <wir/program.h>

namespace wir {

namespace runtime {
class Graphs;
class RunnerGraphs;
}  // namespace runtime

// To the runtime, a piece is a program of its own, except that its state is the whole program's.
constexpr ProgramInfo piece_info(const char* name, std::size_t num_inputs, const InputSpec* inputs,
                                 std::size_t num_outputs, const OutputSpec* outputs,
                                 decltype(ProgramInfo::run) run, const char* device,
                                 std::int32_t device_index, const GraphInfo* graphs,
                                 Here* here = nullptr) {
  ProgramInfo made{};
  made.contract = kContract;
  made.name = name;
  made.num_inputs = num_inputs;
  made.inputs = inputs;
  made.num_outputs = num_outputs;
  made.outputs = outputs;
  made.run = run;
  made.device = device;
  made.device_index = device_index;
  made.graphs = graphs;
  made.here = here;
  return made;
}

// A piece in one state, with its graphs.
class Piece {
 public:
  explicit Piece(const ProgramInfo& info);
  ~Piece();
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  // As ProgramInfo::run.
  void run(void* state, Call& call, const Slot* inputs, Slot* outputs);
  std::size_t kept_bytes() const;

 private:
  const ProgramInfo& info_;
  std::unique_ptr<runtime::Graphs> graphs_;
  std::unique_ptr<runtime::RunnerGraphs> runner_;  // null if nothing can be captured
};

}  // namespace wir
