// What a program was made from besides arguments: the thread's modes, and the model's state.
#pragma once

#include <algorithm>
#include <deque>
#include <tuple>

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "ahead.h"
#include "structure.h"

namespace wir_py {

// The modes of a thread, and of the process, that change what a call computes or records.
struct Mode {
  std::uint64_t included, excluded;  // dispatch keys: autocast and inference mode are among them
  std::int32_t grad, inference, deterministic, default_dtype, autocast_cpu, autocast_gpu;

  static Mode current(bool ignores_grad) {
    const auto keys = c10::impl::tls_local_dispatch_key_set();
    return {keys.included_.raw_repr(),
            keys.excluded_.raw_repr(),
            !ignores_grad && c10::GradMode::is_enabled(),
            c10::InferenceMode::is_enabled(),
            at::globalContext().deterministicAlgorithms(),
            static_cast<std::int32_t>(c10::get_default_dtype_as_scalartype()),
            static_cast<std::int32_t>(at::autocast::get_autocast_dtype(at::kCPU)),
            static_cast<std::int32_t>(at::autocast::get_autocast_dtype(at::kCUDA))};
  }

  // False where other code sees each op, or what it saves: functorch's transforms, tracing,
  // Python's modes, derivatives in forward mode, hooks for saved tensors.
  bool is_plain() const {
    using c10::DispatchKey;
    static const std::uint64_t in = (c10::default_included_set | c10::autocast_dispatch_keyset |
                                     c10::DispatchKeySet(DispatchKey::ADInplaceOrView))
                                        .raw_repr();
    static const std::uint64_t out =
        (c10::default_excluded_set | c10::autocast_dispatch_keyset |
         c10::autograd_dispatch_keyset_with_ADInplaceOrView)
            .raw_repr();
    using Function = at::impl::PythonTorchFunctionTLS;
    return (included & ~in) == 0 && (excluded & ~out) == 0 && Function::stack_len() == 0 &&
           Function::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED &&
           torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr &&
           (grad == 0 || !at::SavedTensorDefaultHooks::get_hooks(true));
  }

  bool operator==(const Mode&) const = default;
};

// What autograd knows of a tensor; null: nothing. It is read where it lies, because torch's functions
// that tell of it, several calls for each tensor, take longer than all other tests.
using Meta = const torch::autograd::AutogradMeta*;

inline Meta meta_of(const c10::TensorImpl& impl) {
  return static_cast<Meta>(impl.autograd_meta());
}

// Whether gradients are recorded for a tensor: 0 no, 1 for a leaf, 2 for a result.
inline int recorded(const at::Tensor& tensor, Meta meta) {
  if (meta == nullptr) return 0;
  if (meta->is_view_) [[unlikely]] {  // only torch asks its base, which may have got some since
    return !tensor.requires_grad() ? 0 : tensor.is_leaf() ? 1 : 2;
  }
  return meta->grad_fn_ ? 2 : meta->requires_grad_ ? 1 : 0;
}

// What a tensor has to be like. Made of (dtype, device type, device index, sizes, strides, plain,
// recorded, alignment in bytes); a size or stride of None may vary.
class TensorTest {
 public:
  explicit TensorTest(PyObject* row) {
    PyObject *sizes, *strides;
    int plain;
    if (!PyArg_ParseTuple(row, "iiiOOpii", &spec_.dtype, &spec_.device_type, &spec_.device_index,
                          &sizes, &strides, &plain, &recorded_, &alignment_)) {
      throw pybind11::error_already_set();
    }
    size_ = numbers_in(sizes), stride_ = numbers_in(strides);
    spec_.rank = static_cast<std::int32_t>(size_.size());
    spec_.size = size_.data(), spec_.stride = stride_.data();
    spec_.plain = plain != 0;
  }
  TensorTest(TensorTest&&) = default;  // which leaves the numbers where they are

  bool operator==(const TensorTest& other) const {
    const auto facts = [](const TensorTest& test) {
      const wir::TensorSpec& spec = test.spec_;
      return std::tie(spec.dtype, spec.device_type, spec.device_index, spec.plain, test.size_,
                      test.stride_, test.recorded_, test.alignment_);
    };
    return facts(*this) == facts(other);
  }

