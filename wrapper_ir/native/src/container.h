// One loaded model: its constants, and the states in which calls run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <wir/program.h>

#include "abi.h"
#include "constants.h"
#include "graphs.h"
#include "objects.h"

namespace wir::runtime {

// What callers give as constants: a std::unordered_map of theirs, or pairs.
using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;
std::vector<NewValue> values_of(AOTInductorConstantMapHandle map);
std::vector<NewValue> values_of(const AOTInductorConstantMapEntry* pairs, std::size_t count);

// All functions may be called by several threads at once.
class Container {
 public:
  // `directory` is where a file of constants is looked for first; may be null. `external` are
  // constants in memory of the caller; null: all are the library's.
  Container(const ProgramInfo& program, std::size_t runners, const char* device,
            const char* directory, const std::vector<NewValue>* external = nullptr);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  // Pytrees of the arguments and of the results, as JSON; those of tuples where the program has none.
  const char* in_spec() const { return in_spec_.c_str(); }
  const char* out_spec() const { return out_spec_.c_str(); }

  const ProgramInfo& program() const { return program_; }

  // Takes the handles of the inputs, whatever happens. Waits for a free runner. Sets the outputs
  // only if it succeeds. Runs on `stream`, or on the current one if that is null.
  void run(AtenTensorHandle* inputs, std::size_t num_inputs, AtenTensorHandle* outputs,
           std::size_t num_outputs, AOTIProxyExecutorHandle proxy_executor,
           void* stream = nullptr);

  // Calls in progress finish with the constants they began with; later calls see the new ones.
  void update(const std::vector<NewValue>& values, const UpdateOptions& options);
  void update_from_bytes(const std::uint8_t* bytes);
  void swap();
  void free_inactive();

  // Whether constants came from bytes, the library's or those of an update.
  bool has_read_bytes() const { return has_read_bytes_; }

  // With affinity, the calls on a stream of a GPU have one runner, and wait for it. Set while no
  // call is running.
  void set_stream_affinity(bool on);
  // The number of the stream's runner, or one of these.
  static constexpr std::int64_t kNoAffinity = -2, kNoRunner = -1;
  std::int64_t runner_of(void* stream);

  // Null where there is none.
  std::shared_ptr<const Constants> constants(bool inactive);
  // The same, for handing tensors out: what they show stays as long as the process.
  std::shared_ptr<const Constants> lasting_constants(bool inactive);
  const std::vector<AOTInductorConstantMapEntry>& entries(bool inactive);

  // Null where calls are not captured.
  const Graphs* graphs() const { return graphs_.get(); }

  // Frees what is kept between calls and not in use; what calls in progress hold goes when they end.
  // Returns how many bytes went at once.
  std::size_t release();

  void set_input_checks(bool on) { checks_ = on ? 1 : 0; }
  // For all containers of this library that were not told otherwise.
  static void set_default_input_checks(bool on) { default_checks_ = on ? 1 : 0; }

 private:
  // A state, the constants it was made with, and how often memory had been released by then. A
  // runner that has no state yet is given one by the call that takes it, with the constants then in
  // use. What a state holds of a GPU's memory is that of one stream.
  struct Runner {
    void* state = nullptr;
    std::shared_ptr<const Constants> constants;
    std::uint64_t releases = 0;
    GpuStream stream;
    std::unique_ptr<RunnerGraphs> graphs;  // of the same constants; on any stream

    bool serves(const GpuStream& wanted) const {
      return state == nullptr || (!wanted.is_captured && stream.stream == wanted.stream);
    }
  };
  class Turn;

  bool checks_inputs() const;
  GpuStream current_stream() const;
  std::vector<std::size_t>::iterator choice(void* asked, const GpuStream& stream);
  std::size_t take(void* asked, Runner& runner);
  void give_back(std::size_t number, Runner runner, bool failed);
  void prepare(Runner& runner);
  void run(Runner& runner, Call& call, const Slot* inputs, Slot* outputs);
  void drop_state(Runner& runner);
  void drop(Runner& runner);
  std::vector<Runner> take_stale();
  void hand_over(Slot* results, AtenTensorHandle* outputs);
  void publish(std::shared_ptr<const Constants> made, bool inactive);

  const ProgramInfo& program_;
  std::shared_ptr<Blob> blob_;  // null where nothing of it is needed
  std::atomic<bool> has_read_bytes_;
  std::unique_ptr<Objects> objects_;  // null where the program has none
  std::unique_ptr<Graphs> graphs_;

  std::mutex mutex_;  // guards what follows; held for a few instructions at a time
  std::condition_variable returned_;
  std::vector<Runner> runners_;    // what those at work keep is with their calls
  std::vector<std::size_t> idle_;  // numbers of those that are not at work
  std::vector<void*> owners_;      // with affinity: the stream that has each runner, or null
  std::shared_ptr<const Constants> active_;
  std::shared_ptr<const Constants> inactive_;
  std::uint64_t releases_ = 0;

  std::mutex updating_;  // one update at a time
  std::vector<AOTInductorConstantMapEntry> entries_;
  std::string in_spec_;
  std::string out_spec_;

  static constexpr signed char kUnset = -1;
  std::atomic<signed char> checks_ = kUnset;
  static inline std::atomic<signed char> default_checks_ = kUnset;
};

}  // namespace wir::runtime
