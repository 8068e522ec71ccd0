// An array whose length is fixed at construction. Short ones need no allocation.
#pragma once

#include <cstddef>
#include <memory>

namespace wir::runtime {

template <typename T>
class SmallArray {
 public:
  explicit SmallArray(std::size_t size) : size_(size) {
    if (size > kInline) many_ = std::make_unique<T[]>(size);
  }

  T* data() { return size_ > kInline ? many_.get() : few_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) { return data()[index]; }

 private:
  static constexpr std::size_t kInline = 16;

  std::size_t size_;
  T few_[kInline] = {};
  std::unique_ptr<T[]> many_;
};

}  // namespace wir::runtime
