// The modes of the calling thread that matter to memory kept between calls.
#pragma once

#include <exception>
#include <thread>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

// Calls a function outside of inference mode. A tensor created in that mode cannot be written to
// outside of it, and constants and kept memory outlive the mode they are created in. The C shim can
// neither leave the mode nor query it. But it is a mode of the thread, and it is off whenever grad
// mode is on.
template <typename Function>
void outside_inference_mode(Function&& function) {
  if (aoti_torch_grad_mode_is_enabled()) {
    function();
    return;
  }
  std::exception_ptr failure;
  std::thread([&] {
    try {
      function();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace wir
