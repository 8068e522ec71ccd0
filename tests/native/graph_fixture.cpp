// A program whose calls are captured, on a device that is none: a queue of functions.
//
//   y = x * scale + w + bias, total += sums of x's columns       x : float32[*, 4]
//   results: y, y[1:], x[1:], bias, the rows of x, total
//
// What is launched runs at once, or is put into the recording that is being made.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <wir/error.h>
#include <wir/layout.h>
#include <wir/pieces.h>
#include <wir/program.h>
#include <wir/tensor.h>

#include "graph_recorder.h"

namespace {

using namespace wir;
using Work = std::vector<std::function<void()>>;

thread_local Work* recording = nullptr;
std::atomic<bool> fails = false;        // the next capture
std::atomic<bool> is_captured = false;  // by somebody else
std::atomic<int> recordings = 0;        // that there are

void launch(std::function<void()> work) {
  if (recording == nullptr) {
    work();
  } else {
    recording->push_back(std::move(work));
  }
}

class QueueRecording : public runtime::Recording {
 public:
  QueueRecording() { ++recordings; }
  ~QueueRecording() override { --recordings; }
  void replay() override {
    for (const auto& each : work) each();
  }
  Work work;
};

class QueueRecorder : public runtime::Recorder {
 public:
  std::int32_t device_type() const override { return device::cpu; }
  std::int32_t device_index() const override { return 0; }
  bool enter() override { return is_captured; }
  void leave() override {}
  std::unique_ptr<runtime::Recording> record(const std::function<void()>& work,
                                             runtime::Recording*) override {
    auto made = std::make_unique<QueueRecording>();
    recording = &made->work;
    try {
      work();
      if (fails.exchange(false)) throw std::runtime_error("it waited\nfor the queue");
    } catch (...) {
      recording = nullptr;
      throw;
    }
    recording = nullptr;
    return made;
  }
  void copy(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void begin() override {}
  void end() noexcept override {}
  void wait() noexcept override {}
};

constexpr std::int64_t kRows[] = {kDynamic, 4};
constexpr std::int64_t kRowStrides[] = {kDynamic, 1};
constexpr std::int64_t kFour[] = {4};
constexpr std::int64_t kOne[] = {1};
constexpr std::int32_t kFloat = dtype::float32;

const InputSpec inputs[] = {
    {"x", Kind::kTensor, false, false, {kFloat, device::cpu, -1, 2, kRows, kRowStrides}},
    {"w", Kind::kTensor, false, false, {kFloat, device::cpu, -1, 1, kFour, kOne}},
    {"total", Kind::kTensor, false, true, {kFloat, device::cpu, -1, 1, kFour, kOne}},
    {"scale", Kind::kReal, false, false, {}},
};

const OutputSpec outputs[] = {
    {"y", Kind::kTensor},    {"tail", Kind::kTensor},  {"rest", Kind::kTensor},
    {"bias", Kind::kTensor}, {"rows", Kind::kInteger}, {"total", Kind::kTensor},
};

const ConstantSpec constants[] = {
    {"bias", "linear.bias", 1, false, -1, {kFloat, device::cpu, -1, 1, kFour, kOne}, 0, 0, 16},
};

const LineInfo lines[] = {{"body[0]", "kernel fused_mul_add", ""}};

struct State {
  AtenTensorHandle bias;
  bool is_used = false;  // by a call, or by a graph for good
};

void* create_state(const AtenTensorHandle* values) { return new State{values[0]}; }
void destroy_state(void* state) { delete static_cast<State*>(state); }
std::size_t kept_bytes(const void*) { return 100; }

Tensor rows_after(AtenTensorHandle tensor, std::int64_t first) {
  const std::int64_t size_of_rest[] = {size(tensor, 0) - first, 4};
  return view(tensor, 2, size_of_rest, strides(tensor), first * stride(tensor, 0));
}

void run(void* opaque, Call& call, const Slot* in, Slot* out) {
  State& state = *static_cast<State*>(opaque);
  call.line = 0;
  const std::int64_t rows = size(in[0].tensor, 0), step = stride(in[0].tensor, 0);
  if (call.check_inputs && rows < 1) refuse_relation("s0 >= 1", "s0 is 0");
  const std::int64_t result_size[] = {rows, 4}, result_stride[] = {4, 1};
  Tensor y = empty(2, result_size, result_stride, {kFloat, device::cpu, 0});
  launch([rows, step, scale = in[3].real, x = data<float>(in[0].tensor),
          w = data<float>(in[1].tensor), total = data<float>(in[2].tensor),
          bias = data<float>(state.bias), target = data<float>(y)] {
    for (std::int64_t n = 0; n < rows * 4; ++n) {
      const float each = x[n / 4 * step + n % 4];
      target[n] = each * static_cast<float>(scale) + w[n % 4] + bias[n % 4];
      total[n % 4] += each;
    }
  });
  out[1].tensor = rows_after(y, 1).release();
  out[0].tensor = y.release();
  out[2].tensor = rows_after(in[0].tensor, 1).release();
  out[3].tensor = share(state.bias).release();
  out[4].integer = rows;
  out[5].tensor = share(in[2].tensor).release();
}

alignas(64) const float blob[64] = {1, 2, 3, 4};

const char* const reasons[] = {"body[9]: it says \"no\"", "body[10]: it does, too"};
GraphInfo graphs = {2, false, false, false, 0, reasons};

#ifdef PIECES
// The same as the only piece of a program, whose first two results stay in the graph's memory. A
// result of the piece becomes a result of the program.
InputSpec piece_inputs[4];
OutputSpec piece_outputs[6];
const ProgramInfo piece_info_ = piece_info("queued at body[0]", 4, piece_inputs, 6, piece_outputs,
                                           run, "cpu", -1, &graphs);

struct Whole {
  State own;
  std::unique_ptr<Piece> piece;
};

void* create_whole(const AtenTensorHandle* values) {
  std::copy(inputs, inputs + 4, piece_inputs);
  std::copy(outputs, outputs + 6, piece_outputs);
  piece_inputs[0].settled = true;
  piece_outputs[0].shared = piece_outputs[1].shared = true;
  return new Whole{{values[0]}, std::make_unique<Piece>(piece_info_)};
}

void destroy_whole(void* state) { delete static_cast<Whole*>(state); }
std::size_t bytes_of_whole(const void* state) {
  return static_cast<const Whole*>(state)->piece->kept_bytes();
}

void run_whole(void* opaque, Call& call, const Slot* in, Slot* out) {
  Whole& whole = *static_cast<Whole*>(opaque);
  whole.piece->run(&whole.own, call, in, out);
}
#endif

}  // namespace

namespace wir::runtime {

const char* why_no_recorder() { return nullptr; }
std::shared_ptr<Recorder> make_recorder(const ProgramInfo&) {
  return std::make_shared<QueueRecorder>();
}

}  // namespace wir::runtime

extern "C" const ProgramInfo wir_program_info = {
    kContract,
    "queued",
    4, inputs,
    6, outputs,
    1, constants,
    1, lines,
    "",
    "",
    reinterpret_cast<const std::uint8_t*>(blob),
    reinterpret_cast<const std::uint8_t*>(blob) + sizeof blob,
    nullptr,
    256,
    DIGEST,
#ifdef PIECES
    create_whole,
    destroy_whole,
    run_whole,
    0, nullptr,
    bytes_of_whole,
#else
    create_state,
    destroy_state,
    run,
    0, nullptr,
    kept_bytes,
    false,
    "cpu",
    -1,
    nullptr,
    nullptr,
    &graphs,
#endif
};

// For tests: the version script shows what begins so.
extern "C" __attribute__((visibility("default"))) void WrapperIRTestFail() { fails = true; }
extern "C" __attribute__((visibility("default"))) void WrapperIRTestCapture(bool on) {
  is_captured = on;
}
extern "C" __attribute__((visibility("default"))) void WrapperIRTestRefuse(bool on) {
  graphs.num_reasons = on ? 2 : 0;
}
extern "C" __attribute__((visibility("default"))) void WrapperIRTestShare(bool on) {
  graphs.shares_results = on;
}
extern "C" __attribute__((visibility("default"))) int WrapperIRTestRecordings() {
  return recordings;
}
