// Wrapper program while_stacked, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   i  int64[]
//   x  float32[3]
//
// Results:
//   counts  int64[u0]
//   rounds  float32[u0, 3]

#include <memory>
#include <utility>

#include <wir/control.h>
#include <wir/generated.h>

extern "C" void wir_k_0528f636a6c7e6f83e2d(const std::int64_t*, bool*, std::int64_t);
extern "C" void wir_k_ac96abd6786ee8d05387(const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* less_1 = &::wir_k_0528f636a6c7e6f83e2d;
inline constexpr auto* double_it = &::wir_k_ac96abd6786ee8d05387;

// Library ops called by schema.
inline wir::Op aten_add_Scalar{ "aten::add", "Scalar" };

// Sizes and strides, types and devices.
inline constexpr wir::Options cpu_bool{ wir::dtype::bool_, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_3[] = { 3 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };

// Memory and views kept between calls.
struct State {};

namespace {

void while_3_condition(
    State& state, wir::Call& call, AtenTensorHandle i0, AtenTensorHandle x0, wir::Tensor& result);
void while_3_body(State& state, wir::Call& call, AtenTensorHandle i1, AtenTensorHandle x1,
    wir::Tensor& result_1, wir::Tensor& result_2);

void while_3_condition(
    State& state, wir::Call& call, AtenTensorHandle i0, AtenTensorHandle x0, wir::Tensor& result) {
  call.line = 0;
  wir::Tensor less = wir::empty(0, nullptr, nullptr, cpu_bool);
  std::int64_t* i0_ptr = wir::data<std::int64_t>(i0);
  bool* less_ptr = wir::data<bool>(less);
  less_1(i0_ptr, less_ptr, 4);
  result = std::move(less);
}

void while_3_body(State& state, wir::Call& call, AtenTensorHandle i1, AtenTensorHandle x1,
    wir::Tensor& result_1, wir::Tensor& result_2) {
  call.line = 1;
  wir::Tensor next{};
  aten_add_Scalar({ i1, 1 }, { next });
  call.line = 2;
  wir::Tensor y = wir::empty(1, dims_3, dims_1, cpu_float32);
  float* x1_ptr = wir::data<float>(x1);
  float* y_ptr = wir::data<float>(y);
  double_it(x1_ptr, y_ptr, 3);
  result_1 = std::move(next);
  result_2 = std::move(y);
}

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle i = inputs[0].tensor;
  const AtenTensorHandle x = inputs[1].tensor;
  call.line = 3;
  wir::Tensor carried = wir::share(i);
  wir::Tensor carried_1 = wir::share(x);
  wir::Rounds rounds_1(i);
  wir::Rounds rounds_2(x);
  for (;;) {
    wir::Tensor goes_on{};
    while_3_condition(state, call, carried, carried_1, goes_on);
    if (!wir::truth(goes_on)) break;
    wir::Tensor next_1{};
    wir::Tensor next_2{};
    while_3_body(state, call, carried, carried_1, next_1, next_2);
    carried = std::move(next_1);
    carried_1 = std::move(next_2);
    rounds_1.add(carried);
    rounds_2.add(carried_1);
    call.line = 3;
  }
  wir::Tensor counts = rounds_1.stacked();
  wir::Tensor rounds = rounds_2.stacked();
  call.line = 4;
  const wir::Int u0 = wir::size(counts, 0);
  call.line = 5;
  outputs[0].tensor = counts.release();
  outputs[1].tensor = rounds.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "i", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cpu, -1, 0, nullptr, nullptr } },
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_3, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "counts", wir::Kind::kTensor },
  { "rounds", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[3].condition[0]", "allocate less", "" },
  { "body[3].body[0]", "aten::add.Scalar", "" },
  { "body[3].body[1]", "allocate y", "" },
  { "body[3]", "while", "" },
  { "body[4]", "bind u0", "" },
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
  "while_stacked",
  2,
  wir_program::kInputs,
  2,
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
