// Wrapper program while, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   i      int64[]
//   total  float32[s0]
//   x      float32[s0]
//
// Results:
//   count  int64[]
//   sum    float32[s0]

#include <memory>
#include <utility>

#include <wir/control.h>
#include <wir/generated.h>

extern "C" void wir_k_0528f636a6c7e6f83e2d(const std::int64_t*, bool*, std::int64_t);
extern "C" void wir_k_1adfadab9342df09a176(const float*, const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* less_1 = &::wir_k_0528f636a6c7e6f83e2d;
inline constexpr auto* add = &::wir_k_1adfadab9342df09a176;

// Library ops called by schema.
inline wir::Op aten_add_Scalar{ "aten::add", "Scalar" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cpu_bool{ wir::dtype::bool_, wir::device::cpu, 0 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };

// Memory and views kept between calls.
struct State {};

namespace {

void while_6_condition(State& state, wir::Call& call, AtenTensorHandle i0, AtenTensorHandle t0,
    AtenTensorHandle x0, wir::Int s0, wir::Tensor& result);
void while_6_body(State& state, wir::Call& call, AtenTensorHandle i1, AtenTensorHandle t1,
    AtenTensorHandle x1, wir::Int s0, wir::Tensor& result_1, wir::Tensor& result_2);

void while_6_condition(State& state, wir::Call& call, AtenTensorHandle i0, AtenTensorHandle t0,
    AtenTensorHandle x0, wir::Int s0, wir::Tensor& result) {
  call.line = 2;
  wir::Tensor less = wir::empty(0, nullptr, nullptr, cpu_bool);
  std::int64_t* i0_ptr = wir::data<std::int64_t>(i0);
  bool* less_ptr = wir::data<bool>(less);
  less_1(i0_ptr, less_ptr, 5);
  result = std::move(less);
}

void while_6_body(State& state, wir::Call& call, AtenTensorHandle i1, AtenTensorHandle t1,
    AtenTensorHandle x1, wir::Int s0, wir::Tensor& result_1, wir::Tensor& result_2) {
  call.line = 3;
  wir::Tensor next{};
  aten_add_Scalar({ i1, 1 }, { next });
  call.line = 4;
  const std::int64_t more_size[] = { s0 };
  wir::Tensor more = wir::empty(1, more_size, dims_1, cpu_float32);
  call.line = 5;
  float* t1_ptr = wir::data<float>(t1);
  float* x1_ptr = wir::data<float>(x1);
  float* more_ptr = wir::data<float>(more);
  add(t1_ptr, x1_ptr, more_ptr, s0);
  result_1 = std::move(next);
  result_2 = std::move(more);
}

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle i = inputs[0].tensor;
  const AtenTensorHandle total = inputs[1].tensor;
  const AtenTensorHandle x = inputs[2].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 64, "size 0 of 'x'");
  }
  if (call.check_inputs) {
    call.line = 1;
    const std::int64_t total_size[] = { s0 };
    wir::check_input(
        total, "total", { wir::dtype::float32, wir::device::cpu, -1, 1, total_size, dims_1 });
  }
  call.line = 6;
  wir::Tensor carried = wir::share(i);
  wir::Tensor carried_1 = wir::share(total);
  for (;;) {
    wir::Tensor goes_on{};
    while_6_condition(state, call, carried, carried_1, x, s0, goes_on);
    if (!wir::truth(goes_on)) break;
    wir::Tensor next_1{};
    wir::Tensor next_2{};
    while_6_body(state, call, carried, carried_1, x, s0, next_1, next_2);
    carried = std::move(next_1);
    carried_1 = std::move(next_2);
    call.line = 6;
  }
  wir::Tensor count = wir::own(std::move(carried), { i, total, x });
  wir::Tensor sum = wir::own(std::move(carried_1), { i, total, x });
  call.line = 7;
  outputs[0].tensor = count.release();
  outputs[1].tensor = sum.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "i", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cpu, -1, 0, nullptr, nullptr } },
  { "total", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "count", wir::Kind::kTensor },
  { "sum", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[4]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[6].condition[0]", "allocate less", "" },
  { "body[6].body[0]", "aten::add.Scalar", "" },
  { "body[6].body[1]", "allocate more", "" },
  { "body[6].body[2]", "kernel add", "" },
  { "body[6]", "while", "" },
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
  "while",
  3,
  wir_program::kInputs,
  2,
  wir_program::kOutputs,
  0,
  nullptr,
  8,
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
