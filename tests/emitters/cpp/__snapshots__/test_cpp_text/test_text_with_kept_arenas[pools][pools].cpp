// Wrapper program pools, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[16]
//
// Results:
//   sum  float32[4, 4]

#include <memory>
#include <utility>

#include <wir/arena.h>
#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" void wir_k_ac96abd6786ee8d05387(const float*, float*, std::int64_t);
extern "C" void wir_k_1adfadab9342df09a176(const float*, const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;
inline constexpr auto* double_it = &::wir_k_ac96abd6786ee8d05387;
inline constexpr auto* add = &::wir_k_1adfadab9342df09a176;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_4[] = { 4, 4 };
inline constexpr std::int64_t dims_4_1[] = { 4, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_16[] = { 16 };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {
  wir::Arena pool;
  float* a_ptr = nullptr;
  float* b_ptr = nullptr;
  float* c_ptr = nullptr;
};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  State& state = *made;
  state.pool = wir::Arena(128);
  state.a_ptr = wir::data<float>(state.pool);
  state.b_ptr = wir::data_at<float>(state.pool, 64);
  state.c_ptr = wir::data<float>(state.pool);
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t kept_bytes(const void*) { return 128; }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle x = inputs[0].tensor;
  float* x_ptr = wir::data<float>(x);
  relu(x_ptr, state.a_ptr, 16);
  double_it(state.a_ptr, state.b_ptr, 16);
  double_it(state.b_ptr, state.c_ptr, 16);
  wir::release(call, 0);
  call.line = 0;
  wir::Tensor sum = wir::empty(2, dims_4_4, dims_4_1, cpu_float32);
  float* sum_ptr = wir::data<float>(sum);
  add(state.b_ptr, state.c_ptr, sum_ptr, 16);
  call.line = 1;
  outputs[0].tensor = sum.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_16, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "sum", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[11]", "allocate sum", "" },
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
  "pools",
  1,
  wir_program::kInputs,
  1,
  wir_program::kOutputs,
  0,
  nullptr,
  2,
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
  0,
  nullptr,
  wir_program::kept_bytes,
};
