// A generated half, written by hand: it does little, in every way that a program can.
//
//   y = x * scale + bias + weight[0]          x : float32[*, 8]
//   results: y, the sum of head (a transposed view of weight), the rows of x, None, weight's storage
//
// `mode` chooses what goes wrong, see Mode. norm.seen counts the calls.
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

#include <wir/arena.h>
#include <wir/error.h>
#include <wir/program.h>
#include <wir/tensor.h>

namespace {

using namespace wir;

enum Mode : std::int64_t {
  kFine,
  kRelation,    // a relation among sizes does not hold
  kStandard,    // a std::exception
  kInTorch,     // a library op refuses
  kNoMemory,    // std::bad_alloc
  kUnknown,     // an exception of another type
  kSlow,        // reads the bias, sleeps, and reads the weight
  kConstant,    // the last result is the weight itself
  kBuffer,      // writes to a kept buffer, then to norm.seen, by ops of the dispatcher
  kMeet,        // writes to x[1], and waits for another thread to write to x[0]
};

constexpr std::int64_t kRows[] = {kDynamic, 8};
constexpr std::int64_t kRowStrides[] = {8, 1};
constexpr std::int64_t kWeight[] = {4, 8};
constexpr std::int64_t kHead[] = {8, 4};
constexpr std::int64_t kHeadStrides[] = {1, 8};
constexpr std::int64_t kEight[] = {8};
constexpr std::int64_t kOne[] = {1};
constexpr std::int64_t kNone[] = {0};

constexpr std::int32_t kFloat = 6;
constexpr std::int32_t kLong = 4;

const InputSpec inputs[] = {
    {"x", Kind::kTensor, false, false, {kFloat, 0, -1, 2, kRows, kRowStrides}},
    {"scale", Kind::kReal, false, false, {}},
    {"mode", Kind::kInteger, false, false, {}},
};

const OutputSpec outputs[] = {
    {"y", Kind::kTensor}, {"total", Kind::kReal},  {"rows", Kind::kInteger},
    {"nothing", Kind::kNone}, {"kept", Kind::kTensor},
};

const ConstantSpec constants[] = {
    {"weight", "linear.weight", 1, false, -1, {kFloat, 0, -1, 2, kWeight, kRowStrides}, 0, 0, 128},
    {"head", "head.weight", 1, false, 0, {kFloat, 0, -1, 2, kHead, kHeadStrides}, 0, 0, 128},
    {"bias", "linear.bias", 1, false, -1, {kFloat, 0, -1, 1, kEight, kOne}, 0, 128, 32},
    {"seen", "norm.seen", 2, true, -1, {kLong, 0, -1, 0, kNone, kNone}, 0, 192, 8},
    {"hollow", "hollow", 1, false, -1, {kFloat, 0, -1, 1, kNone, kOne}, 0, 256, 0},
};

const LineInfo lines[] = {
    {"body[0]", "kernel fused_mul_add", "model.py:12 in forward"},
    {"body[1]", "aten::mm.out(%y, %y)", ""},
};

// weight[i][j] = i, bias[j] = j, seen = 0
struct alignas(64) Blob {
  float weight[32];
  float bias[8];
  float gap[8];
  std::int64_t seen;
  std::int64_t end[7];
};
static_assert(sizeof(Blob) == 256);

struct State {
  AtenTensorHandle weight, head, bias, seen;
  Tensor buffer;
  Arena sums;
};

void* create_state(const AtenTensorHandle* handles) {
  const std::int64_t eight = 8;
  auto* state = new State{handles[0], handles[1], handles[2], handles[3], {}, {}};
  state->buffer = empty(1, &eight, kOne, {kFloat, 0, -1});
  return state;
}

void destroy_state(void* state) { delete static_cast<State*>(state); }

std::size_t kept_bytes(const void* state) { return static_cast<const State*>(state)->sums.bytes(); }

void go_wrong(std::int64_t mode, Call& call, const Tensor& y) {
  switch (mode) {
    case kRelation:
      refuse_relation("s0 % 2 == 0", "s0 is 3");
    case kStandard:
      throw std::runtime_error("out of luck");
    case kInTorch: {
      call.line = 1;
      StableIValue stack[2];
      AtenTensorHandle first = nullptr, second = nullptr;
      check(aoti_torch_new_tensor_handle(y, &first));
      check(aoti_torch_new_tensor_handle(y, &second));
      std::memcpy(&stack[0], &first, sizeof first);
      std::memcpy(&stack[1], &second, sizeof second);
      check(aoti_torch_call_dispatcher("aten::mm", "", stack));
      break;
    }
    case kNoMemory:
      throw std::bad_alloc();
    case kUnknown:
      throw 42;
    default:
      break;
  }
}

/// Shows by x[1] that the call has begun; returns when x[0] is no longer zero, or after a minute.
void meet(float* x) {
  const float one = 1;
  __atomic_store(&x[1], &one, __ATOMIC_SEQ_CST);
  for (int n = 0; n < 60000; ++n) {
    float now;
    __atomic_load(&x[0], &now, __ATOMIC_SEQ_CST);
    if (now != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void run(void* opaque, Call& call, const Slot* in, Slot* out) {
  State& state = *static_cast<State*>(opaque);
  const std::int64_t mode = in[2].integer;
  const std::int64_t size[] = {sizes(in[0].tensor)[0], 8};
  Tensor y = empty(2, size, kRowStrides, {kFloat, 0, -1});
  go_wrong(mode, call, y);

  float bias[8];
  std::memcpy(bias, data(state.bias), sizeof bias);
  if (mode == kSlow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (mode == kMeet) meet(data<float>(in[0].tensor));
  const float* weight = data<float>(state.weight);
  const float* x = data<float>(in[0].tensor);
  float* sums = data<float>(state.sums.at_least(size[0] * 32));
  for (std::int64_t i = 0; i < size[0] * 8; ++i) {
    sums[i] = x[i] * static_cast<float>(in[1].real) + bias[i % 8] + weight[i % 8];
  }
  std::memcpy(data(y), sums, static_cast<std::size_t>(size[0]) * 32);
  double total = 0;
  for (int i = 0; i < 32; ++i) total += data<float>(state.head)[i];
  if (mode == kBuffer) {
    zero(state.buffer);
    zero(state.seen);
  } else {
    // Calls at a time share what a program writes; a real one would race here, as eager does.
    __atomic_fetch_add(data<std::int64_t>(state.seen), 1, __ATOMIC_RELAXED);
  }
  out[0].tensor = y.release();
  out[1].real = total;
  out[2].integer = size[0];
  if (mode == kConstant) out[4].tensor = share(state.weight).release();
}

}  // namespace

#ifdef EMBEDDED
[[gnu::section(".data.constants")]] Blob blob = {
    {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
     2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3},
    {0, 1, 2, 3, 4, 5, 6, 7}, {}, 0, {}};
#define BEGIN reinterpret_cast<const std::uint8_t*>(&blob)
#define END reinterpret_cast<const std::uint8_t*>(&blob + 1)
#define FILE_NAME nullptr
#else
#define BEGIN nullptr
#define END nullptr
#define FILE_NAME "fixture.constants"
#endif

// A program of a GPU that is none: streams are addresses, and none becomes the current one.
#ifdef STREAMS
#define DEVICE "cuda", 0
extern "C" [[gnu::visibility("hidden")]] void* wir_gpu_enter(std::int32_t, void*) {
  return nullptr;
}
extern "C" [[gnu::visibility("hidden")]] void wir_gpu_leave(void*) {}
#else
#define DEVICE "cpu", -1
#endif

#ifndef CONTRACT
#define CONTRACT kContract
#endif

extern "C" const ProgramInfo wir_program_info = {
    CONTRACT, "fixture", std::size(inputs), inputs, std::size(outputs), outputs,
    std::size(constants), constants, std::size(lines), lines, "[1, {\"in\": 3}]", "[1, {\"out\": 5}]",
    BEGIN, END, FILE_NAME, sizeof(Blob), DIGEST, create_state, destroy_state, run,
    0, nullptr, kept_bytes, false, DEVICE};
