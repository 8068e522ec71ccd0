// Wrapper program constants, forward.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[2, 3]
//
// Constants:
//   weight  float32[3, 3]  0.weight
//   head    float32[3, 3]  head.weight
//   mean    float32[3]  1.running_mean
//   table   int64[2]  _tensor_constant0
//   tall    float32[3, 4] strides [1, 3]  a name with 'quotes' and a?tab
//
// Results:
//   d  float32[2, 4]

#include <memory>
#include <utility>

#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_mm{ "aten::mm", "" };
inline wir::Op aten_mean_dim{ "aten::mean", "dim" };
inline wir::Op aten_lerp_Scalar{ "aten::lerp_", "Scalar" };
inline wir::Op aten_index_Tensor{ "aten::index", "Tensor" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_2_3[] = { 2, 3 };
inline constexpr std::int64_t dims_3_1[] = { 3, 1 };
inline constexpr std::int64_t dims_3_3[] = { 3, 3 };
inline constexpr std::int64_t dims_3[] = { 3 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr std::int64_t dims_2[] = { 2 };
inline constexpr std::int64_t dims_3_4[] = { 3, 4 };
inline constexpr std::int64_t dims_1_3[] = { 1, 3 };

// Memory and views kept between calls.
struct State {
  AtenTensorHandle weight = nullptr;
  AtenTensorHandle head = nullptr;
  AtenTensorHandle mean = nullptr;
  AtenTensorHandle tall = nullptr;
  AtenTensorHandle table = nullptr;
};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  State& state = *made;
  state.weight = constants[0];
  state.head = constants[1];
  state.mean = constants[2];
  state.tall = constants[4];
  state.table = constants[3];
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  wir::Tensor a{};
  aten_mm({ x, state.weight }, { a });
  wir::release(call, 0);
  call.line = 1;
  wir::Tensor b{};
  aten_mm({ a, state.head }, { b });
  a.reset();
  call.line = 2;
  wir::Tensor now{};
  aten_mean_dim({ b, wir::Ints{ 0 } }, { now });
  call.line = 3;
  aten_lerp_Scalar({ state.mean, now, 0.1 });
  now.reset();
  call.line = 4;
  wir::Tensor c{};
  aten_mm({ b, state.tall }, { c });
  b.reset();
  call.line = 5;
  wir::Tensor d{};
  aten_index_Tensor({ c, wir::List{ state.table } }, { d });
  c.reset();
  call.line = 6;
  outputs[0].tensor = d.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_2_3, dims_3_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "d", wir::Kind::kTensor },
};

constexpr wir::ConstantSpec kConstants[] = {
  { "weight", "0.weight", 1, false, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_3_3, dims_3_1 }, 0, 0, 36 },
  { "head", "head.weight", 1, false, 0,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_3_3, dims_3_1 }, 0, 0, 36 },
  { "mean", "1.running_mean", 2, true, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_3, dims_1 }, 0, 64, 12 },
  { "table", "_tensor_constant0", 3, false, -1,
      { wir::dtype::int64, wir::device::cpu, -1, 1, dims_2, dims_1 }, 0, 128, 16 },
  { "tall", "a name with \"quotes\" and a\ttab", 1, false, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_3_4, dims_1_3 }, 0, 192, 48 },
};

constexpr wir::LineInfo kLines[] = {
  { "body[4]", "aten::mm", "" },
  { "body[5]", "aten::mm", "" },
  { "body[7]", "aten::mean.dim", "" },
  { "body[8]", "aten::lerp_.Scalar", "" },
  { "body[10]", "aten::mm", "" },
  { "body[12]", "aten::index.Tensor", "" },
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
  "constants",
  1,
  wir_program::kInputs,
  1,
  wir_program::kOutputs,
  5,
  wir_program::kConstants,
  7,
  wir_program::kLines,
  "",
  "",
  wir_constants_begin,
  wir_constants_end,
  wir_constants_file,
  240,
  wir_constants_digest,
  wir_program::create_state,
  wir_program::destroy_state,
  wir_program::run,
};
