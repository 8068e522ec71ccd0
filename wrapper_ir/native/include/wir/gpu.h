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
#include <wir/queues.h>

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

// Streams besides the caller's, and events between them. Those of branches are there while a call
// is captured into a CUDA graph: in other calls all work is on the caller's stream, and nothing is
// to be done.
class GpuQueues final : public Queues {
 public:
  // After GpuCall.
  GpuQueues(Call& call, std::int32_t device, std::int32_t streams, std::int32_t events,
            bool are_branches = false);
  ~GpuQueues() override;

  void enter(std::int32_t stream) override;
  void record(std::int32_t event, std::int32_t stream) override;
  void wait(std::int32_t event, std::int32_t stream) override;
  void wait_on_host(std::int32_t event) override;
  void synchronize() override;

 private:
  void end() noexcept;
  void leave() noexcept;

  Call& call_;
  const bool is_idle_;
  std::vector<void*> streams_;  // 0: the caller's
  std::vector<void*> events_;
  void* entered_ = nullptr;  // what ends that another stream is current
};

// The caller's stream, and whether its work is being captured into a graph.
GpuStream current_stream(std::int32_t device);

// Waits until all work on a GPU is done.
void wait_for_gpu(std::int32_t device) noexcept;

}  // namespace wir
