// Memory that a caller provides for results.
#pragma once

#include "inputs.h"
#include "row.h"

namespace wir_py {

// The range of addresses of a tensor's elements.
struct Span {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  explicit Span(const at::Tensor& tensor) {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!impl.has_storage() || impl.numel() == 0) return;
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < impl.dim(); ++d) last += (impl.sizes()[d] - 1) * impl.strides()[d];
    begin = reinterpret_cast<std::uintptr_t>(impl.data());
    end = begin + static_cast<std::uintptr_t>(last + 1) * impl.itemsize();
  }
  bool meets(const Span& other) const { return begin < other.end && other.begin < end; }
};

// The tensors that the caller provides for one call's results.
class Given {
 public:
  // `any`: the caller provides some.
  Given(const wir::ProgramInfo& info, bool any)
      : info_(info), tensors_(any ? info.num_outputs : 0), handles_(any ? info.num_outputs : 0) {}

  // Takes the tensors in a tuple. False: they are not, or not certainly, acceptable.
  bool take(PyObject* out) {
    if (!PyTuple_Check(out) || PyTuple_GET_SIZE(out) != static_cast<Py_ssize_t>(info_.num_outputs)) {
      return false;
    }
    bool right = true;
    for (std::size_t i = 0; i < info_.num_outputs; ++i) {
      PyObject* value = PyTuple_GET_ITEM(out, static_cast<Py_ssize_t>(i));
      if (value == Py_None) continue;
      if (info_.outputs[i].kind != wir::Kind::kTensor || !is_tensor(value)) return false;
      const at::Tensor& tensor = tensors_.add(THPVariable_Unpack(value));
      handles_[i] = handle_of(&tensor);
      right &= matches(info_, info_.outputs[i].tensor, tensor) && !tensor.is_conj() && !tensor.is_neg() &&
               !meets(tensor, tensors_.size() - 1);
    }
    return right;
  }

  // True if a tensor shares memory with one of them.
  bool meets(const at::Tensor& tensor) const { return meets(tensor, tensors_.size()); }

  // The index of the first one whose elements are not plain memory; -1 if there is none.
  Py_ssize_t odd() const {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i] != nullptr && !is_plain(tensor_of(handles_[i])->key_set())) {
        return static_cast<Py_ssize_t>(i);
      }
    }
    return -1;
  }

  const AtenTensorHandle* handles() { return handles_.data(); }

  // Tell autograd that they were written to.
  void bump_versions() const {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].is_inference()) tensors_[i].unsafeGetTensorImpl()->bump_version();
    }
  }

 private:
  bool meets(const at::Tensor& tensor, std::size_t count) const {
    const Span span(tensor);
    for (std::size_t i = 0; i < count; ++i) {
      if (span.meets(Span(tensors_[i]))) return true;
    }
    return false;
  }

  const wir::ProgramInfo& info_;
  Row<at::Tensor, 8> tensors_;  // the tensors that handles point to
  NullRow<AtenTensorHandle, 8> handles_;
};

}  // namespace wir_py
