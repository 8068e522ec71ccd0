// GPU kernels: machine code embedded in the library, launched through the CUDA driver.
//
// The driver is opened when a program's first state is created, so a library can be built and
// inspected on a machine without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <wir/launch.h>
#include <wir/program.h>
#include <wir/queues.h>

namespace wir {

// A kernel's machine code for one architecture.
struct GpuImage {
  std::int32_t arch;         // compute capability: 90 for 9.0; 0 ends a list of images
  std::int32_t cooperative;  // nonzero: blocks wait for each other, so all must run at once
  const std::uint8_t* code;  // in the driver's format
  const char* symbol;        // the function in `code`
  std::uint32_t threads;     // per block
  std::uint32_t shared;      // bytes of shared memory per block
  std::int64_t scratch;      // bytes of scratch memory per block, which the launch provides
};
static_assert(sizeof(GpuImage) == 40);  // the build emits images in assembly

// One kernel of a program, on one GPU.
class GpuCode {
 public:
  // `images` ends with an entry whose `arch` is 0.
  constexpr GpuCode(const char* name, const GpuImage* images) : name_(name), images_(images) {}

  // Loads the image that fits the device, once per process. Must be called before a launch.
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
    // Triton kernels take two more pointers: scratch memory and a profiler's buffer.
    void *scratch = nullptr, *profile = nullptr;
    void* addresses[] = { &params..., &scratch, &profile };
    launch(call, grid, addresses, scratch);
  }
};

// Makes a GPU current for the duration of a call, and records its stream in the call. Programs that
// use several GPUs launch kernels on the other ones' current streams.
class GpuCall {
 public:
  GpuCall(Call& call, std::int32_t device);
  ~GpuCall();
  GpuCall(const GpuCall&) = delete;
  GpuCall& operator=(const GpuCall&) = delete;

 private:
  void* guard_ = nullptr;
};

// Streams besides the caller's, and events between them. Streams for branches exist only while a
// call is captured into a CUDA graph: in other calls all work is on the caller's stream, and the
// functions do nothing.
class GpuQueues : public Queues {
 public:
  // Construct after GpuCall.
  GpuQueues(Call& call, std::int32_t device, std::int32_t streams, std::int32_t events,
            bool are_branches = false);
  ~GpuQueues() override;

  void enter(std::int32_t stream) override;
  void record(std::int32_t event, std::int32_t stream) override;
  void wait(std::int32_t event, std::int32_t stream) override;
  void wait_on_host(std::int32_t event) override;
  void synchronize() override;

 protected:
  // A stream or an event that somebody else owns; nothing makes one for the call.
  struct Handle {
    bool is_given = false;
    void* given = nullptr;
  };
  GpuQueues(Call& call, std::int32_t device, const std::vector<Handle>& streams,
            const std::vector<Handle>& events);

 private:
  void begin(const std::vector<Handle>& streams, const std::vector<Handle>& events);
  void end() noexcept;
  void leave() noexcept;

  Call& call_;
  const bool is_idle_;
  std::vector<void*> streams_;  // 0: the caller's
  std::vector<void*> events_;
  std::vector<void*> own_streams_;
  std::vector<void*> own_events_;
  void* entered_ = nullptr;  // restores the caller's stream; null while it is current
};

// Streams and events of which some are the user's. Python looks those up in each call, by the
// number that the program has for each: -1 for the program's own.
class UserGpuQueues final : public GpuQueues {
 public:
  UserGpuQueues(Call& call, std::int32_t device, std::initializer_list<std::int64_t> streams,
                std::initializer_list<std::int64_t> events);

 private:
  static std::vector<Handle> found(const char* op, std::int32_t device,
                                   std::initializer_list<std::int64_t> numbers);
};

// The caller's stream, and a flag that says if its work is being captured into a graph.
GpuStream current_stream(std::int32_t device);

// Waits for all work on a GPU.
void wait_for_gpu(std::int32_t device) noexcept;

}  // namespace wir
