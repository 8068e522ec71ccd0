// The bytes of a program's constants: in the library, or in a file beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <wir/program.h>

namespace wir::runtime {

// What follows the bytes in a file: by it a file that was cut off, or that belongs to another
// build, is known without reading the whole.
struct Trailer {
  char magic[8];  // "WIRDATA1"
  std::uint64_t size;
  std::uint8_t digest[32];
};
static_assert(sizeof(Trailer) == 48);

class Blob {
 public:
  // `directory` is looked into first; null: only beside the library. With the environment variable
  // WRAPPER_IR_VERIFY_CONSTANTS set to 1 every byte is compared with the digest.
  static std::shared_ptr<Blob> open(const ProgramInfo& program, const char* directory);

  // Whether the library was made without values, for whoever loads it to give.
  static bool is_absent(const ProgramInfo& program) {
    return program.constants_file != nullptr && *program.constants_digest == '\0';
  }

  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;
  ~Blob();

  // Private to the process: who writes here changes neither the file nor another process.
  std::uint8_t* begin() const { return begin_; }
  std::uint64_t size() const { return size_; }

  bool holds(const void* address) const {
    const auto* byte = static_cast<const std::uint8_t*>(address);
    return byte >= begin_ && byte < begin_ + size_;
  }

  // Keeps the bytes for the rest of the process: somebody holds a tensor that shows them.
  void pin();

 private:
  Blob(std::uint8_t* begin, std::uint64_t size, std::size_t mapped)
      : begin_(begin), size_(size), mapped_(mapped) {}

  std::uint8_t* begin_;
  std::uint64_t size_;
  std::size_t mapped_;  // bytes of the mapping; 0: the bytes are in the library
  std::atomic<bool> pinned_ = false;
};

}  // namespace wir::runtime
