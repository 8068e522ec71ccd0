// Wrapper program arguments, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[2, 3, 4, 5]
//   i  int64[3]
//
// Results:
//   full     float64[2, 3]
//   inf      float32[1]
//   minus    float32[1]
//   nan      float32[1]
//   zero     float32[1]
//   complex  complex64[1]
//   floor    float32[2, 3, 4, 5]
//   last     float32[2, 3, 4, 5] strides [60, 1, 15, 3]
//   clamped  float32[2, 3, 4, 5]
//   taken    float32[2, 3, 4, 3]
//   padded   int64[6]

#include <memory>
#include <utility>

#include <wir/generated.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_full{ "aten::full", "" };
inline wir::Op aten_div_Tensor_mode{ "aten::div", "Tensor_mode" };
inline wir::Op aten_clone{ "aten::clone", "" };
inline wir::Op aten_clamp{ "aten::clamp", "" };
inline wir::Op aten_index_Tensor{ "aten::index", "Tensor" };
inline wir::Op aten_constant_pad_nd{ "aten::constant_pad_nd", "" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_2_3_4_5[] = { 2, 3, 4, 5 };
inline constexpr std::int64_t dims_60_20_5_1[] = { 60, 20, 5, 1 };
inline constexpr std::int64_t dims_3[] = { 3 };
inline constexpr std::int64_t dims_1[] = { 1 };

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const AtenTensorHandle x = inputs[0].tensor;
  const AtenTensorHandle i = inputs[1].tensor;
  call.line = 0;
  wir::Tensor full{};
  aten_full({ wir::Ints{ 2, 3 }, 1.5, wir::Dtype{ wir::dtype::float64 },
                wir::Layout{ 0 /* strided */ }, wir::Device{ wir::device::cpu, -1 }, false },
      { full });
  call.line = 1;
  wir::Tensor inf{};
  aten_full({ wir::Ints{ 1 }, std::numeric_limits<double>::infinity(),
                wir::Dtype{ wir::dtype::float32 } },
      { inf });
  call.line = 2;
  wir::Tensor minus{};
  aten_full({ wir::Ints{ 1 }, -std::numeric_limits<double>::infinity(),
                wir::Dtype{ wir::dtype::float32 } },
      { minus });
  call.line = 3;
  wir::Tensor nan{};
  aten_full({ wir::Ints{ 1 }, std::numeric_limits<double>::quiet_NaN(),
                wir::Dtype{ wir::dtype::float32 } },
      { nan });
  call.line = 4;
  wir::Tensor zero{};
  aten_full({ wir::Ints{ 1 }, -0.0, wir::Dtype{ wir::dtype::float32 } }, { zero });
  call.line = 5;
  wir::Tensor complex{};
  aten_full({ wir::Ints{ 1 }, wir::Complex{ 1.5, -0.0 }, wir::Dtype{ wir::dtype::complex64 } },
      { complex });
  call.line = 6;
  wir::Tensor floor{};
  aten_div_Tensor_mode({ x, x, "floor" }, { floor });
  call.line = 7;
  wir::Tensor true_1{};
  aten_div_Tensor_mode({ x, x, wir::none }, { true_1 });
  true_1.reset();
  call.line = 8;
  wir::Tensor last{};
  aten_clone({ x, wir::MemoryFormat{ 2 /* channels_last */ } }, { last });
  call.line = 9;
  wir::Tensor clamped{};
  aten_clamp({ x, wir::none, 0.5 }, { clamped });
  call.line = 10;
  wir::Tensor taken{};
  aten_index_Tensor({ x, wir::List{ wir::none, wir::none, wir::none, i } }, { taken });
  wir::release(call, 0);
  call.line = 11;
  wir::Tensor padded{};
  aten_constant_pad_nd({ i, wir::Ints{ 1, 2 }, 7 }, { padded });
  call.line = 12;
  outputs[0].tensor = full.release();
  outputs[1].tensor = inf.release();
  outputs[2].tensor = minus.release();
  outputs[3].tensor = nan.release();
  outputs[4].tensor = zero.release();
  outputs[5].tensor = complex.release();
  outputs[6].tensor = floor.release();
  outputs[7].tensor = last.release();
  outputs[8].tensor = clamped.release();
  outputs[9].tensor = taken.release();
  outputs[10].tensor = padded.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cpu, -1, 4, dims_2_3_4_5, dims_60_20_5_1 } },
  { "i", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cpu, -1, 1, dims_3, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "full", wir::Kind::kTensor },
  { "inf", wir::Kind::kTensor },
  { "minus", wir::Kind::kTensor },
  { "nan", wir::Kind::kTensor },
  { "zero", wir::Kind::kTensor },
  { "complex", wir::Kind::kTensor },
  { "floor", wir::Kind::kTensor },
  { "last", wir::Kind::kTensor },
  { "clamped", wir::Kind::kTensor },
  { "taken", wir::Kind::kTensor },
  { "padded", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[7]", "aten::full", "" },
  { "body[8]", "aten::full", "" },
  { "body[9]", "aten::full", "" },
  { "body[10]", "aten::full", "" },
  { "body[11]", "aten::full", "" },
  { "body[12]", "aten::full", "" },
  { "body[13]", "aten::div.Tensor_mode", "" },
  { "body[14]", "aten::div.Tensor_mode", "" },
  { "body[16]", "aten::clone", "" },
  { "body[17]", "aten::clamp", "" },
  { "body[18]", "aten::index.Tensor", "" },
  { "body[19]", "aten::constant_pad_nd", "" },
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
  "arguments",
  2,
  wir_program::kInputs,
  11,
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
