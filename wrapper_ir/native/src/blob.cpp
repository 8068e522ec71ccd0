#include "blob.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wir/error.h>

#include "sha256.h"

namespace wir::runtime {
namespace {

// An address in this library, for dladdr(). Not exported: other libraries may define the symbol.
const char anchor = 0;

std::string library() {
  Dl_info info;
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

[[noreturn]] void refuse(const std::string& file, const std::string& reason,
                         const std::string& hint = "") {
  throw Error("WIR2154", "constants in " + file + ": " + reason, hint);
}

struct File {
  std::string path;
  int descriptor = -1;

  ~File() {
    if (descriptor >= 0) close(descriptor);
  }
};

std::string beside(const std::string& library) {
  const std::size_t slash = library.rfind('/');
  return slash == std::string::npos ? "." : library.substr(0, slash);
}

void open_file(File& file, const ProgramInfo& program, const char* directory) {
  const std::string home = beside(library());
  if (directory != nullptr && *directory != '\0') {
    file.path = std::string(directory) + "/" + program.constants_file;
    file.descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file.descriptor >= 0) return;
  }
  file.path = home + "/" + program.constants_file;
  file.descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.descriptor < 0) {
    const int error = errno;
    refuse(file.path, error == ENOENT ? "there is no such file" : std::strerror(error),
           "keep it beside the library it was made with; one that was made without constants is "
           "given them by whoever loads it");
  }
}

std::string in_hexadecimal(const std::uint8_t* bytes, std::size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

void check_trailer(const ProgramInfo& program, const std::string& file, const std::uint8_t* end) {
  Trailer trailer;
  std::memcpy(&trailer, end, sizeof trailer);
  if (std::memcmp(trailer.magic, "WIRDATA1", sizeof trailer.magic) != 0) {
    refuse(file, "it is not a whole file of constants");
  }
  if (trailer.size != program.blob_size() ||
      in_hexadecimal(trailer.digest, sizeof trailer.digest) != program.constants_digest) {
    refuse(file, "it belongs to another build", "keep the file that was made with the library");
  }
}

void check_digest(const ProgramInfo& program, const std::string& where, const std::uint8_t* begin) {
  const char* wanted = std::getenv("WRAPPER_IR_VERIFY_CONSTANTS");
  if (wanted == nullptr || std::strcmp(wanted, "1") != 0) return;
  if (sha256(begin, program.blob_size()) != program.constants_digest) {
    refuse(where, "their bytes have changed since the library was made");
  }
}

}  // namespace

std::shared_ptr<Blob> Blob::open(const ProgramInfo& program, const char* directory) {
  if (program.constants_file == nullptr) {
    // Embedded constants are in a writable section.
    auto* begin = const_cast<std::uint8_t*>(program.constants_begin);
    const std::uint64_t size = program.constants_end - program.constants_begin;
    if (size < program.blob_size()) refuse(library(), "the library is damaged");
    check_digest(program, library(), begin);
    return std::shared_ptr<Blob>(new Blob(begin, program.blob_size(), 0));
  }
  File file;
  open_file(file, program, directory);
  struct stat status;
  if (fstat(file.descriptor, &status) != 0) refuse(file.path, std::strerror(errno));
  const std::uint64_t whole = program.blob_size() + sizeof(Trailer);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size != whole) {
    refuse(file.path,
           "it has " + std::to_string(size) + " bytes instead of " + std::to_string(whole),
           "keep the file that was made with the library");
  }
  void* mapping = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                       file.descriptor, 0);
  if (mapping == MAP_FAILED) refuse(file.path, std::strerror(errno));
  auto* begin = static_cast<std::uint8_t*>(mapping);
  std::shared_ptr<Blob> blob(new Blob(begin, program.blob_size(), whole));
  check_trailer(program, file.path, begin + program.blob_size());
  check_digest(program, file.path, begin);
  return blob;
}

Blob::~Blob() {
  if (mapped_ != 0 && !pinned_) munmap(begin_, mapped_);
}

void Blob::pin() {
  if (pinned_) return;
  if (mapped_ == 0) {
    // The handle is never closed, which keeps the library loaded.
    dlopen(library().c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  pinned_ = true;
}

}  // namespace wir::runtime
