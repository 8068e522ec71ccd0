// Wrapper program item, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   n  int64[1]
//   v  float32[]
//
// Results:
//   y   float32[u0]
//   u0
//   z0

#include <memory>
#include <utility>

#include <wir/control.h>
#include <wir/generated.h>

extern "C" void wir_k_eeab5bec6f14a6595fa4(float*, std::int64_t, double);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* iota = &::wir_k_eeab5bec6f14a6595fa4;

// Library ops called by schema.
inline wir::Op aten_local_scalar_dense{ "aten::_local_scalar_dense", "" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle n = inputs[0].tensor;
  const AtenTensorHandle v = inputs[1].tensor;
  call.line = 0;
  const wir::Int u0 = wir::integer_item(n);
  call.line = 1;
  if (!(u0 >= 0 && u0 <= 16)) {
    wir::refuse_relation("a length", "u0 is " + wir::shown(u0));
  }
  wir::release(call, 0);
  call.line = 2;
  double z0{};
  aten_local_scalar_dense({ v }, { z0 });
  wir::release(call, 1);
  call.line = 3;
  const std::int64_t y_size[] = { u0 };
  wir::Tensor y = wir::empty(1, y_size, dims_1, cpu_float32);
  call.line = 4;
  float* y_ptr = wir::data<float>(y);
  iota(y_ptr, u0, 2.0 * z0);
  call.line = 5;
  outputs[0].tensor = y.release();
  outputs[1].integer = u0;
  outputs[2].real = z0;
}

constexpr wir::InputSpec kInputs[] = {
  { "n", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cpu, -1, 1, dims_1, dims_1 } },
  { "v", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 0, nullptr, nullptr } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "y", wir::Kind::kTensor },
  { "result_1", wir::Kind::kInteger },
  { "result_2", wir::Kind::kReal },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind u0", "" },
  { "body[3]", "assert", "" },
  { "body[4]", "aten::_local_scalar_dense", "" },
  { "body[5]", "allocate y", "" },
  { "body[6]", "kernel iota", "" },
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
  "item",
  2,
  wir_program::kInputs,
  3,
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
