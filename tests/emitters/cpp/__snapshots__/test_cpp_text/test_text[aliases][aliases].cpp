// Wrapper program aliases, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s0, 6]
//
// Results:
//   flat   float32[6*s0]
//   maybe  float32[s0, 6]
//   dense  float32[6, s0]

#include <memory>
#include <utility>

#include <wir/generated.h>

extern "C" void wir_k_e486aea3563a71408642(const float*, float*, std::int64_t);
extern "C" AOTITorchError aoti_torch_cpu_reshape(
    AtenTensorHandle self, const int64_t* shape, int64_t shape_len_, AtenTensorHandle* ret0);

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline constexpr auto* relu = &::wir_k_e486aea3563a71408642;

// Library ops called by schema.
inline wir::Op aten_t{ "aten::t", "" };
inline wir::Op aten_view{ "aten::view", "" };
inline wir::Op aten_contiguous{ "aten::contiguous", "" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_6_1[] = { 6, 1 };
inline constexpr wir::Options cpu_float32{ wir::dtype::float32, wir::device::cpu, 0 };
inline constexpr std::int64_t dims_n_6[] = { wir::kDynamic, 6 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s0 = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s0", s0, 1, 512, "size 0 of 'x'");
  }
  call.line = 2;
  const std::int64_t buf0_size[] = { s0, 6 };
  wir::Tensor buf0 = wir::empty(2, buf0_size, dims_6_1, cpu_float32);
  call.line = 3;
  float* x_ptr = wir::data<float>(x);
  float* buf0_ptr = wir::data<float>(buf0);
  relu(x_ptr, buf0_ptr, 6 * s0);
  wir::release(call, 0);
  call.line = 4;
  wir::Tensor turned{};
  aten_t({ buf0 }, { turned });
  call.line = 5;
  wir::Tensor flat{};
  aten_view({ buf0, wir::Ints{ 6 * s0 } }, { flat });
  call.line = 6;
  wir::Tensor maybe{};
  wir::check(aoti_torch_cpu_reshape(turned, wir::Ints{ s0, 6 }.begin(), 2, maybe.out()));
  call.line = 7;
  wir::Tensor dense{};
  aten_contiguous({ turned }, { dense });
  call.line = 8;
  outputs[0].tensor = flat.release();
  outputs[1].tensor = maybe.release();
  outputs[2].tensor = dense.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 2, dims_n_6, dims_6_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "flat", wir::Kind::kTensor },
  { "maybe", wir::Kind::kTensor },
  { "dense", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[5]", "bind s0", "" },
  { "inputs", "inputs", "" },
  { "body[6]", "allocate buf0", "" },
  { "body[7]", "kernel relu", "" },
  { "body[8]", "aten::t", "" },
  { "body[9]", "aten::view", "" },
  { "body[10]", "aten::reshape", "" },
  { "body[11]", "aten::contiguous", "" },
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
  "aliases",
  1,
  wir_program::kInputs,
  3,
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