  bool operator()(const at::Tensor& tensor) const {
    return (*this)(tensor, meta_of(*tensor.unsafeGetTensorImpl()));
  }
  bool operator()(const at::Tensor& tensor, Meta meta) const {
    return matches(spec_, spec_.device_index, tensor) && recorded(tensor, meta) == recorded_ &&
           (alignment_ == 1 || is_aligned(tensor));
  }

 private:
  bool is_aligned(const at::Tensor& tensor) const {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % alignment_ == 0;
  }

  static std::vector<std::int64_t> numbers_in(PyObject* values) {
    std::vector<std::int64_t> found;
    for (const auto& each : borrowed(values)) {
      found.push_back(each.is_none() ? wir::kDynamic : each.cast<std::int64_t>());
    }
    return found;
  }

  wir::TensorSpec spec_{};
  std::vector<std::int64_t> size_, stride_;
  int recorded_, alignment_;
};

// Values of a model, as they were when a program was made. Values that do not change are compared,
// others have to be the same objects, whose contents are listed beside them.
class State {
 public:
  // (dict or class, size or -1, ((key, value) or (key,), ...)): a key without a value is absent.
  void add_dict(PyObject* row) {
    PyObject *owner, *items;
    Dict made;
    if (!PyArg_ParseTuple(row, "OnO", &owner, &made.size, &items)) {
      throw pybind11::error_already_set();
    }
    made.owner = borrowed(owner);
    PyObject* dict = PyType_Check(owner) ? dict_of(reinterpret_cast<PyTypeObject*>(owner)) : owner;
    for (const auto& item : borrowed(items)) {
      const auto pair = item.cast<pybind11::tuple>();
      made.items.push_back({pair[0], pair.size() > 1 ? Object(pair[1]) : Object()});
    }
    dicts_.push_back(std::move(made));
    seen_.push_back({dict, 0});
  }

  // A (list, tuple), (set, frozenset), (function, (code, defaults, kwdefaults)), (cell, value) or
  // (object, name, value). The value of an empty cell or slot is NotImplemented.
  void add_watched(PyObject* row) {
    const auto items = borrowed(row).cast<pybind11::tuple>();
    const bool named = items.size() > 2;
    watched_.push_back({items[0], named ? Object(items[1]) : Object(), items[named ? 2 : 1]});
  }

  // A tensor and how to test it. Its storage is part of that if the program writes to some.
  void add_tensor(PyObject* value, PyObject* test, bool with_storage) {
    if (!is_tensor(value)) throw pybind11::type_error("a model's tensor is none");
    TensorTest made(test);
    const auto same = std::find(tests_.begin(), tests_.end(), made);
    const TensorTest* kept = same == tests_.end() ? &tests_.emplace_back(std::move(made)) : &*same;
    tensors_.push_back(
        {borrowed(value), kept, with_storage ? storage_of(THPVariable_Unpack(value)) : nullptr});
  }

  bool holds() {
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if (i + kAhead < seen_.size()) fetch(version_in(seen_[i + kAhead].dict));
      auto& [dict, version] = seen_[i];
      const std::uint64_t now = kHasVersions ? *version_in(dict) : 0;
      if (kHasVersions && now == version) [[likely]] continue;
      if (!dicts_[i].holds(dict)) return false;
      version = now;
    }
    for (const Watched& each : watched_) {
      if (!each.holds()) return false;
    }
    return true;
  }

  bool tensors_fit() const {
    // A tensor is found in three steps, and each of them is taken for another one: Python's object
    // leads to torch's, and that to what autograd knows of it.
    const std::size_t count = tensors_.size();
    if (count == 0) return true;
    Meta metas[kAhead];
    for (std::size_t i = 0; i < count + 2 * kAhead; ++i) {
      if (i < count) fetch(value(i));
      if (const std::size_t at = i - kAhead; at < count) {
        fetch_all(*tensor(at).unsafeGetTensorImpl());
      }
      if (const std::size_t at = i - kAhead - kAhead / 2; at < count) {
        const Meta meta = metas[at % kAhead] = meta_of(*tensor(at).unsafeGetTensorImpl());
        if (meta != nullptr) fetch(&meta->grad_fn_), fetch(&meta->requires_grad_);
      }
      const std::size_t at = i - 2 * kAhead;
      if (at >= count) continue;
      const Tensor& each = tensors_[at];
      const at::Tensor& tensor = THPVariable_Unpack(each.value.ptr());
      if (!(*each.test)(tensor, metas[at % kAhead])) return false;
      if (each.storage != nullptr && storage_of(tensor) != each.storage) return false;
    }
    return true;
  }

