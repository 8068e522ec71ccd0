// Kernels in OpenCL C for C++ programs: the device's library compiles them and puts them on streams.
#pragma once
#include <initializer_list>
#include <mutex>
#include <string>
#include <type_traits>
#include <wir/launch.h>

namespace wir { struct Call; }

namespace device_opencl {

struct Argument { const void* value; std::size_t size; bool is_memory; };

// Of the library; what goes wrong is thrown. Sizes are those of the grid, and of a work-group or 0.
void* compile(const char* code, const char* entry, const std::string& options);
void launch(void* kernel, std::initializer_list<std::int64_t> grid, const std::int64_t* group,
            std::initializer_list<Argument> arguments);

template <class... Params>
class Kernel {
 public:
  explicit Kernel(const wir::KernelText& text) : text_(text) {}

  void load(std::int32_t) {
    const std::lock_guard guard(lock_);
    std::string macros;
    for (const auto* option = text_.options; option != text_.options + text_.num_options; ++option)
      macros += std::string(" -D") + option->name + "=" + option->value;
    if (kernel_ == nullptr) kernel_ = compile(text_.code, text_.entry, macros);
  }
  void operator()(wir::Call&, const wir::Grid& grid, Params... params) const {
    launch(kernel_, {grid.x, grid.y, grid.z}, text_.group,
           {{&params, sizeof params, std::is_pointer_v<Params>}...});
  }

 private:
  const wir::KernelText& text_;
  std::mutex lock_;
  void* kernel_ = nullptr;
};

}  // namespace device_opencl
