// Small gradients in the layout that a backward program was compiled for.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>

#include "inputs.h"

namespace wir_py {

// Up to so many elements are copied here: it takes less than ATen's planning of a copy.
constexpr std::int64_t kMostCopied = 4096;

// Copy elements of one type, row by row.
template <class T>
void copy_rows(T* to, const T* from, c10::IntArrayRef size, const std::int64_t* to_stride,
               const std::int64_t* from_stride) {
  if (size.empty()) {
    *to = *from;
    return;
  }
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
  bool is_known = false, is_apart = false;  // apart: no two elements meet

  bool fits(const at::Tensor& x) const {
    return is_known && x.unsafeGetTensorImpl()->layout() == c10::kStrided && has_size(x) &&
           x.strides() == c10::IntArrayRef(stride);
  }

  // True if `copy` gives what ATen's copy would. What overlaps itself is left to ATen.
  bool may_copy(const at::Tensor& x) const {
    if (!is_known || !x.defined() || x.requires_grad()) return false;
    const c10::DispatchKeySet keys = x.key_set();
    if (!is_plain(keys) || x.is_conj() || x.is_neg() || !x.is_cpu()) return false;
    if (x.element_size() > 16) return false;
    return x.numel() <= kMostCopied && has_size(x) && is_apart;
  }

  at::Tensor copy(const at::Tensor& x) const {
    at::Tensor made = at::detail::empty_strided_cpu(size, stride, x.scalar_type());
    if (x.numel() == 0) return made;
    switch (x.element_size()) {
      case 1:
        copy_as<std::uint8_t>(made, x);
        break;
      case 2:
        copy_as<std::uint16_t>(made, x);
        break;
      case 4:
        copy_as<std::uint32_t>(made, x);
        break;
      case 8:
        copy_as<std::uint64_t>(made, x);
        break;
      default:
        copy_as<std::array<std::uint64_t, 2>>(made, x);
    }
    return made;
  }

 private:
  bool has_size(const at::Tensor& x) const { return x.sizes() == c10::IntArrayRef(size); }

  template <class T>
  void copy_as(const at::Tensor& to, const at::Tensor& x) const {
    copy_rows(static_cast<T*>(to.unsafeGetTensorImpl()->mutable_data()),
              static_cast<const T*>(x.unsafeGetTensorImpl()->data()), size, stride.data(),
              x.strides().data());
  }
};

// Whether each stride passes over all that smaller ones reach, so that no two elements meet.
inline bool are_apart(c10::IntArrayRef size, c10::IntArrayRef stride) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (size[d] > 1) steps.emplace_back(stride[d], size[d]);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;
  for (const auto& [step, count] : steps) {
    if (step <= reach) return false;
    reach += step * (count - 1);
  }
  return true;
}

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
    layout.is_apart = layout.is_known && are_apart(layout.size, layout.stride);
  }
  return found;
}

}  // namespace wir_py
