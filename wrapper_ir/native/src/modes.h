// The modes of the calling thread that matter to a library.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <wir/modes.h>

namespace wir::runtime {

// No recording for a backward, as long as it lives: library ops with an `out` argument refuse
// tensors that require gradients otherwise.
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
