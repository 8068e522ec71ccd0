// Small gradients in the layout that a backward program was compiled for.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include <ATen/EmptyTensor.h>

#include "inputs.h"

namespace wir_py {

// Up to so many elements are copied here: it takes less than ATen's planning of a copy.
constexpr std::int64_t kMostCopied = 4096;

inline void copy_elements(char* to, const char* from, std::size_t item, c10::IntArrayRef size,
                          const std::int64_t* to_stride, const std::int64_t* from_stride) {
  if (size.empty()) {
    std::memcpy(to, from, item);
    return;
  }
  for (std::int64_t i = 0; i < size[0]; ++i) {
    copy_elements(to + i * to_stride[0] * item, from + i * from_stride[0] * item, item,
                  size.slice(1), to_stride + 1, from_stride + 1);
  }
}

// Copy rows of elements of one type.
template <class T>
void copy_rows(T* to, const T* from, c10::IntArrayRef size, const std::int64_t* to_stride,
               const std::int64_t* from_stride) {
  const std::int64_t step = *to_stride, from_step = *from_stride;
  if (size.size() > 1) {
    for (std::int64_t i = 0; i < size[0]; ++i) {
      copy_rows(to + i * step, from + i * from_step, size.slice(1), to_stride + 1, from_stride + 1);
    }
    return;
  }
  for (std::int64_t i = 0; i < size[0]; ++i) to[i * step] = from[i * from_step];
}

// Sizes and strides; none are known of a gradient whose sizes vary.
struct Layout {
  std::vector<std::int64_t> size, stride;
  bool is_known = false;

  bool fits(const at::Tensor& x) const {
    return is_known && x.unsafeGetTensorImpl()->layout() == c10::kStrided && has_size(x) &&
           x.strides() == c10::IntArrayRef(stride);
  }

  // True if `copy` gives what ATen's copy would. What overlaps itself is left to ATen.
  bool may_copy(const at::Tensor& x) const {
    if (!is_known || !x.defined() || x.requires_grad()) return false;
    const c10::DispatchKeySet keys = x.key_set();
    if (!is_plain(keys) || x.is_conj() || x.is_neg() || !x.is_cpu()) return false;
    return x.numel() <= kMostCopied && has_size(x) && !overlaps();
  }

  at::Tensor copy(const at::Tensor& x) const {
    at::Tensor made = at::detail::empty_strided_cpu(size, stride, x.scalar_type());
    char* to = static_cast<char*>(made.unsafeGetTensorImpl()->mutable_data());
    const char* from = static_cast<const char*>(x.unsafeGetTensorImpl()->data());
    if (x.numel() == 0) return made;
    if (size.empty()) {
      std::memcpy(to, from, x.element_size());
    } else if (x.element_size() == 4) {
      copy_as<std::uint32_t>(to, from, x);
    } else if (x.element_size() == 8) {
      copy_as<std::uint64_t>(to, from, x);
    } else if (x.element_size() == 2) {
      copy_as<std::uint16_t>(to, from, x);
    } else {
      copy_elements(to, from, x.element_size(), size, stride.data(), x.strides().data());
    }
    return made;
  }

 private:
  bool has_size(const at::Tensor& x) const { return x.sizes() == c10::IntArrayRef(size); }

  bool overlaps() const {
    for (std::size_t d = 0; d < size.size(); ++d) {
      if (stride[d] == 0 && size[d] > 1) return true;
    }
    return false;
  }

  template <class T>
  void copy_as(char* to, const char* from, const at::Tensor& x) const {
    copy_rows(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), size, stride.data(),
              x.strides().data());
  }
};

// The numbers in a tuple of Python. A Python error may be set.
inline std::unique_ptr<std::vector<Py_ssize_t>> numbers_in(PyObject* tuple) {
  auto found = std::make_unique<std::vector<Py_ssize_t>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    found->push_back(PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i)));
  }
  return found;
}

// Layouts in a tuple: each a pair of tuples, or None. A Python error may be set.
inline std::unique_ptr<std::vector<Layout>> layouts_in(PyObject* tuple) {
  auto found = std::make_unique<std::vector<Layout>>();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    Layout& layout = found->emplace_back();
    PyObject *size, *stride;
    PyObject* pair = PyTuple_GET_ITEM(tuple, i);
    if (pair == Py_None) continue;
    if (!PyArg_ParseTuple(pair, "O!O!", &PyTuple_Type, &size, &PyTuple_Type, &stride)) break;
    const auto sizes = numbers_in(size), strides = numbers_in(stride);
    layout.size.assign(sizes->begin(), sizes->end());
    layout.stride.assign(strides->begin(), strides->end());
    layout.is_known = layout.size.size() == layout.stride.size();
  }
  return found;
}

}  // namespace wir_py
