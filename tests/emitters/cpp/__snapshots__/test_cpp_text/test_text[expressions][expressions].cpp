// Wrapper program expressions, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   s0  int
//   s1  int
//   s2  int
//   z0  float
//
// Results:
//   k0
//   k1
//   k2
//   k3
//   k4
//   k5
//   k6
//   k7
//   k8
//   k9
//   k10
//   k11
//   k12
//   k13
//   k14
//   k15
//   k16
//   z1
//   z2
//   z3
//   z4
//   z5
//   z6
//   z7
//   z8
//   z9
//   z10
//   b0
//   b1
//   b2
//   2**s2
//   -s0**2

#include <memory>
#include <utility>

#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const wir::Int s0 = inputs[0].integer;
  const wir::Int s1 = inputs[1].integer;
  const wir::Int s2 = inputs[2].integer;
  const double z0 = inputs[3].real;
  if (call.check_inputs) {
    call.line = 0;
    wir::check_range("s0", s0, 1, 1000);
    wir::check_range("s1", s1, 1, 1000);
    wir::check_range("s2", s2, 2, 1000);
  }
  call.line = 1;
  const wir::Int k0 = s0 + 2 * s1 - 3;
  call.line = 2;
  const wir::Int k1 = 2 * s1 * (s0 + 1);
  call.line = 3;
  const wir::Int k2 = wir::pow(s0 + s1, 2);
  call.line = 4;
  const wir::Int k3 = wir::floor_div(-s0, s1);
  call.line = 5;
  const wir::Int k4 = wir::mod(-s0, s1);
  call.line = 6;
  const wir::Int k5 = wir::ceil_div(s0, s1);
  call.line = 7;
  const wir::Int k6 = wir::max<wir::Int>(1, s0, s1 - 2);
  call.line = 8;
  const wir::Int k7 = wir::min<wir::Int>(40, s0, 2 * s1);
  call.line = 9;
  const wir::Int k8 = wir::abs(s0 - 10 * s1);
  call.line = 10;
  const wir::Int k9 = s0 < s1 ? wir::Int(s0) : wir::Int(s1);
  call.line = 11;
  const wir::Int k10 = wir::bit_and(s0, 6);
  call.line = 12;
  const wir::Int k11 = wir::bit_or(s0, 8);
  call.line = 13;
  const wir::Int k12 = wir::bit_xor(s0, s1);
  call.line = 14;
  const wir::Int k13 = wir::shift_left(s0, 2);
  call.line = 15;
  const wir::Int k14 = wir::shift_right(s0, 1);
  call.line = 16;
  const wir::Int k15 = wir::ceil(z0) + wir::floor(z0) + wir::round(z0) + wir::truncate(z0);
  call.line = 17;
  const wir::Int k16 = wir::floor_div(wir::floor_div(s0, wir::floor_div(s1, s2)), 2);
  call.line = 18;
  const double z1 = wir::to_real(s0) + 0.5;
  call.line = 19;
  const double z2 = wir::true_div(s0, s1);
  call.line = 20;
  const double z3 = wir::float_pow(z0, 2.0);
  call.line = 21;
  const double z4 = wir::sqrt(wir::abs(z0));
  call.line = 22;
  const double z5 = wir::exp(z0);
  call.line = 23;
  const double z6 = wir::log(wir::to_real(s0));
  call.line = 24;
  const double z7 = wir::log2(wir::to_real(s0));
  call.line = 25;
  const double z8 = wir::sin(z0);
  call.line = 26;
  const double z9 = wir::cos(z0);
  call.line = 27;
  const double z10 = wir::tanh(z0);
  call.line = 28;
  const bool b0 = (s1 <= s2 || s0 > 4) && s0 < s1;
  call.line = 29;
  const bool b1 = s0 >= s1 && (s0 != 7);
  call.line = 30;
  const bool b2 = (s0 == 7) == (s1 == 3);
  call.line = 31;
  const wir::Int result_30 = wir::pow(wir::Int(2), s2);
  const wir::Int result_31 = -wir::pow(s0, 2);
  outputs[0].integer = k0;
  outputs[1].integer = k1;
  outputs[2].integer = k2;
  outputs[3].integer = k3;
  outputs[4].integer = k4;
  outputs[5].integer = k5;
  outputs[6].integer = k6;
  outputs[7].integer = k7;
  outputs[8].integer = k8;
  outputs[9].integer = k9;
  outputs[10].integer = k10;
  outputs[11].integer = k11;
  outputs[12].integer = k12;
  outputs[13].integer = k13;
  outputs[14].integer = k14;
  outputs[15].integer = k15;
  outputs[16].integer = k16;
  outputs[17].real = z1;
  outputs[18].real = z2;
  outputs[19].real = z3;
  outputs[20].real = z4;
  outputs[21].real = z5;
  outputs[22].real = z6;
  outputs[23].real = z7;
  outputs[24].real = z8;
  outputs[25].real = z9;
  outputs[26].real = z10;
  outputs[27].integer = b0 ? 1 : 0;
  outputs[28].integer = b1 ? 1 : 0;
  outputs[29].integer = b2 ? 1 : 0;
  outputs[30].integer = result_30;
  outputs[31].integer = result_31;
}

