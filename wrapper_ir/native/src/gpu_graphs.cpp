// Captures CUDA graphs. Linked into GPU programs that capture their calls.
//
// PyTorch has to know about a capture: memory that its allocator hands out meanwhile must stay with
// the graph, and random numbers must differ between replays. Its C shim has no function for that,
// so this file calls at::cuda::CUDAGraph in libtorch_cuda by mangled names. They are the same in
// PyTorch 2.11 to 2.15. If one is missing, nothing is captured.
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/gpu.h>

#include "driver.h"
#include "graph_recorder.h"
#include "on_stream.h"

namespace wir::runtime {

// Member functions from CUDAGraph.h. The object is their first argument.
using Pool = std::pair<unsigned long long, unsigned long long>;
#define WIR_OF_TORCH(TYPE, NAME, PARAMS, SYMBOL) TYPE NAME PARAMS __asm__(SYMBOL) __attribute__((weak))
WIR_OF_TORCH(void, graph_make, (void* graph, bool keep), "_ZN2at4cuda9CUDAGraphC1Eb");
WIR_OF_TORCH(void, graph_destroy, (void* graph), "_ZN2at4cuda9CUDAGraphD1Ev");
WIR_OF_TORCH(void, graph_begin, (void* graph, Pool pool, int mode),
             "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
WIR_OF_TORCH(void, graph_end, (void* graph), "_ZN2at4cuda9CUDAGraph11capture_endEv");
WIR_OF_TORCH(void, graph_replay, (void* graph), "_ZN2at4cuda9CUDAGraph6replayEv");
WIR_OF_TORCH(Pool, graph_pool, (void* graph), "_ZN2at4cuda9CUDAGraph4poolEv");
// From CUDAContextLight.h.
WIR_OF_TORCH(void, clear_workspaces, (), "_ZN2at4cuda21clearCublasWorkspacesEv");
#undef WIR_OF_TORCH

namespace {

void check(CUresult result, const char* what) { Driver::get().check(result, what); }

// An at::cuda::CUDAGraph.
class TorchGraph : public Recording {
 public:
  TorchGraph() { graph_make(memory_, false); }
  ~TorchGraph() override { graph_destroy(memory_); }
  TorchGraph(const TorchGraph&) = delete;
  TorchGraph& operator=(const TorchGraph&) = delete;

  void replay() override { graph_replay(memory_); }
  void begin(Pool pool) { graph_begin(memory_, pool, CaptureDriver::kThreadLocal); }
  void end() { graph_end(memory_); }
  Pool pool() { return graph_pool(memory_); }

 private:
  // The object takes about 150 bytes in PyTorch 2.11, and 450 in 2.13.
  alignas(64) std::byte memory_[4096];
};

class CudaRecorder : public Recorder {
 public:
  explicit CudaRecorder(std::int32_t gpu) : gpu_(gpu) {
    const Driver& driver = Driver::get();
    int device = 0;
    check(driver.device_get(&device, gpu), "finding the GPU");
    check(driver.retain_context(&context_, device), "using the GPU");
    const Current current(context_);
    const CaptureDriver& capture = CaptureDriver::get();
    check(capture.create_event(&event_, capture.kNoTiming), "making an event");
    check(capture.create_stream(&capturing_, capture.kNonBlocking), "making a stream");
  }
  ~CudaRecorder() override {
    wait();
    CaptureDriver::get().destroy_event(event_);
    CaptureDriver::get().destroy_stream(capturing_);
  }

  std::int32_t device_type() const override { return device::cuda; }
  std::int32_t device_index() const override { return gpu_; }

  bool enter() override;
  void leave() override;
  std::unique_ptr<Recording> record(const std::function<void()>& work, Recording* beside) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  void begin() override;
  void end() noexcept override;
  void wait() noexcept override;

 private:
  void mend(TorchGraph& broken) noexcept;

  std::int32_t gpu_;
  void* context_ = nullptr;
  void* event_ = nullptr;      // completes with the last work
  void* capturing_ = nullptr;  // a stream of our own, on which nothing executes
  void* stream_ = nullptr;     // the caller's
  void* last_ = nullptr;       // the stream of the last work
  bool has_last_ = false;
};

bool CudaRecorder::enter() {
  const GpuStream found = current_stream(gpu_);
  check(Driver::get().push_context(context_), "using the GPU");
  stream_ = found.stream;
  return found.is_captured;
}

void CudaRecorder::leave() {
  void* popped = nullptr;
  Driver::get().pop_context(&popped);
}

std::unique_ptr<Recording> CudaRecorder::record(const std::function<void()>& work,
                                                Recording* beside) {
  // The random number generator can take part in only one capture at a time.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const CaptureDriver& driver = CaptureDriver::get();
  // PyTorch writes to memory that graphs with random numbers read: none may be running.
  check(driver.wait_for_stream(stream_), "waiting for the GPU");
  auto made = std::make_unique<TorchGraph>();
  {
    const OnStream on_stream(gpu_, capturing_);
    try {
      made->begin(beside == nullptr ? Pool{0, 0} : static_cast<TorchGraph*>(beside)->pool());
      work();
      made->end();
    } catch (...) {
      mend(*made);
      clear_workspaces();
      throw;
    }
  }
  check(driver.wait_for_stream(capturing_), "waiting for the GPU");
  // The workspaces of cuBLAS now belong to the graph; other work must not use them.
  clear_workspaces();
  return made;
}

// After a failed capture, PyTorch's allocator still believes it is in progress, and so does its
// random number generator, which then refuses to draw. Starting a dummy capture and ending it
// through PyTorch resets both.
void CudaRecorder::mend(TorchGraph& broken) noexcept {
  const CaptureDriver& driver = CaptureDriver::get();
  const auto stop = [&] {
    int status = 0;
    if (Driver::get().is_capturing(capturing_, &status) == 0 && status == 0) return;
    void* graph = nullptr;
    driver.end_capture(capturing_, &graph);
    if (graph != nullptr) driver.destroy_graph(graph);
  };
  stop();
  if (driver.begin_capture(capturing_, CaptureDriver::kThreadLocal) != 0) return;
  driver.call_host(capturing_, [](void*) {}, nullptr);  // PyTorch warns about empty graphs
  try {
    broken.end();
  } catch (const std::exception&) {
    stop();  // it had ended already
  }
}

void CudaRecorder::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  const auto address = [](const void* pointer) {
    return static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer));
  };
  check(CaptureDriver::get().copy(address(target), address(source), bytes, stream_), "copying");
}

