// Wrapper program cond_nested, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0]
//
// Results:
//   a   float32[s0]
//   u0

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" void wir_k_ac96abd6786ee8d05387(const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;
inline constexpr auto* double_it = &::wir_k_ac96abd6786ee8d05387;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };

// Memory and views kept between calls.
struct State {};

namespace {

void cond_3_then(State& state, wir::Call& call, AtenTensorHandle x0, wir::Int s0,
    wir::Tensor& result, wir::Int& result_1);
void cond_3_0_then(State& state, wir::Call& call, AtenTensorHandle x1, wir::Int s0,
    wir::Tensor& result_2, wir::Int& result_3);
void cond_3_0_else(State& state, wir::Call& call, AtenTensorHandle x2, wir::Int s0,
    wir::Tensor& result_4, wir::Int& result_5);
void cond_3_else(State& state, wir::Call& call, AtenTensorHandle x3, wir::Int s0,
    wir::Tensor& result_6, wir::Int& result_7);

void cond_3_0_then(State& state, wir::Call& call, AtenTensorHandle x1, wir::Int s0,
    wir::Tensor& result_2, wir::Int& result_3) {
  call.line = 2;
  const std::int64_t z0_size[] = { s0 };
  wir::Tensor z0 = wir::empty(1, z0_size, dims_1, cpu_float32);
  call.line = 3;
  float* x1_ptr = wir::data<float>(x1);
  float* z0_ptr = wir::data<float>(z0);
  relu(x1_ptr, z0_ptr, s0);
  result_2 = std::move(z0);
  result_3 = 1;
}

void cond_3_0_else(State& state, wir::Call& call, AtenTensorHandle x2, wir::Int s0,
    wir::Tensor& result_4, wir::Int& result_5) {
  call.line = 4;
  const std::int64_t z1_size[] = { s0 };
  wir::Tensor z1 = wir::empty(1, z1_size, dims_1, cpu_float32);
  call.line = 5;
  float* x2_ptr = wir::data<float>(x2);
  float* z1_ptr = wir::data<float>(z1);
  double_it(x2_ptr, z1_ptr, s0);
  result_4 = std::move(z1);
  result_5 = 2;
}

void cond_3_then(State& state, wir::Call& call, AtenTensorHandle x0, wir::Int s0,
    wir::Tensor& result, wir::Int& result_1) {
  wir::Tensor y0{};
  wir::Int u1{};
  call.line = 6;
  if (wir::mod(s0, 2) == 0) {
    cond_3_0_then(state, call, x0, s0, y0, u1);
  } else {
    cond_3_0_else(state, call, x0, s0, y0, u1);
  }
  result = std::move(y0);
  result_1 = 10 * u1;
}

void cond_3_else(State& state, wir::Call& call, AtenTensorHandle x3, wir::Int s0,
    wir::Tensor& result_6, wir::Int& result_7) {
  call.line = 7;
  const std::int64_t y1_size[] = { s0 };
  wir::Tensor y1 = wir::empty(1, y1_size, dims_1, cpu_float32);
  call.line = 8;
  float* x3_ptr = wir::data<float>(x3);
  float* y1_ptr = wir::data<float>(y1);
  double_it(x3_ptr, y1_ptr, s0);
  result_6 = std::move(y1);
  result_7 = -s0;
}

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 64, "size 0 of 'x'");
  }
  wir::Tensor a{};
  wir::Int u0{};
  call.line = 9;
  if (s0 < 8) {
    cond_3_then(state, call, x, s0, a, u0);
  } else {
    cond_3_else(state, call, x, s0, a, u0);
  }
  call.line = 10;
  outputs[0].tensor = a.release();
  outputs[1].integer = u0;
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "a", wir::Kind::kTensor },
  { "result_1", wir::Kind::kInteger },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[3].then[0].then[0]", "allocate z0", "" },
  { "body[3].then[0].then[1]", "kernel relu", "" },
  { "body[3].then[0].else[0]", "allocate z1", "" },
  { "body[3].then[0].else[1]", "kernel double_it", "" },
  { "body[3].then[0]", "cond", "" },
  { "body[3].else[0]", "allocate y1", "" },
  { "body[3].else[1]", "kernel double_it", "" },
  { "body[3]", "cond", "" },
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
  "cond_nested",
  1,
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
