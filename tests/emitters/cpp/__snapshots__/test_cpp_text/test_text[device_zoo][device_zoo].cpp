// Wrapper program device_zoo, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   a  float4_e2m1fn_x2[4] on cuda:0
//   b  float8_e8m0fnu[4] on xpu:1
//   c  qint8[4] on mps
//   d  bfloat16[4] on cpu:0
//
// Results:
//   a  float4_e2m1fn_x2[4] on cuda:0
//   b  float8_e8m0fnu[4] on xpu:1
//   c  qint8[4] on mps
//   d  bfloat16[4] on cpu:0

#include <memory>
#include <utility>

#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4[] = { 4 };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle a = inputs[0].tensor;
  const AtenTensorHandle b = inputs[1].tensor;
  const AtenTensorHandle c = inputs[2].tensor;
  const AtenTensorHandle d = inputs[3].tensor;
  call.line = 0;
  wir::Tensor result_0 = wir::share(a);
  wir::Tensor result_1 = wir::share(b);
  wir::Tensor result_2 = wir::share(c);
  wir::Tensor result_3 = wir::share(d);
  outputs[0].tensor = result_0.release();
  outputs[1].tensor = result_1.release();
  outputs[2].tensor = result_2.release();
  outputs[3].tensor = result_3.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "a", wir::Kind::kTensor, false, false,
      { wir::dtype::float4_e2m1fn_x2, wir::device::cuda, 0, 1, dims_4, dims_1 } },
  { "b", wir::Kind::kTensor, false, false,
      { wir::dtype::float8_e8m0fnu, wir::device::xpu, 1, 1, dims_4, dims_1 } },
  { "c", wir::Kind::kTensor, false, false,
      { wir::dtype::qint8, wir::device::mps, -1, 1, dims_4, dims_1 } },
  { "d", wir::Kind::kTensor, false, false,
      { wir::dtype::bfloat16, wir::device::cpu, -1, 1, dims_4, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "a", wir::Kind::kTensor },
  { "b", wir::Kind::kTensor },
  { "c", wir::Kind::kTensor },
  { "d", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
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
  "device_zoo",
  4,
  wir_program::kInputs,
  4,
  wir_program::kOutputs,
  0,
  nullptr,
  1,
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
