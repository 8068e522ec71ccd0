// What the emitter would write, by hand, to try what Python makes of a library: a program that
// adds a scaled constant to its input, counts its calls, and fails when it is told to.
#include <atomic>
#include <new>
#include <stdexcept>

#include <wir/error.h>
#include <wir/program.h>
#include <wir/tensor.h>

namespace {

const std::int64_t kSize[] = {wir::kDynamic, 3};
const std::int64_t kStride[] = {3, 1};
const std::int64_t kWeightSize[] = {3};
const std::int64_t kWeightStride[] = {1};

const wir::InputSpec kInputs[] = {
    {"x", wir::Kind::kTensor, false, true, {6, 0, -1, 2, kSize, kStride}},
    {"saved", wir::Kind::kTensor, false, false, {6, 0, -1, 2, kSize, kStride}},
    {"n", wir::Kind::kInteger, false, false, {}},
    {"scale", wir::Kind::kReal, false, false, {}},
    {"flag", wir::Kind::kBool, false, false, {}},
    {"nothing", wir::Kind::kNone, false, false, {}},
};

const wir::OutputSpec kOutputs[] = {
    {"sum", wir::Kind::kTensor}, {"x", wir::Kind::kTensor},   {"none", wir::Kind::kTensor},
    {"n", wir::Kind::kInteger},  {"scale", wir::Kind::kReal}, {"flag", wir::Kind::kBool},
    {"nothing", wir::Kind::kNone},
};

const wir::ConstantSpec kConstants[] = {
    {"weight", "layer.weight", 1, false, -1, {6, 0, -1, 1, kWeightSize, kWeightStride}, 0, 0, 12},
};

const wir::LineInfo kLines[] = {
    {"body[0]", "allocate sum", ""},
    {"body[1]", "kernel add(sum: f32[4, 3])", "model.py:7 in forward"},
};

struct State {
  const float* weight;
};

std::atomic<int> alive{0};

void* create_state(const AtenTensorHandle* constants) {
  ++alive;
  return new State{wir::data<const float>(constants[0])};
}

void destroy_state(void* state) {
  --alive;
  delete static_cast<State*>(state);
}

void run(void* state, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  call.line = 0;
  const auto* x = inputs[0].tensor;
  const std::int64_t rows = wir::sizes(inputs[0].tensor)[0];
  const std::int64_t size[] = {rows, 3};
  wir::Tensor sum = wir::empty(2, size, kStride, {6, 0, -1});
  call.line = 1;
  switch (inputs[2].integer) {
    case -1:
      throw wir::Error("WIR2153", "the program needs {relation}, but {values}",
                       {"n >= 0", "n is -1"}, "give another n");
    case -2:
      throw std::bad_alloc();
    case -3: {
      const std::int64_t wrong[] = {-7};
      wir::empty(1, wrong, kWeightStride, {6, 0, -1});
      break;
    }
    case -4:
      throw std::runtime_error("something else");
    case -5:
      throw 5;
    default:
      break;
  }
  (void)x;
  const float* in = wir::data<const float>(inputs[0].tensor);
  const float* saved = wir::data<const float>(inputs[1].tensor);
  const float* weight = static_cast<State*>(state)->weight;
  float* out = wir::data<float>(sum);
  for (std::int64_t n = 0; n < rows * 3; ++n) {
    out[n] = in[n] + saved[n] + static_cast<float>(inputs[3].real) * weight[n % 3];
  }
  wir::release(call, 1);
  if (inputs[2].integer == -6) throw std::runtime_error("after the last use of saved");
  outputs[3].integer = alive.load();
  outputs[4].real = inputs[3].real;
  outputs[5].integer = inputs[4].integer;
  outputs[1].tensor = wir::share(inputs[0].tensor).release();
  outputs[0].tensor = sum.release();
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const wir::ProgramInfo wir_program_info;
const wir::ProgramInfo wir_program_info = {
    wir::kContract, "handmade", 6, kInputs, 7, kOutputs, 1, kConstants, 2, kLines, "", "", nullptr,
    nullptr, nullptr, 12, "", create_state, destroy_state, run};
