// Wrapper program symbols, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   s0  int
//   z0  float
//   x   float32[s1, 3] strides [s2, 1]
//   n   int64[]
//   v   float32[1]
//   c   bool[]
//
// Results:
//   s0
//   s1
//   s2
//   s3
//   s4
//   u0
//   u1
//   z0
//   z1
//   z2
//   b0

#include <memory>
#include <utility>

#include <wir/control.h>
#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_n_3[] = { wir::kDynamic, 3 };
inline constexpr std::int64_t dims_n_1[] = { wir::kDynamic, 1 };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const wir::Int s0 = inputs[0].integer;
  const double z0 = inputs[1].real;
  const AtenTensorHandle x = inputs[2].tensor;
  const AtenTensorHandle n = inputs[3].tensor;
  const AtenTensorHandle v = inputs[4].tensor;
  const AtenTensorHandle c = inputs[5].tensor;
  if (call.check_inputs) {
    call.line = 0;
    wir::check_range("s0", s0, 1, INT64_MAX);
  }
  call.line = 1;
  const wir::Int s1 = wir::size(x, 0);
  call.line = 2;
  const wir::Int s2 = wir::stride(x, 0);
  call.line = 3;
  const wir::Int s4 = wir::offset_of(x);
  if (call.check_inputs) {
    call.line = 0;
    wir::check_range("s1", s1, INT64_MIN, 512, "size 0 of 'x'");
    wir::check_range("s2", s2, INT64_MIN, 100, "stride 0 of 'x'");
  }
  call.line = 4;
  const wir::Int u0 = wir::integer_item(n);
  call.line = 5;
  const double z2 = wir::real_item(v);
  call.line = 6;
  const bool b0 = wir::truth(c);
  call.line = 7;
  const wir::Int s3 = s0 * s1 + 1;
  call.line = 8;
  const wir::Int u1 = wir::floor_div(wir::max<wir::Int>(s0, u0), 2);
  call.line = 9;
  const double z1 = 0.5 * z0 + wir::true_div(s0, wir::Int(3));
  call.line = 10;
  outputs[0].integer = s0;
  outputs[1].integer = s1;
  outputs[2].integer = s2;
  outputs[3].integer = s3;
  outputs[4].integer = s4;
  outputs[5].integer = u0;
  outputs[6].integer = u1;
  outputs[7].real = z0;
  outputs[8].real = z1;
  outputs[9].real = z2;
  outputs[10].integer = b0 ? 1 : 0;
}

constexpr wir::InputSpec kInputs[] = {
  { "s0", wir::Kind::kInteger, false, false, {} },
  { "z0", wir::Kind::kReal, false, false, {} },
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_3, dims_n_1 } },
  { "n", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cpu, -1, 0, nullptr, nullptr } },
  { "v", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_1, dims_1 } },
  { "c", wir::Kind::kTensor, false, false,
      { wir::dtype::bool_, wir::device::cpu, -1, 0, nullptr, nullptr } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "result_0", wir::Kind::kInteger },
  { "result_1", wir::Kind::kInteger },
  { "result_2", wir::Kind::kInteger },
  { "result_3", wir::Kind::kInteger },
  { "result_4", wir::Kind::kInteger },
  { "result_5", wir::Kind::kInteger },
  { "result_6", wir::Kind::kInteger },
  { "result_7", wir::Kind::kReal },
  { "result_8", wir::Kind::kReal },
  { "result_9", wir::Kind::kReal, {}, wir::dtype::float32 },
  { "result_10", wir::Kind::kBool },
};

constexpr wir::LineInfo kLines[] = {
  { "inputs", "inputs", "" },
  { "body[0]", "bind s1", "" },
  { "body[1]", "bind s2", "" },
  { "body[2]", "bind s4", "" },
  { "body[3]", "bind u0", "" },
  { "body[4]", "bind z2", "" },
  { "body[5]", "bind b0", "" },
  { "body[6]", "compute s3", "" },
  { "body[7]", "compute u1", "" },
  { "body[8]", "compute z1", "" },
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
  "symbols",
  6,
  wir_program::kInputs,
  11,
  wir_program::kOutputs,
  0,
  nullptr,
  11,
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