  PyObject* value(std::size_t i) const { return tensors_[i].value.ptr(); }
  const at::Tensor& tensor(std::size_t i) const { return THPVariable_Unpack(value(i)); }

  bool shares_storage(const void* storage) const {
    for (const Tensor& each : tensors_) {
      if (each.storage == storage) return true;
    }
    return false;
  }

  int visit(visitproc visit, void* arg) const {
    for (const Dict& each : dicts_) {
      Py_VISIT(each.owner.ptr());
      for (const auto& [key, value] : each.items) {
        Py_VISIT(key.ptr());
        Py_VISIT(value.ptr());
      }
    }
    for (const Watched& each : watched_) {
      Py_VISIT(each.owner.ptr());
      Py_VISIT(each.value.ptr());
    }
    for (const Tensor& each : tensors_) Py_VISIT(each.value.ptr());
    return 0;
  }

 private:
  // Each change of a dict gives it a number that no dict had before. Since Python 3.13 attributes of
  // an object may change without.
  static constexpr bool kHasVersions = PY_VERSION_HEX < 0x030D0000;

  static const std::uint64_t* version_in(PyObject* dict) {
#if PY_VERSION_HEX < 0x030D0000
    return &reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#else
    return reinterpret_cast<const std::uint64_t*>(dict);
#endif
  }

  struct Seen {
    PyObject* dict;
    std::uint64_t version;  // at which it held last
  };

  struct Dict {
    Object owner;  // keeps the dict alive
    Py_ssize_t size;
    std::vector<std::pair<Object, Object>> items;

    bool holds(PyObject* dict) const {
      if (size >= 0 && PyDict_GET_SIZE(dict) != size) return false;
      for (const auto& [key, value] : items) {
        PyObject* found = PyDict_GetItemWithError(dict, key.ptr());
        if (found == nullptr) PyErr_Clear();
        if (found == nullptr || !value ? found != value.ptr() : !is_same(value.ptr(), found)) {
          return false;
        }
      }
      return true;
    }
  };

  struct Watched {
    Object owner, name, value;

    bool holds() const {
      PyObject* kept = value.ptr();
      if (name) {
        const Object found =
            pybind11::reinterpret_steal<Object>(PyObject_GetAttr(owner.ptr(), name.ptr()));
        if (!found) PyErr_Clear();
        return is_same(kept, found ? found.ptr() : Py_NotImplemented);
      }
      if (PyCell_Check(owner.ptr())) {
        PyObject* found = PyCell_GET(owner.ptr());
        return is_same(kept, found != nullptr ? found : Py_NotImplemented);
      }
      if (PyFunction_Check(owner.ptr())) {
        PyObject* const found[] = {PyFunction_GET_CODE(owner.ptr()),
                                   PyFunction_GET_DEFAULTS(owner.ptr()),
                                   PyFunction_GET_KW_DEFAULTS(owner.ptr())};
        bool same = true;
        for (Py_ssize_t i = 0; same && i < 3; ++i) {
          same = is_same(PyTuple_GET_ITEM(kept, i), found[i] == nullptr ? Py_None : found[i]);
        }
        return same;
      }
      if (PyList_Check(owner.ptr())) {
        const Py_ssize_t size = PyList_GET_SIZE(owner.ptr());
        bool same = size == PyTuple_GET_SIZE(kept);
        for (Py_ssize_t i = 0; same && i < size; ++i) {
          same = is_same(PyTuple_GET_ITEM(kept, i), PyList_GET_ITEM(owner.ptr(), i));
        }
        return same;
      }
      const int equal = PyObject_RichCompareBool(owner.ptr(), kept, Py_EQ);
      if (equal < 0) PyErr_Clear();
      return equal == 1;
    }
  };

  struct Tensor {
    Object value;
    const TensorTest* test;  // of `tests_`: most tensors of a model are alike
    const void* storage;
  };

  static PyObject* dict_of(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030C0000
    return type->tp_dict;
#else
    PyObject* dict = PyType_GetDict(type);
    Py_DECREF(dict);  // the type keeps it
    return dict;
#endif
  }

  std::vector<Dict> dicts_;
  std::vector<Seen> seen_;  // of the same number
  std::vector<Watched> watched_;
  std::deque<TensorTest> tests_;
  std::vector<Tensor> tensors_;
};

}  // namespace wir_py