void CudaRecorder::begin() {
  if (has_last_ && last_ != stream_) {
    check(CaptureDriver::get().order_after_event(stream_, event_, 0), "waiting for a stream");
  }
}

void CudaRecorder::end() noexcept {
  last_ = stream_;
  has_last_ = CaptureDriver::get().record_event(event_, stream_) == 0;
}

void CudaRecorder::wait() noexcept {
  const CaptureDriver& driver = CaptureDriver::get();
  int mode = CaptureDriver::kRelaxed;  // the caller may be capturing something else
  if (Driver::get().push_context(context_) != 0) return;  // the process is exiting
  driver.exchange_mode(&mode);
  driver.wait_for_event(event_);
  driver.exchange_mode(&mode);
  leave();
}

}  // namespace

const char* why_no_recorder() {
  const bool has_all = graph_make != nullptr && graph_destroy != nullptr &&
                       graph_begin != nullptr && graph_end != nullptr && graph_replay != nullptr &&
                       graph_pool != nullptr && clear_workspaces != nullptr;
  return has_all ? nullptr : "this PyTorch has no at::cuda::CUDAGraph that the library knows";
}

std::shared_ptr<Recorder> make_recorder(const ProgramInfo& program) {
  return std::make_shared<CudaRecorder>(program.number());
}

}  // namespace wir::runtime
