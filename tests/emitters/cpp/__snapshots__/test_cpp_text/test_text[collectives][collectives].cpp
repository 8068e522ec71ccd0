// Wrapper program collectives, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[8] on cuda:0
//
// Results:
//   shared  float32[8] on cuda:0
//   all     float32[16] on cuda:0

#include <memory>
#include <utility>

#include <wir/generated.h>
#include <wir/gpu.h>
#include <wir/peers.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_copy_{ "aten::copy_", "" };
inline wir::Op v_c10d_functional_all_reduce{ "_c10d_functional::all_reduce_", "" };
inline wir::Op v_c10d_functional_wait_tensor{ "_c10d_functional::wait_tensor", "" };
inline wir::Op v_c10d_functional_all_gather_into_tensor{ "_c10d_functional::all_gather_into_tensor",
  "" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_8[] = { 8 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cuda_float32{ wir::dtype::float32, wir::device::cuda, 0 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const wir::GpuCall on_gpu(call, 0);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  wir::Tensor shared = wir::empty_for_peers(1, dims_8, dims_1, cuda_float32);
  call.line = 1;
  aten_copy_({ shared, x });
  wir::release(call, 0);
  call.line = 2;
  v_c10d_functional_all_reduce({ shared, "sum", "default" });
  call.line = 3;
  v_c10d_functional_wait_tensor({ shared });
  call.line = 4;
  wir::Tensor all{};
  v_c10d_functional_all_gather_into_tensor({ shared, 2, "default" }, { all });
  call.line = 5;
  v_c10d_functional_wait_tensor({ all });
  call.line = 6;
  outputs[0].tensor = shared.release();
  outputs[1].tensor = all.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cuda, 0, 1, dims_8, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "shared", wir::Kind::kTensor },
  { "all", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[4]", "allocate shared", "" },
  { "body[5]", "aten::copy_", "" },
  { "body[6]", "_c10d_functional::all_reduce_", "" },
  { "body[7]", "_c10d_functional::wait_tensor", "" },
  { "body[8]", "_c10d_functional::all_gather_into_tensor", "" },
  { "body[9]", "_c10d_functional::wait_tensor", "" },
  { "results", "results", "" },
};

constexpr wir::OpName kOps[] = {
  { "_c10d_functional::all_reduce_", "" },
  { "_c10d_functional::wait_tensor", "" },
  { "_c10d_functional::all_gather_into_tensor", "" },
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
  "collectives",
  1,
  wir_program::kInputs,
  2,
  wir_program::kOutputs,
  0,
  nullptr,
  7,
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
  nullptr,
  false,
  "cuda",
  0,
  nullptr,
  nullptr,
  nullptr,
  0,
  nullptr,
  nullptr,
  nullptr,
  0,
  nullptr,
  3,
  wir_program::kOps,
};
