// The bytes of a program's constants, embedded in the library or in a file next to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <wir/program.h>

namespace wir::runtime {

// Follows the bytes in a constants file. Shows whether the file is truncated or belongs to another
// build without reading all of it.
struct Trailer {
  char magic[8];  // "WIRDATA1"
  std::uint64_t size;
  std::uint8_t digest[32];
};
static_assert(sizeof(Trailer) == 48);

class Blob {
 public:
  // Looks in `directory` first, unless it is null, then next to the library. If the environment
  // variable WRAPPER_IR_VERIFY_CONSTANTS is 1, checks all bytes against the digest.
  static std::shared_ptr<Blob> open(const ProgramInfo& program, const char* directory);

  // Whether the library was built without values, which its loader must then supply.
  static bool is_absent(const ProgramInfo& program) {
    return program.constants_file != nullptr && *program.constants_digest == '\0';
  }

  Blob(const Blob&) = delete;
  Blob& operator=(const Blob&) = delete;
  ~Blob();

  // Private to the process: writes affect neither the file nor other processes.
  std::uint8_t* begin() const { return begin_; }
  std::uint64_t size() const { return size_; }

  bool holds(const void* address) const {
    const auto* byte = static_cast<const std::uint8_t*>(address);
    return byte >= begin_ && byte < begin_ + size_;
  }

  // Keeps the bytes for the rest of the process, because a tensor that views them was handed out.
  void pin();

 private:
  Blob(std::uint8_t* begin, std::uint64_t size, std::size_t mapped)
      : begin_(begin), size_(size), mapped_(mapped) {}

  std::uint8_t* begin_;
  std::uint64_t size_;
  std::size_t mapped_;  // size of the mapping in bytes; 0 if the bytes are in the library
  std::atomic<bool> pinned_ = false;
};

}  // namespace wir::runtime
