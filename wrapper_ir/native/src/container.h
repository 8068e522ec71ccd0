// A loaded model: its constants, and the runners that execute its calls.
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

// Constants as callers pass them: in a std::unordered_map or as pairs.
using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;
std::vector<NewValue> values_of(AOTInductorConstantMapHandle map);
std::vector<NewValue> values_of(const AOTInductorConstantMapEntry* pairs, std::size_t count);

// All functions are thread-safe.
class Container {
 public:
  // `directory` is searched first for the constants file; may be null. `external` are constants in
  // the caller's memory; if null, all are the library's.
  Container(const ProgramInfo& program, std::size_t runners, const char* device,
            const char* directory, const std::vector<NewValue>* external = nullptr);
  ~Container();
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;

  // Pytree specs of the arguments and results, as JSON; plain tuples if the program has none.
  const char* in_spec() const { return in_spec_.c_str(); }
  const char* out_spec() const { return out_spec_.c_str(); }

  const ProgramInfo& program() const { return program_; }

  // Takes ownership of the input handles, even on failure. Waits for a free runner. Sets the
  // outputs only on success. Runs on `stream`, or on the current stream if it is null.
  void run(AtenTensorHandle* inputs, std::size_t num_inputs, AtenTensorHandle* outputs,
           std::size_t num_outputs, AOTIProxyExecutorHandle proxy_executor,
           void* stream = nullptr);

  // Calls in progress finish with the constants they began with; later calls see the new ones.
  void update(const std::vector<NewValue>& values, const UpdateOptions& options);
  void update_from_bytes(const std::uint8_t* bytes);
  void swap();
  void free_inactive();
  // Computes the folded constants again, from what others hold now.
  void fold(bool inactive, void* stream);

  // Whether constants were read from bytes: the library's or those of an update.
  bool has_read_bytes() const { return has_read_bytes_; }

  // With affinity, all calls on one GPU stream use the same runner, and wait for it. May be set
  // only while no call is running.
  void set_stream_affinity(bool on);
  // runner_of() returns the index of the stream's runner, or one of these.
  static constexpr std::int64_t kNoAffinity = -2, kNoRunner = -1;
  std::int64_t runner_of(void* stream);

  // Null if there is none.
  std::shared_ptr<const Constants> constants(bool inactive);
  // The same, for tensors that are handed out: their memory lives as long as the process.
  std::shared_ptr<const Constants> lasting_constants(bool inactive);
  const std::vector<AOTInductorConstantMapEntry>& entries(bool inactive);

  // Null if calls are not captured.
  const Graphs* graphs() const { return graphs_.get(); }

  // Frees memory that is kept between calls. What calls in progress hold is freed when they end.
  // Returns the number of bytes freed immediately.
  std::size_t release();

  void set_input_checks(bool on) { checks_ = on ? 1 : 0; }
  // Applies to all containers of this library without a setting of their own.
  static void set_default_input_checks(bool on) { default_checks_ = on ? 1 : 0; }

 private:
  // A state, the constants it was made with, and the value of releases_ at that time. A runner
  // without a state gets one from the next call that takes it, with the constants then in use. The
  // GPU memory that a state holds belongs to one stream.
  struct Runner {
    void* state = nullptr;
    std::shared_ptr<const Constants> constants;
    std::uint64_t releases = 0;
    GpuStream stream;
    std::unique_ptr<RunnerGraphs> graphs;  // for the same constants; usable on any stream

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
  std::shared_ptr<Blob> blob_;  // null if none of it is needed
  std::atomic<bool> has_read_bytes_;
  std::unique_ptr<Objects> objects_;  // null if the program has none
  std::unique_ptr<Graphs> graphs_;

  std::mutex mutex_;  // guards the members up to releases_; held only briefly
  std::condition_variable returned_;
  std::vector<Runner> runners_;    // contents of busy ones are with their calls
  std::vector<std::size_t> idle_;  // indices of those that are free
  std::vector<void*> owners_;      // with affinity: the stream that owns each runner, or null
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
