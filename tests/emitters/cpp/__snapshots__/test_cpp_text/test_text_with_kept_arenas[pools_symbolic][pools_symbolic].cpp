// Wrapper program pools_symbolic, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0, 4]
//
// Results:
//   sum  float32[s0, 4]

#include <memory>
#include <utility>

#include <wir/arena.h>
#include <wir/heap.h>
#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" void wir_k_1adfadab9342df09a176(const float*, const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;
inline constexpr auto* add = &::wir_k_1adfadab9342df09a176;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_1[] = { 4, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n_4[] = { wir::kDynamic, 4 };

// Memory and views kept between calls.
struct State {
  wir::Heap heap;
  wir::Arena pool;
};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t kept_bytes(const void* opaque) {
  const State& state = *static_cast<const State*>(opaque);
  return state.heap.bytes() + state.pool.bytes();
}

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const wir::Heap::Call serving(state.heap);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 4096, "size 0 of 'x'");
  }
  call.line = 2;
  const AtenTensorHandle pool = state.pool.at_least(32 * s0, state.heap);
  call.line = 3;
  float* x_ptr = wir::data<float>(x);
  float* a_ptr = wir::data<float>(pool);
  relu(x_ptr, a_ptr, 4 * s0);
  call.line = 4;
  float* b_ptr = wir::data_at<float>(pool, 16 * s0);
  relu(a_ptr, b_ptr, 4 * s0);
  wir::release(call, 0);
  call.line = 5;
  const std::int64_t sum_size[] = { s0, 4 };
  wir::Tensor sum = wir::empty(2, sum_size, dims_4_1, cpu_float32);
  call.line = 6;
  float* sum_ptr = wir::data<float>(sum);
  add(a_ptr, b_ptr, sum_ptr, 4 * s0);
  call.line = 7;
  outputs[0].tensor = sum.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_4, dims_4_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "sum", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[3]", "allocate_pool pool", "" },
  { "body[5]", "kernel relu", "" },
  { "body[7]", "kernel relu", "" },
  { "body[8]", "allocate sum", "" },
  { "body[9]", "kernel add", "" },
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
  "pools_symbolic",
  1,
  wir_program::kInputs,
  1,
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
  0,
  nullptr,
  wir_program::kept_bytes,
};
