// Wrapper program peers, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x  float32[s] on cuda:0
//
// Results:
//   d  float32[s] on cuda:0
//   e  float32[4] on cuda:0

#include <memory>
#include <utility>

#include <wir/generated.h>
#include <wir/gpu.h>
#include <wir/peers.h>

namespace [[gnu::visibility("hidden")]] wir_program {

// Library ops called by schema.
inline wir::Op aten_relu_out{ "aten::relu", "out" };
inline wir::Op symm_mem_one_shot_all_reduce{ "symm_mem::one_shot_all_reduce", "" };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr wir::Options cuda_float32{ wir::dtype::float32, wir::device::cuda, 0 };
inline constexpr std::int64_t dims_4[] = { 4 };
inline constexpr std::int64_t dims_n[] = { wir::kDynamic };

// Memory that all states share, kept between calls.
inline wir::PeerMemory peers_a;

// Memory and views kept between calls.
struct State {};

namespace {

void* create_state(const AtenTensorHandle*) { return new State(); }

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t release_shared() { return peers_a.release(); }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  const wir::GpuCall on_gpu(call, 0);
  const AtenTensorHandle x = inputs[0].tensor;
  call.line = 0;
  const wir::Int s = wir::size(x, 0);
  if (call.check_inputs) {
    call.line = 1;
    wir::check_range("s", s, 4, 64, "size 0 of 'x'");
  }
  call.line = 2;
  const std::int64_t a_size[] = { s };
  wir::Tensor a = peers_a.empty_strided(wir::current_stream(0), 1, a_size, dims_1, cuda_float32);
  call.line = 3;
  aten_relu_out({ x, a });
  wir::release(call, 0);
  call.line = 4;
  wir::Tensor b{};
  symm_mem_one_shot_all_reduce({ a, "sum", "0" }, { b });
  wir::Tensor c = std::move(a);
  call.line = 5;
  aten_relu_out({ b, c });
  b.reset();
  call.line = 6;
  wir::Tensor d{};
  symm_mem_one_shot_all_reduce({ c, "sum", "0" }, { d });
  c.reset();
  call.line = 7;
  wir::Tensor e = wir::empty_for_peers(1, dims_4, dims_1, cuda_float32);
  call.line = 8;
  wir::Tensor first = wir::view(d, 1, dims_4, dims_1, 0);
  call.line = 9;
  aten_relu_out({ first, e });
  call.line = 10;
  outputs[0].tensor = d.release();
  outputs[1].tensor = e.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::float32, wir::device::cuda, 0, 1, dims_n, dims_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "d", wir::Kind::kTensor },
  { "e", wir::Kind::kTensor },
};

constexpr wir::LineInfo kLines[] = {
  { "body[2]", "bind s", "" },
  { "inputs", "inputs", "" },
  { "body[3]", "allocate a", "" },
  { "body[4]", "aten::relu.out", "" },
  { "body[5]", "symm_mem::one_shot_all_reduce", "" },
  { "body[7]", "aten::relu.out", "" },
  { "body[9]", "symm_mem::one_shot_all_reduce", "" },
  { "body[11]", "allocate e", "" },
  { "body[12]", "reinterpret first", "" },
  { "body[13]", "aten::relu.out", "" },
  { "results", "results", "" },
};

constexpr wir::OpName kOps[] = {
  { "symm_mem::one_shot_all_reduce", "" },
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
  "peers",
  1,
  wir_program::kInputs,
  2,
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
  0,
  nullptr,
  nullptr,
  false,
  "cuda",
  0,
  nullptr,
  nullptr,
  nullptr,
  0,
  nullptr,
  nullptr,
  nullptr,
  0,
  nullptr,
  1,
  wir_program::kOps,
  nullptr,
  nullptr,
  wir_program::release_shared,
};
