// Wrapper program class, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   args  float32[free]
//   int   float32[free]
//   none  int
//
// Results:
//   None       float32[free]
//   __class__  float32[free]
//   lambda
//   Max
//   inputs

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_71098257d7507d91dde1(const float*, float*, std::int64_t);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* def = &::wir_k_71098257d7507d91dde1;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle args = inputs[0].tensor;
  const AtenTensorHandle int_1 = inputs[1].tensor;
  const wir::Int none = inputs[2].integer;
  call.line = 0;
  const wir::Int free = wir::size(args, 0);
  call.line = 1;
  const wir::Int lambda = free + none;
  call.line = 2;
  const wir::Int Max = wir::max<wir::Int>(2, lambda);
  call.line = 3;
  const wir::Int inputs_1 = Max + lambda;
  if (call.check_inputs) {
    call.line = 4;
    wir::check_range("free", free, 1, INT64_MAX, "size 0 of 'args'");
  }
  if (call.check_inputs) {
    call.line = 4;
    const std::int64_t int_1_size[] = { free };
    wir::check_input(
        int_1, "int", { wir::dtype::float32, wir::device::cpu, -1, 1, int_1_size, dims_1 });
  }
  call.line = 5;
  const std::int64_t torch_1_size[] = { free };
  wir::Tensor torch_1 = wir::empty(1, torch_1_size, dims_1, cpu_float32);
  call.line = 6;
  float* args_ptr = wir::data<float>(args);
  float* torch_1_ptr = wir::data<float>(torch_1);
  def(args_ptr, torch_1_ptr, free);
  wir::release(call, 0);
  call.line = 7;
  const std::int64_t return_1_size[] = { free };
  wir::Tensor return_1 = wir::empty(1, return_1_size, dims_1, cpu_float32);
  call.line = 8;
  float* return_1_ptr = wir::data<float>(return_1);
  def(torch_1_ptr, return_1_ptr, free);
  torch_1.reset();
  call.line = 9;
  const std::int64_t None_size[] = { free };
  wir::Tensor None = wir::view(return_1, 1, None_size, dims_1, 0);
  call.line = 10;
  const std::int64_t v_class_size[] = { free };
  wir::Tensor v_class = wir::empty(1, v_class_size, dims_1, cpu_float32);
  call.line = 11;
  float* int_1_ptr = wir::data<float>(int_1);
  float* v_class_ptr = wir::data<float>(v_class);
  def(int_1_ptr, v_class_ptr, free);
  call.line = 12;
  outputs[0].tensor = None.release();
  outputs[1].tensor = v_class.release();
  outputs[2].integer = lambda;
  outputs[3].integer = Max;
  outputs[4].integer = inputs_1;
}

constexpr wir::InputSpec kInputs[] = {
  { "args", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
  { "int", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
  { "none", wir::Kind::kInteger, false, false, {} },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "None", wir::Kind::kTensor },
  { "__class__", wir::Kind::kTensor },
  { "result_2", wir::Kind::kInteger },
  { "result_3", wir::Kind::kInteger },
  { "result_4", wir::Kind::kInteger },
};

constexpr wir::LineInfo kLines[] = {
  { "body[1]", "bind free", "" },
  { "body[2]", "compute lambda", "" },
  { "body[3]", "compute Max", "" },
  { "body[4]", "compute inputs", "" },
  { "inputs", "inputs", "" },
  { "body[5]", "allocate torch", "" },
  { "body[6]", "kernel def", "" },
  { "body[7]", "allocate return", "" },
  { "body[8]", "kernel def", "" },
  { "body[10]", "reinterpret None", "" },
  { "body[11]", "allocate __class__", "" },
  { "body[12]", "kernel def", "" },
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
  "class",
  3,
  wir_program::kInputs,
  5,
  wir_program::kOutputs,
  0,
  nullptr,
  13,
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
