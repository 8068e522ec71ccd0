// The states of a program: what it keeps between calls, one for each concurrent call.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "ahead.h"
#include "inputs.h"

namespace wir_py {

// A program's constants from one swap to the next. The tensors share memory with the owner's, but
// not metadata: a weight may get other memory (`weight.data = ...`) while a call runs.
struct Epoch {
  std::vector<at::Tensor> tensors;
  std::vector<AtenTensorHandle> handles;
};

// The location of a constant when an epoch began.
struct Place {
  const void* storage;
  const void* data;
  bool operator==(const Place&) const = default;
};

inline Place place_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return {tensor.unsafeGetTensorImpl(), nullptr};  // packed by a library
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  return {storage.unsafeGetStorageImpl(), static_cast<const char*>(storage.data()) + offset};
}

// Used only under the GIL.
class States {
 public:
  struct Taken {
    void* state = nullptr;
    std::shared_ptr<const Epoch> epoch;
    std::uint64_t releases = 0;  // the number of releases before it was created
    wir::GpuStream stream;       // the stream that its GPU memory belongs to
  };

  // `keep`: the number of states kept between calls. Any number can be in use.
  States(const wir::ProgramInfo* info, std::size_t keep) : info_(info), keep_(keep) {}
  States(const States&) = delete;
  States& operator=(const States&) = delete;
  ~States() {
    clear();
    if (info_->release_shared != nullptr) info_->release_shared();
  }

  // True if the constants are where they were when the epoch began.
  bool is_current(PyObject* const* constants) const {
    if (epoch_ == nullptr) return false;
    const std::size_t count = places_.size();
    if (count == 0) return true;
    const auto impl = [&](std::size_t i) {
      return THPVariable_Unpack(constants[i]).unsafeGetTensorImpl();
    };
    for (std::size_t i = 0; i < count + 2 * kAhead; ++i) {
      if (i < count) fetch(constants[i]);
      if (const std::size_t at = i - kAhead; at < count) fetch_all(*impl(at));
      if (const std::size_t at = i - kAhead - kAhead / 2; at < count) fetch(storage_of(*impl(at)));
      const std::size_t at = i - 2 * kAhead;
      if (at < count && place_of(THPVariable_Unpack(constants[at])) != places_[at]) return false;
    }
    return true;
  }

  void begin_epoch(PyObject* const* constants) {
    auto epoch = std::make_shared<Epoch>();
    std::vector<Place> places;
    const c10::InferenceMode ordinary(false);  // a later call may not be in that mode
    for (std::size_t i = 0; i < info_->num_constants; ++i) {
      const at::Tensor& constant = THPVariable_Unpack(constants[i]);
      places.push_back(place_of(constant));
      epoch->tensors.push_back(constant.detach());
    }
    for (const at::Tensor& tensor : epoch->tensors) epoch->handles.push_back(handle_of(&tensor));
    clear();
    epoch_ = std::move(epoch);
    places_ = std::move(places);
  }

  Taken take() {
    wir::GpuStream stream;
    if (info_->current_stream != nullptr) stream = info_->current_stream(info_->number());
    for (std::size_t i = free_.size(); i-- > 0;) {
      if (stream.is_captured || free_[i].stream.stream != stream.stream) continue;
      std::swap(free_[i], free_.back());
      Taken taken = std::move(free_.back());
      free_.pop_back();
      return taken;
    }
    const c10::InferenceMode ordinary(false);
    const at::NoGradGuard no_grad;
    return {info_->create_state(epoch_->handles.data()), epoch_, releases_, stream};
  }

  void give(Taken taken) {
    // A state created during capture holds memory of the graph.
    if (taken.epoch == epoch_ && taken.releases == releases_ && !taken.stream.is_captured) {
      free_.push_back(std::move(taken));
      if (free_.size() <= keep_) return;
      taken = std::move(free_.front());  // perhaps one for another stream
      free_.erase(free_.begin());
    }
    info_->destroy_state(taken.state);
  }

  // Free the states that no call is using; calls in progress free theirs when they end. Returns the
  // number of bytes freed immediately.
  std::size_t release() {
    std::size_t bytes = info_->release_shared == nullptr ? 0 : info_->release_shared();
    if (info_->kept_bytes == nullptr) return bytes;
    for (const Taken& each : free_) bytes += info_->kept_bytes(each.state);
    ++releases_;
    clear();
    return bytes;
  }

 private:
  void clear() {
    for (Taken& each : free_) info_->destroy_state(each.state);
    free_.clear();
  }

  const wir::ProgramInfo* info_;
  std::size_t keep_;
  std::shared_ptr<const Epoch> epoch_;
  std::vector<Place> places_;
  std::vector<Taken> free_;
  std::uint64_t releases_ = 0;
};

}  // namespace wir_py
