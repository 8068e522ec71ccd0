// The modes of the calling thread that matter to a library.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <wir/modes.h>

namespace wir::runtime {

// Turns autograd's recording off while it exists. With recording on, library ops with an `out`
// argument refuse tensors that require gradients.
class NoGrad {
 public:
  NoGrad() : before_(aoti_torch_grad_mode_is_enabled()) {
    if (before_) aoti_torch_grad_mode_set_enabled(false);
  }
  ~NoGrad() {
    if (before_) aoti_torch_grad_mode_set_enabled(true);
  }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

}  // namespace wir::runtime
