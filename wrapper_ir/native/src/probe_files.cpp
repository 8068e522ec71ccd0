#include "probe_files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wir/dtype.h>

#include "probe_values.h"

namespace wir::runtime {
namespace {

// A file name with the message for errno.
std::string reason(const std::string& file, int error = errno) {
  return file + ": " + std::strerror(error);
}

template <class T>
void put(std::string& text, T value) {  // little-endian
  for (std::size_t n = 0; n < sizeof value; ++n) {
    text += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * n);
  }
}

// A writer of Python's pickle format, protocol 2, as far as tensors need it.
class Pickle {
 public:
  void code(const char* text) { text_ += text; }
  void name(const char* module, const char* name) {
    text_ += std::string("c") + module + "\n" + name + "\n";
  }
  void string(const char* value) {
    text_ += 'X';
    put(text_, static_cast<std::uint32_t>(std::strlen(value)));
    text_ += value;
  }
  void integer(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      text_ += 'J';
      put(text_, static_cast<std::int32_t>(value));
    } else {
      text_ += "\x8a\x08";
      put(text_, value);
    }
  }
  void integers(at::IntArrayRef values) {
    text_ += '(';
    for (const std::int64_t value : values) integer(value);
    text_ += 't';
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "\x80\x02";
};

std::string pickled(const at::Tensor& tensor) {
  Pickle pickle;
  pickle.name("torch._utils", "_rebuild_tensor_v3");
  pickle.code("((");
  pickle.string("storage");
  pickle.name("torch.storage", "UntypedStorage");
  pickle.string("0");
  pickle.string("cpu");
  pickle.integer(static_cast<std::int64_t>(tensor.storage().nbytes()));
  pickle.code("tQ");
  pickle.integer(0);  // storage offset
  pickle.integers(tensor.sizes());
  pickle.integers(tensor.strides());
  pickle.code("\x89");  // requires no gradient
  pickle.name("collections", "OrderedDict");
  pickle.code(")R");
  pickle.name("torch", dtype_name(static_cast<std::int32_t>(tensor.scalar_type())));
  pickle.code("tR.");
  return pickle.text();
}

}  // namespace

void save(const at::Tensor& tensor, const std::string& file) {
  const at::Tensor own = private_copy(tensor);
  const std::string pickle = pickled(own);
  const std::string unfinished = file + ".unfinished";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> to(std::fopen(unfinished.c_str(), "wbe"),
                                                     std::fclose);
  if (to == nullptr) throw std::runtime_error(reason(unfinished));
  int error = 0;  // thrown at the end: the writer cannot be interrupted
  caffe2::serialize::PyTorchStreamWriter zip([&](const void* data, std::size_t size) {
    if (error == 0 && std::fwrite(data, 1, size, to.get()) != size) error = errno;
    return size;
  });
  zip.writeRecord("data.pkl", pickle.data(), pickle.size());
  zip.writeRecord("byteorder", "little", 6);
  zip.writeRecord("data/0", own.const_data_ptr(), own.storage().nbytes());
  zip.writeEndOfFile();
  if (std::fclose(to.release()) != 0 && error == 0) error = errno;
  if (error != 0) throw std::runtime_error(reason(unfinished, error));
  if (std::rename(unfinished.c_str(), file.c_str()) != 0) throw std::runtime_error(reason(file));
}

void append(const std::string& file, const std::string& text) {
  const int to = open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (to < 0) throw std::runtime_error(reason(file));
  const bool done = write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(to);
  if (!done) throw std::runtime_error(reason(file));
}

std::string new_directory(const std::string& wanted) {
  for (std::size_t end = 1; end < wanted.size(); ++end) {
    if (wanted[end] == '/') mkdir(wanted.substr(0, end).c_str(), 0777);
  }
  for (int number = 0;; ++number) {
    const std::string found = number == 0 ? wanted : wanted + "." + std::to_string(number);
    if (mkdir(found.c_str(), 0777) != 0 && errno != EEXIST) throw std::runtime_error(reason(found));
    const int index = open((found + "/index.jsonl").c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (index >= 0) {
      close(index);
      const std::unique_ptr<char, decltype(&std::free)> whole(realpath(found.c_str(), nullptr),
                                                              &std::free);
      return whole != nullptr ? whole.get() : found;
    }
    if (errno != EEXIST) throw std::runtime_error(reason(found));
  }
}

}  // namespace wir::runtime
