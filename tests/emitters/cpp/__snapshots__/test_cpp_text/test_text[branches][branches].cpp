// Wrapper program branches, inference.
// Written by wrapper_ir, to be read and edited.
//
// Inputs:
//   x         bfloat16[1, 2048] on cuda:0
//   position  int64[1] on cuda:0
//   keys      bfloat16[8, 512, 64] on cuda:0
//   values    bfloat16[8, 512, 64] on cuda:0
//
// Constants:
//   wq  bfloat16[2048, 2048] on cuda:0  attention.q
//   wk  bfloat16[2048, 512] on cuda:0  attention.k
//   wv  bfloat16[2048, 512] on cuda:0  attention.v
//   wo  bfloat16[2048, 2048] on cuda:0  attention.o
//   wg  bfloat16[2048, 8192] on cuda:0  mlp.gate
//   wu  bfloat16[2048, 8192] on cuda:0  mlp.up
//   wd  bfloat16[8192, 2048] on cuda:0  mlp.down
//
// Results:
//   y  bfloat16[1, 2048] on cuda:0

#include <memory>
#include <utility>

#include <wir/blas.h>
#include <wir/generated.h>
#include <wir/gpu.h>
#include <wir/queues.h>

extern "C" const wir::GpuImage wir_t_22116e1bdcfcad514f1b[];
extern "C" const wir::GpuImage wir_t_2e11c97bfe0a381b520c[];
extern "C" const wir::GpuImage wir_t_b9c9711f4315c5407699[];
extern "C" const wir::GpuImage wir_t_8e567ee590f056f3c390[];
extern "C" const wir::GpuImage wir_t_e5a75069a3ef8fe715dc[];

