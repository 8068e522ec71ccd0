// Wrapper program results, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0, 4]
//
// Results:
//   buf0             float32[s0, 4]
//   buf0             float32[s0, 4]
//   view             float32[4, s0] strides [1, 4]
//   x                float32[s0, 4]
//   None
//   s0
//   4*s0
//   FloorDiv(s0, 2)
//   TrueDiv(s0, 2)
//   s0 > 2

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_1[] = { 4, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_1_4[] = { 1, 4 };
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
    wir::check_range("s0", s0, 1, INT64_MAX, "size 0 of 'x'");
  }
  call.line = 2;
  const std::int64_t buf0_size[] = { s0, 4 };
  wir::Tensor buf0 = wir::empty(2, buf0_size, dims_4_1, cpu_float32);
  call.line = 3;
  float* x_ptr = wir::data<float>(x);
  float* buf0_ptr = wir::data<float>(buf0);
  relu(x_ptr, buf0_ptr, 4 * s0);
  call.line = 4;
  const std::int64_t view_size[] = { 4, s0 };
  wir::Tensor view = wir::view(buf0, 2, view_size, dims_1_4, 0);
  call.line = 5;
  wir::Tensor result_0 = wir::share(buf0);
  wir::Tensor result_3 = wir::share(x);
  const wir::Int result_6 = 4 * s0;
  const wir::Int result_7 = wir::floor_div(s0, 2);
  const double result_8 = wir::true_div(s0, wir::Int(2));
  const bool result_9 = s0 > 2;
  outputs[0].tensor = result_0.release();
  outputs[1].tensor = buf0.release();
  outputs[2].tensor = view.release();
  outputs[3].tensor = result_3.release();
  outputs[4].tensor = nullptr;
  outputs[5].integer = s0;
  outputs[6].integer = result_6;
  outputs[7].integer = result_7;
  outputs[8].real = result_8;
  outputs[9].integer = result_9 ? 1 : 0;
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_4, dims_4_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "buf0", wir::Kind::kTensor },
  { "buf0", wir::Kind::kTensor },
  { "view", wir::Kind::kTensor },
  { "x", wir::Kind::kTensor },
  { "result_4", wir::Kind::kNone },
  { "result_5", wir::Kind::kInteger },
  { "result_6", wir::Kind::kInteger },
  { "result_7", wir::Kind::kInteger },
  { "result_8", wir::Kind::kReal },
  { "result_9", wir::Kind::kBool },
};

constexpr wir::LineInfo kLines[] = {
  { "body[1]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[2]", "allocate buf0", "" },
  { "body[3]", "kernel relu", "" },
  { "body[4]", "reinterpret view", "" },
  { "results", "results", "" },
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
  "results",
  1,
  wir_program::kInputs,
  10,
  wir_program::kOutputs,
  0,
  nullptr,
  6,
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
};
