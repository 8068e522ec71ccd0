// Wrapper program probes, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0, 4]
//
// Results:
//   a  float32[s0, 4]

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" void wir_k_b09e48c98e5bcab7d73a(float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;
inline constexpr auto* add_one = &::wir_k_b09e48c98e5bcab7d73a;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_1[] = { 4, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n_4[] = { wir::kDynamic, 4 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 64, "size 0 of 'x'");
  }
  call.line = 2;
  const std::int64_t a_size[] = { s0, 4 };
  wir::Tensor a = wir::empty(2, a_size, dims_4_1, cpu_float32);
  if (call.probes != nullptr) {
    // relu before
    call.line = 3;
    call.probes->show(0, { { .tensor = x }, { .tensor = a }, { .integer = 4 * s0 } });
  }
  call.line = 4;
  float* x_ptr = wir::data<float>(x);
  float* a_ptr = wir::data<float>(a);
  relu(x_ptr, a_ptr, 4 * s0);
  if (call.probes != nullptr) {
    // relu after
    call.line = 5;
    call.probes->show(1, { { .tensor = a } });
  }
  if (call.probes != nullptr) {
    // relu after
    call.line = 6;
    call.probes->show(2, { { .tensor = a } });
  }
  if (call.probes != nullptr) {
    // relu after
    call.line = 7;
    call.probes->show(3, { { .tensor = a }, { .tensor = x } });
  }
  if (call.probes != nullptr) {
    // add_one before
    call.line = 8;
    call.probes->show(4, { { .tensor = a }, { .integer = s0 }, { .real = 0.5 } });
  }
  call.line = 9;
  add_one(a_ptr, 4 * s0);
  if (call.probes != nullptr) {
    // add_one after
    call.line = 10;
    call.probes->show(5, { { .tensor = a } });
  }
  call.line = 11;
  outputs[0].tensor = a.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_4, dims_4_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "a", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[3]", "allocate a", "" },
  { "body[4]", "probe before relu", "" },
  { "body[5]", "kernel relu", "" },
  { "body[6]", "probe after relu", "" },
  { "body[7]", "probe after relu", "" },
  { "body[8]", "probe after relu", "" },
  { "body[9]", "probe before add_one", "" },
  { "body[10]", "kernel add_one", "" },
  { "body[11]", "probe after add_one", "" },
  { "results", "results", "" },
};

constexpr wir::ProbeOperand kProbeOperands[] = {
  { "x", wir::ProbeOperand::Kind::kTensor },
  { "a", wir::ProbeOperand::Kind::kTensor },
  { "4*s0", wir::ProbeOperand::Kind::kInteger },
  { "a", wir::ProbeOperand::Kind::kTensor },
  { "a", wir::ProbeOperand::Kind::kTensor },
  { "a", wir::ProbeOperand::Kind::kTensor },
  { "x", wir::ProbeOperand::Kind::kTensor },
  { "a", wir::ProbeOperand::Kind::kTensor },
  { "s0", wir::ProbeOperand::Kind::kInteger },
  { "0.5", wir::ProbeOperand::Kind::kReal },
  { "a", wir::ProbeOperand::Kind::kTensor },
};

constexpr wir::ProbeInfo kProbes[] = {
  { "relu", false, wir::ProbeLevel::kNames, "", 3, kProbeOperands + 0 },
  { "relu", true, wir::ProbeLevel::kPrint, "", 1, kProbeOperands + 3 },
  { "relu", true, wir::ProbeLevel::kSave, "", 1, kProbeOperands + 4 },
  { "relu", true, wir::ProbeLevel::kStats, "", 2, kProbeOperands + 5 },
  { "add_one", false, wir::ProbeLevel::kCompare, "", 3, kProbeOperands + 7 },
  { "add_one", true, wir::ProbeLevel::kCheck, "", 1, kProbeOperands + 10 },
};

}  // namespace
}  // namespace wir_program

// Defined by the build; null if absent.
extern "C" {
[[gnu::weak, gnu::visibility("hidden")]] extern const std::uint8_t wir_constants_begin[];
[[gnu::weak, gnu::visibility("hidden")]] extern const std::uint8_t wir_constants_end[];
[[gnu::weak, gnu::visibility("hidden")]] extern const char wir_constants_file[];
[[gnu::weak, gnu::visibility("hidden")]] extern const char wir_constants_digest[];
}

extern "C" const wir::ProgramInfo wir_program_info = {
  wir::kContract,
  "probes",
  1,
  wir_program::kInputs,
  1,
  wir_program::kOutputs,
  0,
  nullptr,
  12,
  wir_program::kLines,
  "",
  "",
  wir_constants_begin,
  wir_constants_end,
  wir_constants_file,
  0,
  wir_constants_digest,
  wir_program::create_state,
  wir_program::destroy_state,
  wir_program::run,
  6,
  wir_program::kProbes,
};