namespace [[gnu::visibility("hidden")]] wir_program {

// Kernels.
inline wir::GpuKernel<const void*, void*> norm{ "norm", ::wir_t_22116e1bdcfcad514f1b };
inline wir::GpuKernel<const void*, const std::int64_t*, void*> put{ "put",
  ::wir_t_2e11c97bfe0a381b520c };
inline wir::GpuKernel<const void*, const void*, const void*, void*> attend{ "attend",
  ::wir_t_b9c9711f4315c5407699 };
inline wir::GpuKernel<const void*, void*> add{ "add", ::wir_t_8e567ee590f056f3c390 };
inline wir::GpuKernel<void*, const void*> gated{ "gated", ::wir_t_e5a75069a3ef8fe715dc };

// Sizes and strides, types and devices.
inline constexpr std::int64_t dims_1_2048[] = { 1, 2048 };
inline constexpr std::int64_t dims_2048_1[] = { 2048, 1 };
inline constexpr wir::Options cuda_bfloat16{ wir::dtype::bfloat16, wir::device::cuda, 0 };
inline constexpr std::int64_t dims_1_512[] = { 1, 512 };
inline constexpr std::int64_t dims_512_1[] = { 512, 1 };
inline constexpr std::int64_t dims_1_8192[] = { 1, 8192 };
inline constexpr std::int64_t dims_8192_1[] = { 8192, 1 };
inline constexpr std::int64_t dims_1[] = { 1 };
inline constexpr std::int64_t dims_8_512_64[] = { 8, 512, 64 };
inline constexpr std::int64_t dims_32768_64_1[] = { 32768, 64, 1 };
inline constexpr std::int64_t dims_2048_2048[] = { 2048, 2048 };
inline constexpr std::int64_t dims_2048_512[] = { 2048, 512 };
inline constexpr std::int64_t dims_2048_8192[] = { 2048, 8192 };
inline constexpr std::int64_t dims_8192_2048[] = { 8192, 2048 };

// Memory and views kept between calls.
struct State {
  wir::Tensor h;
  void* h_ptr = nullptr;
  wir::Tensor q;
  void* q_ptr = nullptr;
  AtenTensorHandle wq = nullptr;
  void* wq_ptr = nullptr;
  wir::Tensor k;
  void* k_ptr = nullptr;
  AtenTensorHandle wk = nullptr;
  void* wk_ptr = nullptr;
  wir::Tensor v;
  void* v_ptr = nullptr;
  AtenTensorHandle wv = nullptr;
  void* wv_ptr = nullptr;
  AtenTensorHandle wo = nullptr;
  void* wo_ptr = nullptr;
  wir::Tensor gate;
  void* gate_ptr = nullptr;
  AtenTensorHandle wg = nullptr;
  void* wg_ptr = nullptr;
  wir::Tensor up;
  void* up_ptr = nullptr;
  AtenTensorHandle wu = nullptr;
  void* wu_ptr = nullptr;
  AtenTensorHandle wd = nullptr;
  void* wd_ptr = nullptr;
};

namespace {

void* create_state(const AtenTensorHandle* constants) {
  auto made = std::make_unique<State>();
  State& state = *made;
  norm.load(0);
  put.load(0);
  attend.load(0);
  add.load(0);
  gated.load(0);
  state.h = wir::empty(2, dims_1_2048, dims_2048_1, cuda_bfloat16);
  state.h_ptr = wir::data<void>(state.h);
  state.q = wir::empty(2, dims_1_2048, dims_2048_1, cuda_bfloat16);
  state.q_ptr = wir::data<void>(state.q);
  state.wq = constants[0];
  state.wq_ptr = wir::data<void>(state.wq);
  state.k = wir::empty(2, dims_1_512, dims_512_1, cuda_bfloat16);
  state.k_ptr = wir::data<void>(state.k);
  state.wk = constants[1];
  state.wk_ptr = wir::data<void>(state.wk);
  state.v = wir::empty(2, dims_1_512, dims_512_1, cuda_bfloat16);
  state.v_ptr = wir::data<void>(state.v);
  state.wv = constants[2];
  state.wv_ptr = wir::data<void>(state.wv);
  state.wo = constants[3];
  state.wo_ptr = wir::data<void>(state.wo);
  state.gate = wir::empty(2, dims_1_8192, dims_8192_1, cuda_bfloat16);
  state.gate_ptr = wir::data<void>(state.gate);
  state.wg = constants[4];
  state.wg_ptr = wir::data<void>(state.wg);
  state.up = wir::empty(2, dims_1_8192, dims_8192_1, cuda_bfloat16);
  state.up_ptr = wir::data<void>(state.up);
  state.wu = constants[5];
  state.wu_ptr = wir::data<void>(state.wu);
  state.wd = constants[6];
  state.wd_ptr = wir::data<void>(state.wd);
  return made.release();
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t kept_bytes(const void*) { return 43008; }

void run(void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs) {
  State& state = *static_cast<State*>(opaque);
  const wir::GpuCall on_gpu(call, 0);
  wir::GpuQueues queues(call, 0, 2, 5, true);
  call.queues = &queues;
  const AtenTensorHandle x = inputs[0].tensor;
  const AtenTensorHandle position = inputs[1].tensor;
  const AtenTensorHandle keys = inputs[2].tensor;
  const AtenTensorHandle values = inputs[3].tensor;
  call.line = 0;
  void* x_ptr = wir::data<void>(x);
  norm(call, { 1 }, x_ptr, state.h_ptr);
  call.line = 1;
  call.queues->record(1, 0);
  call.line = 2;
  wir::mm(0, wir::dtype::bfloat16, { state.q_ptr, 1, 2048, 2048, 1 },
      { state.h_ptr, 1, 2048, 2048, 1 }, { state.wq_ptr, 2048, 2048, 2048, 1 });
  call.line = 3;
  call.queues->wait(1, 1);
  call.queues->enter(1);
  call.line = 4;
  wir::mm(0, wir::dtype::bfloat16, { state.k_ptr, 1, 512, 512, 1 },
      { state.h_ptr, 1, 2048, 2048, 1 }, { state.wk_ptr, 2048, 512, 512, 1 });
  call.line = 5;
  std::int64_t* position_ptr = wir::data<std::int64_t>(position);
  void* keys_ptr = wir::data<void>(keys);
  put(call, { 4 }, state.k_ptr, position_ptr, keys_ptr);
  call.line = 6;
  call.queues->record(3, 1);
  call.line = 7;
  call.queues->wait(1, 2);
  call.queues->enter(2);
  call.line = 8;
  wir::mm(0, wir::dtype::bfloat16, { state.v_ptr, 1, 512, 512, 1 },
      { state.h_ptr, 1, 2048, 2048, 1 }, { state.wv_ptr, 2048, 512, 512, 1 });
  call.line = 9;
  void* values_ptr = wir::data<void>(values);
  put(call, { 4 }, state.v_ptr, position_ptr, values_ptr);
  call.line = 10;
  call.queues->record(2, 2);
  call.queues->enter(0);
  call.line = 11;
  wir::Tensor a = wir::empty(2, dims_1_2048, dims_2048_1, cuda_bfloat16);
  call.line = 12;
  call.queues->wait(2, 0);
  call.line = 13;
  call.queues->wait(3, 0);
  call.line = 14;
  void* a_ptr = wir::data<void>(a);
  attend(call, { 32 }, state.q_ptr, keys_ptr, values_ptr, a_ptr);
  call.line = 15;
  wir::mm(0, wir::dtype::bfloat16, { state.q_ptr, 1, 2048, 2048, 1 }, { a_ptr, 1, 2048, 2048, 1 },
      { state.wo_ptr, 2048, 2048, 2048, 1 });
  call.line = 16;
  add(call, { 8 }, x_ptr, state.q_ptr);
  wir::Tensor h2 = std::move(a);
  call.line = 17;
  norm(call, { 1 }, state.q_ptr, a_ptr);
  wir::release(call, 0);
  call.line = 18;
  call.queues->record(4, 0);
  call.line = 19;
  wir::mm(0, wir::dtype::bfloat16, { state.gate_ptr, 1, 8192, 8192, 1 },
      { a_ptr, 1, 2048, 2048, 1 }, { state.wg_ptr, 2048, 8192, 8192, 1 });
  call.line = 20;
  call.queues->wait(4, 1);
  call.queues->enter(1);
  call.line = 21;
  wir::mm(0, wir::dtype::bfloat16, { state.up_ptr, 1, 8192, 8192, 1 }, { a_ptr, 1, 2048, 2048, 1 },
      { state.wu_ptr, 2048, 8192, 8192, 1 });
  call.line = 22;
  call.queues->record(5, 1);
  call.line = 23;
  call.queues->wait(5, 0);
  call.queues->enter(0);
  call.line = 24;
  gated(call, { 16 }, state.gate_ptr, state.up_ptr);
  wir::Tensor y = std::move(h2);
  call.line = 25;
  wir::mm(0, wir::dtype::bfloat16, { a_ptr, 1, 2048, 2048, 1 },
      { state.gate_ptr, 1, 8192, 8192, 1 }, { state.wd_ptr, 8192, 2048, 2048, 1 });
  call.line = 26;
  add(call, { 8 }, state.q_ptr, a_ptr);
  call.line = 27;
  outputs[0].tensor = y.release();
}

constexpr wir::InputSpec kInputs[] = {
  { "x", wir::Kind::kTensor, false, false,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_1_2048, dims_2048_1 } },
  { "position", wir::Kind::kTensor, false, false,
      { wir::dtype::int64, wir::device::cuda, 0, 1, dims_1, dims_1 } },
  { "keys", wir::Kind::kTensor, false, true,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 3, dims_8_512_64, dims_32768_64_1 } },
  { "values", wir::Kind::kTensor, false, true,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 3, dims_8_512_64, dims_32768_64_1 } },
};

