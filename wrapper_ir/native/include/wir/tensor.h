// Tensors over PyTorch's C shim. The owner of a handle deletes it.
#pragma once

#include <cstdint>
#include <utility>

#include <wir/error.h>
#include <wir/program.h>

namespace wir {

// Owns a handle, or nothing.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(AtenTensorHandle owned) noexcept : handle_(owned) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { reset(); }

  operator AtenTensorHandle() const noexcept { return handle_; }

  // The address at which a C shim function stores a new handle.
  AtenTensorHandle* out() noexcept {
    reset();
    return &handle_;
  }
  AtenTensorHandle release() noexcept { return std::exchange(handle_, nullptr); }
  void reset() noexcept {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(std::exchange(handle_, nullptr));
  }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// An element type and a device, in the C shim's numbers.
struct Options {
  std::int32_t dtype;
  std::int32_t device_type;
  std::int32_t device_index;
};

// A tensor with new storage; its contents are undefined. `allocate` is aoti_torch_empty_strided or
// a function like it.
template <typename Function>
Tensor allocated(Function allocate, std::int64_t rank, const std::int64_t* size,
                 const std::int64_t* stride, Options options) {
  AtenTensorHandle made = nullptr;
  check(allocate(rank, size, stride, options.dtype, options.device_type, options.device_index,
                 &made));
  return Tensor(made);
}

inline Tensor empty(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                    Options options) {
  return allocated(aoti_torch_empty_strided, rank, size, stride, options);
}

inline void zero(AtenTensorHandle tensor) { check(aoti_torch_zero_(tensor)); }

inline std::int64_t offset_of(AtenTensorHandle tensor) {
  std::int64_t offset = 0;
  check(aoti_torch_get_storage_offset(tensor, &offset));
  return offset;
}

// A view of a tensor's storage that starts `offset` elements after the tensor does.
inline Tensor view(AtenTensorHandle source, std::int64_t rank, const std::int64_t* size,
                   const std::int64_t* stride, std::int64_t offset) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch__reinterpret_tensor(source, rank, size, stride, offset, &made));
  return Tensor(made);
}

// A second handle to a tensor.
inline Tensor share(AtenTensorHandle tensor) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_new_tensor_handle(tensor, &made));
  return Tensor(made);
}

// The address of the first element.
template <class T = void>
T* data(AtenTensorHandle tensor) {
  void* pointer = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &pointer));
  return static_cast<T*>(pointer);
}

// The address `bytes` past that of the first element.
template <class T = void>
T* data_at(AtenTensorHandle tensor, std::int64_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data(tensor)) +
                              static_cast<std::uintptr_t>(bytes));
}

inline std::int64_t size(AtenTensorHandle tensor, std::int64_t dim) {
  std::int64_t found = 0;
  check(aoti_torch_get_size(tensor, dim, &found));
  return found;
}

inline std::int64_t stride(AtenTensorHandle tensor, std::int64_t dim) {
  std::int64_t found = 0;
  check(aoti_torch_get_stride(tensor, dim, &found));
  return found;
}

inline const std::int64_t* sizes(AtenTensorHandle tensor) {
  std::int64_t* found = nullptr;
  check(aoti_torch_get_sizes(tensor, &found));
  return found;
}

inline const std::int64_t* strides(AtenTensorHandle tensor) {
  std::int64_t* found = nullptr;
  check(aoti_torch_get_strides(tensor, &found));
  return found;
}

// A value for an optional argument of a C shim function: passed by address, where null means none.
template <class T>
class Optional {
 public:
  explicit Optional(T value) : value_(value) {}
  operator T*() { return &value_; }

 private:
  T value_;
};

// A place for an output of a C shim function that is not needed.
template <class T>
class Unwanted {
 public:
  T* out() { return &value_; }

 private:
  T value_{};
};

template <class T>
Optional<T> some(T value) { return Optional<T>(value); }

}  // namespace wir
