// Wrapper program dynamic_shapes, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0, s1]
//   y  float32[s1, s0]
//
// Results:
//   buf2       float32[s0**2]
//   s0
//   s0*s1 + 1

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" AOTITorchError aoti_torch_cpu_mm_out(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;

// Sizes and strides, types and devices.
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr std::int64_t dims_n_n[] = { wir::kDynamic, wir::kDynamic };
inline constexpr std::int64_t dims_n_1[] = { wir::kDynamic, 1 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle x = inputs[0].tensor;
  const AtenTensorHandle y = inputs[1].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  call.line = 1;
  const wir::Int s1 = wir::size(x, 1);
  call.line = 2;
  if (!(s0 <= 1024)) {
    wir::refuse_relation("the first size is at most 1024", "s0 is " + wir::shown(s0));
  }
  if (call.check_inputs) {
    call.line = 3;
    wir::check_range("s0", s0, 2, 1024, "size 0 of 'x'");
    wir::check_range("s1", s1, 1, 64, "size 1 of 'x'");
  }
  if (call.check_inputs) {
    call.line = 3;
    const std::int64_t x_size[] = { s0, s1 };
    const std::int64_t x_stride[] = { s1, 1 };
    wir::check_input(x, "x", { wir::dtype::float32, wir::device::cpu, -1, 2, x_size, x_stride });
  }
  if (call.check_inputs) {
    call.line = 3;
    const std::int64_t y_size[] = { s1, s0 };
    const std::int64_t y_stride[] = { s0, 1 };
    wir::check_input(y, "y", { wir::dtype::float32, wir::device::cpu, -1, 2, y_size, y_stride });
  }
  call.line = 4;
  const std::int64_t buf0_size[] = { s0, s0 };
  const std::int64_t buf0_stride[] = { s0, 1 };
  wir::Tensor buf0 = wir::empty(2, buf0_size, buf0_stride, cpu_float32);
  call.line = 5;
  wir::check(aoti_torch_cpu_mm_out(buf0, x, y));
  wir::release(call, 0);
  wir::release(call, 1);
  call.line = 6;
  const std::int64_t buf1_size[] = { s0, s0 };
  const std::int64_t buf1_stride[] = { s0, 1 };
  wir::Tensor buf1 = wir::empty(2, buf1_size, buf1_stride, cpu_float32);
  call.line = 7;
  float* buf0_ptr = wir::data<float>(buf0);
  float* buf1_ptr = wir::data<float>(buf1);
  relu(buf0_ptr, buf1_ptr, wir::pow(s0, 2));
  buf0.reset();
  call.line = 8;
  const std::int64_t buf2_size[] = { wir::pow(s0, 2) };
  wir::Tensor buf2 = wir::view(buf1, 1, buf2_size, dims_1, 0);
  call.line = 9;
  const wir::Int result_2 = s0 * s1 + 1;
  outputs[0].tensor = buf2.release();
  outputs[1].integer = s0;
  outputs[2].integer = result_2;
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_n, dims_n_1 } },
  { "y", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_n, dims_n_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "buf2", wir::Kind::kTensor },
  { "result_1", wir::Kind::kInteger },
  { "result_2", wir::Kind::kInteger },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind s0", "" },
  { "body[3]", "bind s1", "" },
  { "body[6]", "assert", "" },
  { "inputs", "inputs", "" },
  { "body[7]", "allocate buf0", "" },
  { "body[8]", "aten::mm.out", "" },
  { "body[11]", "allocate buf1", "" },
  { "body[12]", "kernel relu", "" },
  { "body[14]", "reinterpret buf2", "" },
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
  "dynamic_shapes",
  2,
  wir_program::kInputs,
  3,
  wir_program::kOutputs,
  0,
  nullptr,
  10,
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
