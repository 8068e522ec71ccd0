// Wrapper program switch, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   i  int32[1]
//   x  float32[s0, 2]
//
// Results:
//   b   float32[s0, 2]
//   u0

#include <memory>
#include <utility>

#include <wir/control.h>
#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_relu{ "aten::relu", "" };
inline wir::Op aten_neg{ "aten::neg", "" };
inline wir::Op aten_mul_Scalar{ "aten::mul", "Scalar" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr std::int64_t dims_n_2[] = { wir::kDynamic, 2 };
inline constexpr std::int64_t dims_2_1[] = { 2, 1 };

// Memory and views kept between calls.
struct State {};

namespace {

void switch_4_case0(State& state, wir::Call& call, AtenTensorHandle x0, wir::Int s0,
    wir::Tensor& result, wir::Int& result_1);
void switch_4_case1(State& state, wir::Call& call, AtenTensorHandle x1, wir::Int s0,
    wir::Tensor& result_2, wir::Int& result_3);
void switch_4_case2(State& state, wir::Call& call, AtenTensorHandle x2, wir::Int s0,
    wir::Tensor& result_4, wir::Int& result_5);
void switch_4_0_case0(State& state, wir::Call& call, AtenTensorHandle x3, wir::Int s1, wir::Int s0,
    wir::Tensor& result_6);
void switch_4_0_case1(State& state, wir::Call& call, AtenTensorHandle x4, wir::Int u1, wir::Int s0,
    wir::Tensor& result_7);
void switch_5_case0(
    State& state, wir::Call& call, AtenTensorHandle x5, wir::Int s0, wir::Tensor& result_8);

void switch_4_case0(State& state, wir::Call& call, AtenTensorHandle x0, wir::Int s0,
    wir::Tensor& result, wir::Int& result_1) {
  call.line = 3;
  wir::Tensor y0{};
  aten_relu({ x0 }, { y0 });
  result = std::move(y0);
  result_1 = s0;
}

void switch_4_case1(State& state, wir::Call& call, AtenTensorHandle x1, wir::Int s0,
    wir::Tensor& result_2, wir::Int& result_3) {
  call.line = 4;
  wir::Tensor y1{};
  aten_neg({ x1 }, { y1 });
  result_2 = std::move(y1);
  result_3 = 2 * s0;
}

void switch_4_0_case0(State& state, wir::Call& call, AtenTensorHandle x3, wir::Int s1, wir::Int s0,
    wir::Tensor& result_6) {
  call.line = 5;
  wir::Tensor y3{};
  aten_mul_Scalar({ x3, s1 }, { y3 });
  result_6 = std::move(y3);
}

void switch_4_0_case1(State& state, wir::Call& call, AtenTensorHandle x4, wir::Int u1, wir::Int s0,
    wir::Tensor& result_7) {
  call.line = 6;
  wir::Tensor y4{};
  aten_mul_Scalar({ x4, s0 + u1 }, { y4 });
  result_7 = std::move(y4);
}

void switch_4_case2(State& state, wir::Call& call, AtenTensorHandle x2, wir::Int s0,
    wir::Tensor& result_4, wir::Int& result_5) {
  const wir::Int position_1 = s0 - 4;
  wir::Tensor y2{};
  call.line = 7;
  if (position_1 <= 0) {
    switch_4_0_case0(state, call, x2, s0, s0, y2);
  } else {
    switch_4_0_case1(state, call, x2, s0, s0, y2);
  }
  result_4 = std::move(y2);
  result_5 = 7;
}

void switch_5_case0(
    State& state, wir::Call& call, AtenTensorHandle x5, wir::Int s0, wir::Tensor& result_8) {
  call.line = 8;
  wir::Tensor y5{};
  aten_neg({ x5 }, { y5 });
  result_8 = std::move(y5);
}

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle i = inputs[0].tensor;
  const AtenTensorHandle x = inputs[1].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 64, "size 0 of 'x'");
  }
  call.line = 2;
  const wir::Int position = wir::integer_item(i);
  wir::Tensor a{};
  wir::Int u0{};
  call.line = 2;
  if (position <= 0) {
    switch_4_case0(state, call, x, s0, a, u0);
  } else if (position == 1) {
    switch_4_case1(state, call, x, s0, a, u0);
  } else {
    switch_4_case2(state, call, x, s0, a, u0);
  }
  const wir::Int position_2 = u0;
  wir::Tensor b{};
  call.line = 9;
  {
    switch_5_case0(state, call, a, s0, b);
  }
  a.reset();
  call.line = 10;
  outputs[0].tensor = b.release();
  outputs[1].integer = u0;
}

constexpr wir::InputSpec kInputs[] = {
  { "i", wir::Kind::kTensor, false, false,
      { wir::dtype::int32, wir::device::cpu, -1, 1, dims_1, dims_1 } },
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_2, dims_2_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "b", wir::Kind::kTensor },
  { "result_1", wir::Kind::kInteger },
};

constexpr wir::LineInfo kLines[] = {
  { "body[3]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[4]", "switch", "" },
  { "body[4].case0[0]", "aten::relu", "" },
  { "body[4].case1[0]", "aten::neg", "" },
  { "body[4].case2[0].case0[0]", "aten::mul.Scalar", "" },
  { "body[4].case2[0].case1[0]", "aten::mul.Scalar", "" },
  { "body[4].case2[0]", "switch", "" },
  { "body[5].case0[0]", "aten::neg", "" },
  { "body[5]", "switch", "" },
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
  "switch",
  2,
  wir_program::kInputs,
  2,
  wir_program::kOutputs,
  0,
  nullptr,
  11,
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
