// An array that keeps a few elements inline, without a heap allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace wir_py {

// Up to N elements fit without an allocation. The capacity is fixed at construction, so pointers to
// elements stay valid.
template <class T, std::size_t N>
class Row {
 public:
  explicit Row(std::size_t room)
      : data_(room <= N ? reinterpret_cast<T*>(near_)
                        : static_cast<T*>(::operator new(room * sizeof(T)))) {}
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  ~Row() {
    std::destroy_n(data_, size_);
    if (data_ != reinterpret_cast<T*>(near_)) ::operator delete(data_);
  }

  template <class... Args>
  T& add(Args&&... args) {
    T* made = new (data_ + size_) T(std::forward<Args>(args)...);
    ++size_;
    return *made;
  }
  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  alignas(T) std::byte near_[N * sizeof(T)];
  T* data_;
  std::size_t size_ = 0;
};

// A row of value-initialized elements.
template <class T, std::size_t N>
class NullRow : public Row<T, N> {
 public:
  explicit NullRow(std::size_t size) : Row<T, N>(size) {
    for (std::size_t i = 0; i < size; ++i) this->add();
  }
};

}  // namespace wir_py