constexpr wir::OutputSpec kOutputs[] = {
  { "y", wir::Kind::kTensor },
};

constexpr wir::ConstantSpec kConstants[] = {
  { "wq", "attention.q", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_2048, dims_2048_1 }, 0, 0,
      8388608 },
  { "wk", "attention.k", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_512, dims_512_1 }, 0, 8388608,
      2097152 },
  { "wv", "attention.v", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_512, dims_512_1 }, 0, 10485760,
      2097152 },
  { "wo", "attention.o", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_2048, dims_2048_1 }, 0, 12582912,
      8388608 },
  { "wg", "mlp.gate", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_8192, dims_8192_1 }, 0, 20971520,
      33554432 },
  { "wu", "mlp.up", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_2048_8192, dims_8192_1 }, 0, 54525952,
      33554432 },
  { "wd", "mlp.down", 1, false, -1,
      { wir::dtype::bfloat16, wir::device::cuda, 0, 2, dims_8192_2048, dims_2048_1 }, 0, 88080384,
      33554432 },
};

constexpr wir::LineInfo kLines[] = {
  { "body[7]", "kernel norm", "" },
  { "body[10]", "record_event", "" },
  { "body[12]", "aten::mm.out", "" },
  { "body[13]", "wait_event", "" },
  { "body[14]", "aten::mm.out", "" },
  { "body[15]", "kernel put", "" },
  { "body[16]", "record_event", "" },
  { "body[17]", "wait_event", "" },
  { "body[18]", "aten::mm.out", "" },
  { "body[19]", "kernel put", "" },
  { "body[20]", "record_event", "" },
  { "body[21]", "allocate a", "" },
  { "body[22]", "wait_event", "" },
  { "body[24]", "wait_event", "" },
  { "body[27]", "kernel attend", "" },
  { "body[29]", "aten::mm.out", "" },
  { "body[30]", "kernel add", "" },
  { "body[32]", "kernel norm", "" },
  { "body[34]", "record_event", "" },
  { "body[36]", "aten::mm.out", "" },
  { "body[37]", "wait_event", "" },
  { "body[38]", "aten::mm.out", "" },
  { "body[39]", "record_event", "" },
  { "body[40]", "wait_event", "" },
  { "body[41]", "kernel gated", "" },
  { "body[44]", "aten::mm.out", "" },
  { "body[46]", "kernel add", "" },
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
  "branches",
  4,
  wir_program::kInputs,
  1,
  wir_program::kOutputs,
  7,
  wir_program::kConstants,
  28,
  wir_program::kLines,
  "",
  "",
  wir_constants_begin,
  wir_constants_end,
  wir_constants_file,
  121634816,
  wir_constants_digest,
  wir_program::create_state,
  wir_program::destroy_state,
  wir_program::run,
  0,
  nullptr,
  wir_program::kept_bytes,
  false,
  "cuda",
  0,
  wir::current_stream,
  wir::wait_for_gpu,
};
