// Wrapper program triton, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0] on cuda:0
//
// Results:
//   y  float32[s0] on cuda:0

#include <memory>
#include <utility>

#include <wir/generated.h>
#include <wir/gpu.h>

extern "C" const wir::GpuImage wir_t_a8326ab17c37387e5975[];

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline wir::GpuKernel<const float*, float*, std::int32_t> triton_poi_fused_relu_0{
  "triton_poi_fused_relu_0", ::wir_t_a8326ab17c37387e5975
};

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cuda_float32{ wir::dtype::float32, wir::device::cuda, 0 };
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  triton_poi_fused_relu_0.load(0);
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const wir::GpuCall on_gpu(call, 0);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  call.line = 1;
  wir::check_alignment(x, "x", 16);
  if (call.check_inputs) {
    call.line = 2;
    wir::check_range("s0", s0, 1, INT64_MAX, "size 0 of 'x'");
  }
  call.line = 3;
  const std::int64_t y_size[] = { s0 };
  wir::Tensor y = wir::empty(1, y_size, dims_1, cuda_float32);
  call.line = 4;
  float* x_ptr = wir::data<float>(x);
  float* y_ptr = wir::data<float>(y);
  triton_poi_fused_relu_0(
      call, { wir::ceil_div(s0, 256), 1, 1 }, x_ptr, y_ptr, wir::narrow<std::int32_t>(s0));
  call.line = 5;
  outputs[0].tensor = y.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cuda, 0, 1, dims_n, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "y", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[1]", "bind s0", "" },
  { "body[2]", "assert_layout x", "" },
  { "inputs", "inputs", "" },
  { "body[3]", "allocate y", "" },
  { "body[4]", "kernel triton_poi_fused_relu_0", "" },
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
  "triton",
  1,
  wir_program::kInputs,
  1,
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
  0,
  nullptr,
  nullptr,
  false,
  "cuda",
  0,
};
