// Kernels on a GPU: machine code that lies in the library, launched through the CUDA driver.
//
// The driver is opened when a program's first state is made, so a library can be built and looked
// at where there is none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <wir/launch.h>
#include <wir/program.h>

namespace wir {

// A kernel's machine code for one architecture.
struct GpuImage {
  std::int32_t arch;         // compute capability: 90 for 9.0; 0 ends a list of images
  std::int32_t cooperative;  // whether its blocks wait for each other, so that all must run at once
  const std::uint8_t* code;  // in the driver's format
  const char* symbol;        // the function in it
  std::uint32_t threads;     // of a block
  std::uint32_t shared;      // bytes of shared memory of a block
  std::int64_t scratch;      // bytes of memory that a launch brings along for each block
};
static_assert(sizeof(GpuImage) == 40);  // the build writes them in assembler

// One kernel of a program, on one GPU.
class GpuCode {
 public:
  // `images` ends with one that is none.
  constexpr GpuCode(const char* name, const GpuImage* images) : name_(name), images_(images) {}

  // Before it is launched. Loads what fits the device, once in a process.
  void load(std::int32_t device);

 protected:
  void launch(const Call& call, const Grid& grid, void** params, void*& scratch) const;

 private:
  int launch_on(void* stream, const Grid& grid, void** params) const;

  const char* name_;
  const GpuImage* images_;
  const GpuImage* image_ = nullptr;
  std::int32_t device_ = -1;
  void* function_ = nullptr;
  void* context_ = nullptr;
};

template <class... Params>
class GpuKernel : public GpuCode {
 public:
  using GpuCode::GpuCode;

  void operator()(const Call& call, const Grid& grid, Params... params) const {
    // Triton's kernels take two pointers more: scratch memory, and what profilers want.
    void *scratch = nullptr, *profile = nullptr;
    void* addresses[] = { &params..., &scratch, &profile };
    launch(call, grid, addresses, scratch);
  }
};

// As long as a call runs on a GPU: it is the current one, and the call knows its stream. Kernels on
// other GPUs, of programs that use several, go to their current streams.
class GpuCall {
 public:
  GpuCall(Call& call, std::int32_t device);
  ~GpuCall();
  GpuCall(const GpuCall&) = delete;
  GpuCall& operator=(const GpuCall&) = delete;

 private:
  void* guard_ = nullptr;
};

// Branches of a call that is captured into a CUDA graph: streams besides the one that it is captured
// on, which is 0, and events between them, counted from 1. In other calls all work is on the
// caller's stream, and nothing is to be done.
class Branches {
 public:
  // After GpuCall.
  Branches(Call& call, std::int32_t streams, std::int32_t events);
  ~Branches();
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;

  // What comes from here on is put on a stream.
  void enter(std::int32_t stream) {
    if (is_captured_) [[unlikely]] switch_to(stream);
  }
  void record(std::int32_t event, std::int32_t stream) {
    if (is_captured_) [[unlikely]] mark(event, stream);
  }
  void wait(std::int32_t event, std::int32_t stream) {
    if (is_captured_) [[unlikely]] order(event, stream);
  }

 private:
  void end() noexcept;
  void switch_to(std::int32_t stream);
  void leave() noexcept;
  void mark(std::int32_t event, std::int32_t stream);
  void order(std::int32_t event, std::int32_t stream);

  Call& call_;
  bool is_captured_ = false;
  std::vector<void*> streams_;  // 0: the one that is captured
  std::vector<void*> events_;
  void* entered_ = nullptr;  // what ends that another stream is current
};

// The caller's stream, and whether its work is being captured into a graph.
GpuStream current_stream(std::int32_t device);

// Waits until all work on a GPU is done.
void wait_for_gpu(std::int32_t device) noexcept;

}  // namespace wir
