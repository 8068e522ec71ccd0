// Wrapper program comments, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0]
//
// Constants:
//   c  float32[1]  '; import os; os._exit(1) #
//
// Results:
//   x  float32[s0]
//   c  float32[1]

#include <memory>
#include <utility>

#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {
  AtenTensorHandle c = nullptr;
};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  State& state = *made;
  state.c = constants[0];
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const AtenTensorHandle x = inputs[0].tensor;
  // ordinary
  //
  // */ int main() { return 1; } /*
  // ''' + exit(1) + '''
  // a line
  // and another, / a backslash at the end /
  // trailing blanks
  // not ASCII: ?, ? ?; a bidirectional override: ?; a NUL: ?
  // %x = allocate : f32[4] @cpu
  // ; not a remark, loc(#0)
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  call.line = 1;
  if (!(s0 >= 1)) {
    wir::refuse_relation("{x} %d \"\"\"\n*/ '", "s0 is " + wir::shown(s0));
  }
  // ? ?/ a trigraph
  if (call.check_inputs) {
    call.line = 2;
    wir::check_range("s0", s0, 1, INT64_MAX, "size 0 of 'x'");
  }
  call.line = 3;
  wir::Tensor result_0 = wir::share(x);
  wir::Tensor result_1 = wir::share(state.c);
  outputs[0].tensor = result_0.release();
  outputs[1].tensor = result_1.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_n, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "x", wir::Kind::kTensor },
  { "c", wir::Kind::kTensor, {}, -1, false, true },
};

constexpr wir::ConstantSpec kConstants[] = {
  { "c", "'; import os; os._exit(1) #", 3, false, -1,
      { wir::dtype::float32, wir::device::cpu, -1, 1, dims_1, dims_1 }, 0, 0, 4 },
};

constexpr wir::LineInfo kLines[] = {
  { "body[9]", "bind s0", "" },
  { "body[11]", "assert", "" },
  { "inputs", "inputs", "" },
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
  "comments",
  1,
  wir_program::kInputs,
  2,
  wir_program::kOutputs,
  1,
  wir_program::kConstants,
  4,
  wir_program::kLines,
  "",
  "",
  wir_constants_begin,
  wir_constants_end,
  wir_constants_file,
  4,
  wir_constants_digest,
  wir_program::create_state,
  wir_program::destroy_state,
  wir_program::run,
};
