// Tensors over PyTorch's C shim: who owns a handle deletes it.
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

  // Where a function of the C shim puts a new handle.
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

// A type and a device, as the C shim numbers them.
struct Options {
  std::int32_t dtype;
  std::int32_t device_type;
  std::int32_t device_index;
};

// New storage; its contents are undefined. The function is aoti_torch_empty_strided, or one like it.
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

// A view of a tensor's storage that begins `offset` elements after the tensor does.
inline Tensor view(AtenTensorHandle source, std::int64_t rank, const std::int64_t* size,
                   const std::int64_t* stride, std::int64_t offset) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch__reinterpret_tensor(source, rank, size, stride, offset, &made));
  return Tensor(made);
}

// A second handle of a tensor.
inline Tensor share(AtenTensorHandle tensor) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_new_tensor_handle(tensor, &made));
  return Tensor(made);
}

// The first element.
template <class T = void>
T* data(AtenTensorHandle tensor) {
  void* pointer = nullptr;
  check(aoti_torch_get_data_ptr(tensor, &pointer));
  return static_cast<T*>(pointer);
}

// What lies so many bytes behind the first element.
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

// A value that a function of the C shim takes by address, or leaves out where that is null.
template <class T>
class Optional {
 public:
  explicit Optional(T value) : value_(value) {}
  operator T*() { return &value_; }

 private:
  T value_;
};

// Where a function of the C shim puts a number that nobody wants.
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
