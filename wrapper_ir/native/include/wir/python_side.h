// Launches, streams and events through a device's Python side, for vendors without a C++ class.
//
// They are ops that wrapper_ir.runtime registers (served.py), so a program that calls them needs a
// process that has imported wrapper_ir.runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include <wir/error.h>
#include <wir/launch.h>
#include <wir/op.h>
#include <wir/queues.h>

namespace wir {

struct Call;

// Calls such an op, and says what to import if it is not registered.
inline void ask_python(const char* op, List args, std::initializer_list<Result> results = {}) {
  try {
    Op{op, ""}(args, results);
  } catch (const Error& error) {
    if (std::string_view(error.code()) != "WIR2165") throw;
    throw Error("WIR2165", "the program runs on a device whose Python side launches its kernels",
                "import wrapper_ir.runtime, and the package of the device, before it runs");
  }
}

// A kernel that its language's launcher compiles and launches. Buffers are passed as tensors.
template <class... Params>
class PythonKernel {
 public:
  PythonKernel(const KernelText& text, const char* language, std::int32_t device_type)
      : text_(text), language_(language), device_type_(device_type) {}

  void load(std::int32_t device) {
    std::vector<Arg> options, are_text, group;
    for (const auto* each = text_.options; each != text_.options + text_.num_options; ++each) {
      options.insert(options.end(), {each->name, each->value});
      are_text.push_back(each->is_text);
    }
    for (const std::int64_t size : text_.group) {
      if (size != 0) group.push_back(size);
    }
    Int number;
    ask_python("wrapper_ir_device::load",
               {Device{device_type_, device}, language_, text_.name, text_.params, text_.code,
                text_.entry, list(group), list(options), list(are_text)},
               {{number}});
    number_ = number;
  }

  void operator()(Call&, Ints grid, Params... params) const {
    std::vector<Arg> tensors, numbers;
    (put(tensors, numbers, params), ...);
    ask_python("wrapper_ir_device::launch",
               {number_.load(), grid, list(tensors), list(numbers)});
  }

 private:
  static Arg list(const std::vector<Arg>& values) { return Arg(values.data(), values.size()); }
  static void put(std::vector<Arg>& tensors, std::vector<Arg>&, AtenTensorHandle tensor) {
    tensors.push_back(tensor == nullptr ? Arg(none) : Arg(tensor));
  }
  template <class Number>
  static void put(std::vector<Arg>&, std::vector<Arg>& numbers, Number number) {
    numbers.push_back(number);
  }

  const KernelText& text_;
  const char* language_;
  std::int32_t device_type_;
  std::atomic<std::int64_t> number_{-1};
};

class PythonQueues final : public Queues {
 public:
  PythonQueues(Call&, Device device, std::int32_t streams, std::int32_t events) {
    ask_python("wrapper_ir_device::queues", {device, streams, events}, {{call_}});
  }
  ~PythonQueues() override {
    try {
      ask_python("wrapper_ir_device::leave", {call_});
    } catch (...) {  // the call is over, and its exception, if any, is in flight
    }
  }
  void enter(std::int32_t stream) override {
    ask_python("wrapper_ir_device::enter", {call_, stream});
  }
  void record(std::int32_t event, std::int32_t stream) override {
    ask_python("wrapper_ir_device::record", {call_, event, stream});
  }
  void wait(std::int32_t event, std::int32_t stream) override {
    ask_python("wrapper_ir_device::wait", {call_, event, stream});
  }
  void wait_on_host(std::int32_t event) override {
    ask_python("wrapper_ir_device::wait_on_host", {call_, event});
  }
  void synchronize() override { ask_python("wrapper_ir_device::synchronize", {call_}); }

 private:
  Int call_;
};

}  // namespace wir
