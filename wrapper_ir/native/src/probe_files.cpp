#include "probe_files.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <wir/dtype.h>

namespace wir::runtime {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcs = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t n = 0; n < 256; ++n) {
    std::uint32_t value = n;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
    table[n] = value;
  }
  return table;
}();

template <class T>
void put(std::string& text, T value) {  // little-endian
  for (std::size_t n = 0; n < sizeof value; ++n) {
    text += static_cast<char>(static_cast<std::uint64_t>(value) >> 8 * n);
  }
}

// Python's pickle, protocol 2, as far as tensors need it.
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
  void integers(const Index& values) {
    text_ += '(';
    for (const std::int64_t value : values) integer(value);
    text_ += 't';
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_ = "\x80\x02";
};

std::string pickled(const Shown& tensor, const Index& stride, std::int64_t bytes) {
  Pickle pickle;
  pickle.name("torch._utils", "_rebuild_tensor_v3");
  pickle.code("((");
  pickle.string("storage");
  pickle.name("torch.storage", "UntypedStorage");
  pickle.string("0");
  pickle.string("cpu");
  pickle.integer(bytes);
  pickle.code("tQ");
  pickle.integer(0);  // storage offset
  pickle.integers(tensor.size());
  pickle.integers(stride);
  pickle.code("\x89");  // requires no gradient
  pickle.name("collections", "OrderedDict");
  pickle.code(")R");
  pickle.name("torch", dtype_name(tensor.dtype()));
  pickle.code("tR.");
  return pickle.text();
}

// An archive of files that are not compressed.
class Zip {
 public:
  explicit Zip(const std::string& file) : name_(file), file_(std::fopen(file.c_str(), "wbe")) {
    if (file_ == nullptr) throw std::runtime_error(reason(file));
  }
  ~Zip() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Zip(const Zip&) = delete;
  Zip& operator=(const Zip&) = delete;

  void add(const char* name, const void* data, std::size_t size) {
    std::string head = "PK\3\4";
    std::string facts;
    put(facts, std::uint16_t{20});  // version
    put(facts, std::uint32_t{0});   // flags, method
    put(facts, std::uint32_t{0x210000});  // the first of January 1980
    put(facts, crc32(data, size));
    put(facts, static_cast<std::uint32_t>(size));
    put(facts, static_cast<std::uint32_t>(size));
    put(facts, static_cast<std::uint32_t>(std::strlen(name)));  // and no extra field
    index_ += "PK\1\2";
    put(index_, std::uint16_t{20});
    index_ += facts;
    index_.append(10, '\0');  // comment, disk, attributes
    put(index_, static_cast<std::uint32_t>(written_));
    index_ += name;
    ++count_;
    write((head + facts + name).data(), head.size() + facts.size() + std::strlen(name));
    write(data, size);
  }

  void close() {
    std::string end = "PK\5\6";
    put(end, std::uint32_t{0});
    put(end, count_);
    put(end, count_);
    put(end, static_cast<std::uint32_t>(index_.size()));
    put(end, static_cast<std::uint32_t>(written_));
    put(end, std::uint16_t{0});
    write(index_.data(), index_.size());
    write(end.data(), end.size());
    if (std::fclose(std::exchange(file_, nullptr)) != 0) throw std::runtime_error(reason(name_));
  }

 private:
  void write(const void* data, std::size_t size) {
    written_ += size;
    if (written_ > UINT32_MAX) throw std::runtime_error(name_ + ": files end at 4 GiB");
    if (size != 0 && std::fwrite(data, size, 1, file_) != 1) {
      throw std::runtime_error(reason(name_));
    }
  }

  std::string name_;
  std::FILE* file_;
  std::string index_;
  std::uint16_t count_ = 0;
  std::uint64_t written_ = 0;
};

bool repeats(const Shown& tensor) {
  for (std::size_t n = 0; n < tensor.size().size(); ++n) {
    if (tensor.stride()[n] == 0 && tensor.size()[n] > 1) return true;
  }
  return false;
}

// The elements in their own layout; zeros where that has gaps.
std::string spread(const Shown& tensor, const char* packed) {
  const Index& size = tensor.size();
  const Index& stride = tensor.stride();
  std::int64_t last = 0;
  for (std::size_t n = 0; n < size.size(); ++n) last += (size[n] - 1) * stride[n];
  const auto bytes = static_cast<std::size_t>(tensor.element_bytes());
  std::string made((static_cast<std::size_t>(last) + 1) * bytes, '\0');
  Index index(size.size());
  std::int64_t offset = 0;
  for (std::int64_t position = 0; position < tensor.count(); ++position, packed += bytes) {
    std::memcpy(made.data() + static_cast<std::size_t>(offset) * bytes, packed, bytes);
    for (std::size_t n = size.size(); n-- > 0;) {
      offset += stride[n];
      if (++index[n] < size[n]) break;
      offset -= size[n] * stride[n];
      index[n] = 0;
    }
  }
  return made;
}

Index row_major_strides(const Index& size) {
  Index stride(size.size(), 1);
  for (std::size_t n = size.size(); n-- > 1;) {
    stride[n - 1] = stride[n] * (size[n] == 0 ? 1 : size[n]);
  }
  return stride;
}

}  // namespace

std::string reason(const std::string& file) {
  return file + ": " + std::strerror(errno);
}

std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t value = ~before;
  for (std::size_t n = 0; n < size; ++n) value = value >> 8 ^ kCrcs[(value ^ bytes[n]) & 255];
  return ~value;
}

void save(const Shown& tensor, const std::string& file) {
  const Tensor packed = tensor.packed();
  const char* bytes = data<char>(packed);
  auto size = static_cast<std::size_t>(tensor.count() * tensor.element_bytes());
  Index stride = tensor.stride();
  std::string own;
  if (tensor.count() != 0 && repeats(tensor)) {
    stride = row_major_strides(tensor.size());
  } else if (tensor.count() != 0 && !tensor.is_contiguous()) {
    own = spread(tensor, bytes);
    bytes = own.data();
    size = own.size();
  }
  const std::string pickle = pickled(tensor, stride, static_cast<std::int64_t>(size));
  const std::string unfinished = file + ".unfinished";
  Zip zip(unfinished);
  zip.add("archive/data.pkl", pickle.data(), pickle.size());
  zip.add("archive/byteorder", "little", 6);
  zip.add("archive/data/0", bytes, size);
  zip.add("archive/version", "3\n", 2);
  zip.close();
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
