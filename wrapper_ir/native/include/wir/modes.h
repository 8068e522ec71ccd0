// The modes of the calling thread, as far as kept memory has to do with them.
#pragma once

#include <exception>
#include <thread>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

// Does something outside of inference mode. A tensor that was made in that mode cannot be written
// to outside of it later, and constants and kept memory outlive the mode in which they are made.
// The C shim can neither leave the mode nor ask for it; but it belongs to a thread, and where grad
// mode is on it is off.
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
