// The extra streams of a call, including those for branches of captured calls. Linked into programs
// that run on a GPU; most use none.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <wir/error.h>
#include <wir/gpu.h>

#include "driver.h"
#include "on_stream.h"

namespace wir {
namespace {

// Streams that no call is using, by GPU. They are not from PyTorch's pool, which hands out the same
// streams to everybody: work that others queue on one during a capture would become part of the
// graph. They live as long as the process. A call may give back a stream that is still busy: later
// work on it is queued behind.
class IdleStreams {
 public:
  static IdleStreams& get() {
    static auto* const streams = new IdleStreams;  // calls may outlive static objects
    return *streams;
  }

  void* take(std::int32_t gpu) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& idle = idle_[gpu];
    if (idle.empty()) return make();
    void* taken = idle.back();
    idle.pop_back();
    return taken;
  }

  void give(std::int32_t gpu, void* stream) {
    const std::lock_guard lock(mutex_);
    idle_[gpu].push_back(stream);
  }

 private:
  static void* make() {
    const CaptureDriver& driver = CaptureDriver::get();
    void* made = nullptr;
    int mode = CaptureDriver::kRelaxed;  // the thread may be capturing; this is not part of it
    driver.exchange_mode(&mode);
    const CUresult result = driver.create_stream(&made, CaptureDriver::kNonBlocking);
    driver.exchange_mode(&mode);
    Driver::get().check(result, "making a stream");
    return made;
  }

  std::mutex mutex_;
  std::map<std::int32_t, std::vector<void*>> idle_;
};

// Asks Python for the handle of a user's stream or event.
void* handle_of_user(const char* op, std::int32_t device, std::int64_t number) {
  StableIValue stack[] = {static_cast<StableIValue>(device), static_cast<StableIValue>(number)};
  const bool is_asked = aoti_torch_call_dispatcher(op, "", stack) == AOTI_TORCH_SUCCESS;
  const auto found = static_cast<std::int64_t>(stack[0]);
  if (is_asked && found != -1) return reinterpret_cast<void*>(found);
  throw Error("WIR2174", "the program uses user object {number}, which is missing: {problem}",
              {std::to_string(number), is_asked ? "nobody provides it" : "Python is not here"},
              "call the function that torch.compile returned; it provides these objects");
}

}  // namespace

GpuQueues::GpuQueues(Call& call, std::int32_t device, std::int32_t streams, std::int32_t events,
                     bool are_branches)
    : call_(call), is_idle_(are_branches && !current_stream(device).is_captured) {
  if (is_idle_) return;
  if (!are_branches) use_gpu(device);
  begin(std::vector<Handle>(streams), std::vector<Handle>(events));
}

GpuQueues::GpuQueues(Call& call, std::int32_t device, const std::vector<Handle>& streams,
                     const std::vector<Handle>& events)
    : call_(call), is_idle_(false) {
  use_gpu(device);
  begin(streams, events);
}

void GpuQueues::begin(const std::vector<Handle>& streams, const std::vector<Handle>& events) {
  streams_.assign(1, call_.stream);
  try {
    for (const Handle& each : streams) {
      if (!each.is_given) own_streams_.push_back(IdleStreams::get().take(call_.gpu));
      streams_.push_back(each.is_given ? each.given : own_streams_.back());
    }
    for (const Handle& each : events) {
      if (!each.is_given) {
        void* made = nullptr;
        const CaptureDriver& driver = CaptureDriver::get();
        Driver::get().check(driver.create_event(&made, driver.kNoTiming), "making an event");
        own_events_.push_back(made);
      }
      events_.push_back(each.is_given ? each.given : own_events_.back());
    }
  } catch (...) {
    end();
    throw;
  }
}

GpuQueues::~GpuQueues() {
  leave();
  end();
}

// Gives the streams back in order: the next call takes the same ones, whose memory the allocator
// still has.
void GpuQueues::end() noexcept {
  for (void* event : own_events_) CaptureDriver::get().destroy_event(event);
  for (std::size_t n = own_streams_.size(); n > 0; --n) {
    IdleStreams::get().give(call_.gpu, own_streams_[n - 1]);
  }
}

void GpuQueues::enter(std::int32_t stream) {
  if (is_idle_) [[likely]] return;
  leave();
  if (stream == 0) return;
  entered_ = wir_gpu_enter(call_.gpu, streams_[stream]);
  call_.stream = streams_[stream];
}

void GpuQueues::leave() noexcept {
  if (entered_ == nullptr) return;
  wir_gpu_leave(entered_);
  entered_ = nullptr;
  call_.stream = streams_.front();
}

void GpuQueues::record(std::int32_t event, std::int32_t stream) {
  if (is_idle_) [[likely]] return;
  const CUresult result = CaptureDriver::get().record_event(events_[event - 1], streams_[stream]);
  Driver::get().check(result, "recording an event");
}

void GpuQueues::wait(std::int32_t event, std::int32_t stream) {
  if (is_idle_) [[likely]] return;
  const CaptureDriver& driver = CaptureDriver::get();
  const CUresult result = driver.order_after_event(streams_[stream], events_[event - 1], 0);
  Driver::get().check(result, "waiting for an event");
}

void GpuQueues::wait_on_host(std::int32_t event) {
  const CUresult result = CaptureDriver::get().wait_for_event(events_[event - 1]);
  Driver::get().check(result, "waiting for an event");
}

void GpuQueues::synchronize() {
  Driver::get().check(Driver::get().synchronize(), "waiting for the GPU");
}

UserGpuQueues::UserGpuQueues(Call& call, std::int32_t device,
                             std::initializer_list<std::int64_t> streams,
                             std::initializer_list<std::int64_t> events)
    : GpuQueues(call, device, found("wrapper_ir_device::user_stream", device, streams),
                found("wrapper_ir_device::user_event", device, events)) {}

std::vector<GpuQueues::Handle> UserGpuQueues::found(const char* op, std::int32_t device,
                                                    std::initializer_list<std::int64_t> numbers) {
  std::vector<Handle> handles;
  for (const std::int64_t number : numbers) {
    handles.push_back(number == -1 ? Handle{} : Handle{true, handle_of_user(op, device, number)});
  }
  return handles;
}

}  // namespace wir
