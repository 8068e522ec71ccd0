// Wrapper program views, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[4, 6]
//
// Results:
//   transposed  float32[6, 4] strides [1, 6]
//   row         float32[6]
//   bits        int32[6]
//   halves      float16[12]
//   expanded    float32[3, 6] strides [0, 1]
//   windows     float32[5, 2] strides [1, 1]
//   column      float32[4] strides [6]
//   x           float32[4, 6]

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_eeab5bec6f14a6595fa4(float*, std::int64_t, double);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* iota = &::wir_k_eeab5bec6f14a6595fa4;

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_4_6[] = { 4, 6 };
inline constexpr std::int64_t dims_6_1[] = { 6, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_6_4[] = { 6, 4 };
inline constexpr std::int64_t dims_1_6[] = { 1, 6 };
inline constexpr std::int64_t dims_6[] = { 6 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr std::int64_t dims_12[] = { 12 };
inline constexpr std::int64_t dims_3_6[] = { 3, 6 };
inline constexpr std::int64_t dims_0_1[] = { 0, 1 };
inline constexpr std::int64_t dims_5_2[] = { 5, 2 };
inline constexpr std::int64_t dims_1_1[] = { 1, 1 };
inline constexpr std::int64_t dims_4[] = { 4 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  wir::Tensor buf0 = wir::empty(2, dims_4_6, dims_6_1, cpu_float32);
  float* buf0_ptr = wir::data<float>(buf0);
  iota(buf0_ptr, 24, 1.0);
  call.line = 1;
  wir::Tensor transposed = wir::view(buf0, 2, dims_6_4, dims_1_6, 0);
  call.line = 2;
  wir::Tensor row = wir::view(buf0, 1, dims_6, dims_1, 12);
  call.line = 3;
  wir::Tensor bits = wir::view_as(row, wir::dtype::int32, 1, dims_6, dims_1, 0);
  call.line = 4;
  wir::Tensor halves = wir::view_as(row, wir::dtype::float16, 1, dims_12, dims_1, 0);
  call.line = 5;
  wir::Tensor expanded = wir::view(buf0, 2, dims_3_6, dims_0_1, 0);
  call.line = 6;
  wir::Tensor windows = wir::view(buf0, 2, dims_5_2, dims_1_1, 0);
  call.line = 7;
  wir::Tensor column = wir::view(x, 1, dims_4, dims_6, 1);
  call.line = 8;
  wir::Tensor result_7 = wir::share(x);
  outputs[0].tensor = transposed.release();
  outputs[1].tensor = row.release();
  outputs[2].tensor = bits.release();
  outputs[3].tensor = halves.release();
  outputs[4].tensor = expanded.release();
  outputs[5].tensor = windows.release();
  outputs[6].tensor = column.release();
  outputs[7].tensor = result_7.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_4_6, dims_6_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "transposed", wir::Kind::kTensor },
  { "row", wir::Kind::kTensor },
  { "bits", wir::Kind::kTensor },
  { "halves", wir::Kind::kTensor },
  { "expanded", wir::Kind::kTensor },
  { "windows", wir::Kind::kTensor },
  { "column", wir::Kind::kTensor },
  { "x", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "allocate buf0", "" },
  { "body[4]", "reinterpret transposed", "" },
  { "body[5]", "reinterpret row", "" },
  { "body[6]", "reinterpret bits", "" },
  { "body[7]", "reinterpret halves", "" },
  { "body[8]", "reinterpret expanded", "" },
  { "body[9]", "reinterpret windows", "" },
  { "body[10]", "reinterpret column", "" },
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
  "views",
  1,
  wir_program::kInputs,
  8,
  wir_program::kOutputs,
  0,
  nullptr,
  9,
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
