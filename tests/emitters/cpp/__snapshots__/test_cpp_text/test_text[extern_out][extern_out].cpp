// Wrapper program extern_out, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[4, 8]
//
// Constants:
//   weight  float32[3, 8]  linear.weight
//   bias    float32[3]  linear.bias
//
// Results:
//   buf1  float32[4, 3]

#include <memory>
#include <utility>

#include <wir/generated.h>
#include <wir/rows.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_relu_out{ "aten::relu", "out" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_3[] = { 4, 3 };
inline constexpr std::int64_t dims_3_1[] = { 3, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_8_3[] = { 8, 3 };
inline constexpr std::int64_t dims_1_8[] = { 1, 8 };
inline constexpr std::int64_t dims_4_8[] = { 4, 8 };
inline constexpr std::int64_t dims_8_1[] = { 8, 1 };
inline constexpr std::int64_t dims_3_8[] = { 3, 8 };
inline constexpr std::int64_t dims_3[] = { 3 };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {
  wir::Tensor buf0;
  AtenTensorHandle weight = nullptr;
  wir::Tensor weight_t;
  float* buf0_ptr = nullptr;
  AtenTensorHandle bias = nullptr;
  float* bias_ptr = nullptr;
};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  State& state = *made;
  state.buf0 = wir::empty(2, dims_4_3, dims_3_1, cpu_float32);
  state.weight = constants[0];
  state.weight_t = wir::view(state.weight, 2, dims_8_3, dims_1_8, 0);
  state.buf0_ptr = wir::data<float>(state.buf0);
  state.bias = constants[1];
  state.bias_ptr = wir::data<float>(state.bias);
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t kept_bytes(const void*) { return 48; }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  wir::addmm(state.buf0, x, state.weight_t, state.buf0_ptr, state.bias_ptr, 4, 12, 1.0);
  wir::release(call, 0);
  call.line = 1;
  wir::Tensor buf1 = wir::empty(2, dims_4_3, dims_3_1, cpu_float32);
  call.line = 2;
  aten_relu_out({ state.buf0, buf1 });
  call.line = 3;
  outputs[0].tensor = buf1.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_4_8, dims_8_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "buf1", wir::Kind::kTensor },
};

constexpr wir::ConstantSpec kConstants[] = {
  { "weight", "linear.weight", 1, false, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_3_8, dims_8_1 }, 0, 0, 96 },
  { "bias", "linear.bias", 1, false, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_3, dims_1 }, 0, 128, 12 },
};

constexpr wir::LineInfo kLines[] = {
  { "body[4]", "aten::addmm.out", "" },
  { "body[5]", "allocate buf1", "" },
  { "body[6]", "aten::relu.out", "" },
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
  "extern_out",
  1,
  wir_program::kInputs,
  1,
  wir_program::kOutputs,
  2,
  wir_program::kConstants,
  4,
  wir_program::kLines,
  "",
  "",
  wir_constants_begin,
  wir_constants_end,
  wir_constants_file,
  140,
  wir_constants_digest,
  wir_program::create_state,
  wir_program::destroy_state,
  wir_program::run,
  0,
  nullptr,
  wir_program::kept_bytes,
};