constexpr wir::InputSpec kInputs[] = {
  { "s0", wir::Kind::kInteger, false, false, {} },
  { "s1", wir::Kind::kInteger, false, false, {} },
  { "s2", wir::Kind::kInteger, false, false, {} },
  { "z0", wir::Kind::kReal, false, false, {} },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "result_0", wir::Kind::kInteger },
  { "result_1", wir::Kind::kInteger },
  { "result_2", wir::Kind::kInteger },
  { "result_3", wir::Kind::kInteger },
  { "result_4", wir::Kind::kInteger },
  { "result_5", wir::Kind::kInteger },
  { "result_6", wir::Kind::kInteger },
  { "result_7", wir::Kind::kInteger },
  { "result_8", wir::Kind::kInteger },
  { "result_9", wir::Kind::kInteger },
  { "result_10", wir::Kind::kInteger },
  { "result_11", wir::Kind::kInteger },
  { "result_12", wir::Kind::kInteger },
  { "result_13", wir::Kind::kInteger },
  { "result_14", wir::Kind::kInteger },
  { "result_15", wir::Kind::kInteger },
  { "result_16", wir::Kind::kInteger },
  { "result_17", wir::Kind::kReal },
  { "result_18", wir::Kind::kReal },
  { "result_19", wir::Kind::kReal },
  { "result_20", wir::Kind::kReal },
  { "result_21", wir::Kind::kReal },
  { "result_22", wir::Kind::kReal },
  { "result_23", wir::Kind::kReal },
  { "result_24", wir::Kind::kReal },
  { "result_25", wir::Kind::kReal },
  { "result_26", wir::Kind::kReal },
  { "result_27", wir::Kind::kBool },
  { "result_28", wir::Kind::kBool },
  { "result_29", wir::Kind::kBool },
  { "result_30", wir::Kind::kInteger },
  { "result_31", wir::Kind::kInteger },
};

constexpr wir::LineInfo kLines[] = {
  { "inputs", "inputs", "" },
  { "body[0]", "compute k0", "" },
  { "body[1]", "compute k1", "" },
  { "body[2]", "compute k2", "" },
  { "body[3]", "compute k3", "" },
  { "body[4]", "compute k4", "" },
  { "body[5]", "compute k5", "" },
  { "body[6]", "compute k6", "" },
  { "body[7]", "compute k7", "" },
  { "body[8]", "compute k8", "" },
  { "body[9]", "compute k9", "" },
  { "body[10]", "compute k10", "" },
  { "body[11]", "compute k11", "" },
  { "body[12]", "compute k12", "" },
  { "body[13]", "compute k13", "" },
  { "body[14]", "compute k14", "" },
  { "body[15]", "compute k15", "" },
  { "body[16]", "compute k16", "" },
  { "body[17]", "compute z1", "" },
  { "body[18]", "compute z2", "" },
  { "body[19]", "compute z3", "" },
  { "body[20]", "compute z4", "" },
  { "body[21]", "compute z5", "" },
  { "body[22]", "compute z6", "" },
  { "body[23]", "compute z7", "" },
  { "body[24]", "compute z8", "" },
  { "body[25]", "compute z9", "" },
  { "body[26]", "compute z10", "" },
  { "body[27]", "compute b0", "" },
  { "body[28]", "compute b1", "" },
  { "body[29]", "compute b2", "" },
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
  "expressions",
  4,
  wir_program::kInputs,
  32,
  wir_program::kOutputs,
  0,
  nullptr,
  32,
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
