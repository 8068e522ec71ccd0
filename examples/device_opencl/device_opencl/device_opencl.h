// Kernels in OpenCL C and streams for C++ programs, by way of the device's library.
#pragma once
#include <atomic>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <wir/launch.h>
#include <wir/queues.h>

namespace wir { struct Call; }

namespace device_opencl {

struct Argument { const void* value; std::size_t size; bool is_memory; };

// Of the library; what goes wrong is thrown. Sizes are those of the grid, and of a work-group or 0.
void* compile(const char* code, const char* entry, const std::string& options);
void launch(void* kernel, std::initializer_list<std::int64_t> grid, const std::int64_t* group,
            std::initializer_list<Argument> arguments);

struct Stream;  // commands in order; an event is one, too: of a single command
extern "C" {
Stream *opencl_new(), *opencl_current(), *opencl_enter(Stream*);
void opencl_drop(Stream*), *opencl_last(Stream*), opencl_follow(Stream*, void* command);
void opencl_wait(Stream*, void* command), opencl_synchronize(void* command);
}

class Queues final : public wir::Queues {
 public:
  Queues(wir::Call&, std::int32_t, std::int32_t streams, std::int32_t events)
      : streams_{opencl_current()}, events_{nullptr} {
    while (streams-- > 0) streams_.push_back(opencl_new());
    while (events-- > 0) events_.push_back(opencl_new());
  }
  ~Queues() override {
    opencl_enter(std::exchange(streams_[0], nullptr));
    for (const auto& made : {streams_, events_})
      for (Stream* each : made) opencl_drop(each);
  }
  void enter(std::int32_t stream) override { opencl_enter(streams_[stream]); }
  void record(std::int32_t event, std::int32_t stream) override {
    opencl_follow(events_[event], opencl_last(streams_[stream]));
  }
  void wait(std::int32_t event, std::int32_t stream) override {
    opencl_wait(streams_[stream], opencl_last(events_[event]));
  }
  void wait_on_host(std::int32_t event) override { opencl_synchronize(opencl_last(events_[event])); }
  void synchronize() override { opencl_synchronize(nullptr); }

 private:
  std::vector<Stream*> streams_, events_;  // 0: the caller's, and none
};

template <class... Params>
class Kernel {
 public:
  explicit Kernel(const wir::KernelText& text) : text_(text) {}

  void load(std::int32_t) {
    if (kernel_ != nullptr) return;
    std::string macros;
    for (const auto* option = text_.options; option != text_.options + text_.num_options; ++option)
      macros += std::string(" -D") + option->name + "=" + option->value;
    kernel_ = compile(text_.code, text_.entry, macros);  // with no lock: it may ask Python
  }
  void operator()(wir::Call&, const wir::Grid& grid, Params... params) const {
    launch(kernel_, {grid.x, grid.y, grid.z}, text_.group,
           {{&params, sizeof params, std::is_pointer_v<Params>}...});
  }

 private:
  const wir::KernelText& text_;
  std::atomic<void*> kernel_{nullptr};
};

}  // namespace device_opencl
