// The probes of a library that runs without Python: their level, output and files.
#include "probing.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <wir/error.h>

#include "probe_files.h"
#include "probe_values.h"
#include "probe_words.h"
#include "text.h"

namespace wir::runtime {
namespace {

constexpr const char* kLevels = "off, names, print, save, check, check_nan or stats";

// Parses a level: one of those above, or one of Inductor's names or numbers. Empty: off. Throws if
// there is no such level.
std::optional<ProbeLevel> parse_level(const char* word) {
  static constexpr struct {
    const char* word;
    ProbeLevel level;
  } kSpellings[] = {
      {"names", ProbeLevel::kNames}, {"print_kernel_names_only", ProbeLevel::kNames},
      {"3", ProbeLevel::kNames},     {"print", ProbeLevel::kPrint},
      {"print_only", ProbeLevel::kPrint}, {"2", ProbeLevel::kPrint},
      {"save", ProbeLevel::kSave},   {"save_only", ProbeLevel::kSave},
      {"1", ProbeLevel::kSave},      {"check", ProbeLevel::kCheck},
      {"check_nan", ProbeLevel::kCheckNan}, {"stats", ProbeLevel::kStats},
  };
  std::string small;
  for (const char* c = word; *c != '\0'; ++c) {
    small += *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c;
  }
  if (small == "off" || small == "0") return std::nullopt;
  for (const auto& each : kSpellings) {
    if (small == each.word) return each.level;
  }
  throw Error("WIR2163", "a library cannot show its values at level '" + small + "'",
              std::string("it knows ") + kLevels);
}

const char* from_environment(const char* name) {
  const char* found = std::getenv(name);
  return found != nullptr && *found != '\0' ? found : nullptr;
}

// The rank of this process among several, as launchers such as torchrun say it. Empty: it is alone.
std::string rank() {
  const char* count = from_environment("WORLD_SIZE");
  const char* number = from_environment("RANK");
  if (count == nullptr || number == nullptr || std::atoi(count) < 2) return "";
  return std::strspn(number, "0123456789") == std::strlen(number) ? number : "";
}

// The name of a file or directory of which each rank has its own.
std::string of_rank(const std::string& name) {
  const std::string number = rank();
  return number.empty() ? name : name + ".rank" + number;
}

// A call wrote a NaN or an infinite value.
class NonFinite : public Error {
 public:
  using Error::Error;
};

const at::Tensor& tensor_of(const Slot& slot) {
  return *reinterpret_cast<const at::Tensor*>(slot.tensor);
}

// The destination of lines and files. Shared by the calls that use it.
class Output {
 public:
  explicit Output(const std::string& directory) : wanted_(of_rank(directory)) {
    const char* name = from_environment("WRAPPER_IR_DEBUG_OUTPUT");
    if (name != nullptr && std::strcmp(name, "stdout") == 0) file_ = STDOUT_FILENO;
    if (name == nullptr || std::strcmp(name, "stdout") == 0 || std::strcmp(name, "stderr") == 0) {
      return;
    }
    const int opened = open(of_rank(name).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (opened >= 0) {
      file_ = opened;
    } else {
      always("debug: cannot write to '" + std::string(name) + "' (" + std::strerror(errno) +
           "); writing here");
    }
  }
  ~Output() {
    if (file_ > STDERR_FILENO) close(file_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void line(const std::string& text) {
    if (spend(text.size() + 1)) always(text);
  }
  // Writes a line, even beyond the limit. Uses a single unbuffered write, so that the line is there
  // if the program crashes next. A closed pipe must not make the program fail.
  void always(const std::string& text) const {
    const std::string number = rank();
    const std::string whole = (number.empty() ? "" : "rank " + number + ": ") + text + "\n";
    while (write(file_, whole.data(), whole.size()) < 0 && errno == EINTR) {
    }
  }

  void save(const at::Tensor& tensor, const std::string& stem, const std::string& entry) {
    if (!spend(tensor.nbytes())) return;
    const std::lock_guard lock(mutex_);
    char number[24];
    std::snprintf(number, sizeof number, "%04d-", events_++);
    const std::string file = number + stem + ".pt";
    runtime::save(tensor, directory() + "/" + file);
    add("index.jsonl", "{\"file\": " + quoted(file) + ", " + entry + "}\n");
  }
  void note(const char* file, const std::string& entry) {
    const std::lock_guard lock(mutex_);
    add(file, "{" + entry + "}\n");
  }

 private:
  void add(const char* file, const std::string& text) {
    if (spend(text.size())) append(directory() + "/" + file, text);
  }

  // Takes bytes from the limit. Says so, once, when the limit is reached.
  bool spend(std::size_t size) {
    {
      const std::lock_guard lock(budget_);
      if (left_ == kUnlimited) return true;
      if (left_ >= static_cast<std::int64_t>(size)) {
        left_ -= static_cast<std::int64_t>(size);
        return true;
      }
      if (std::exchange(left_, -1) < 0) return false;
    }
    always("debug: the limit is reached, the rest is not written (WRAPPER_IR_DEBUG_LIMIT)");
    return false;
  }

  std::int64_t limit() const {
    const char* named = from_environment("WRAPPER_IR_DEBUG_LIMIT");
    if (named == nullptr) return kDefaultLimit;
    if (std::strspn(named, "0123456789") != std::strlen(named)) {
      always("debug: WRAPPER_IR_DEBUG_LIMIT is no number of bytes: '" + std::string(named) + "'");
      return kDefaultLimit;
    }
    const auto bytes = static_cast<std::int64_t>(std::strtoll(named, nullptr, 10));
    return bytes == 0 ? kUnlimited : bytes;
  }

  const std::string& directory() {
    if (directory_.empty()) directory_ = new_directory(wanted_);
    return directory_;
  }

  static constexpr std::int64_t kDefaultLimit = 1 << 30;
  static constexpr std::int64_t kUnlimited = INT64_MAX;

  int file_ = STDERR_FILENO;
  std::mutex budget_;
  std::int64_t left_ = limit();
  std::string wanted_;
  std::mutex mutex_;
  std::string directory_;
  int events_ = 0;
};

struct Settings {
  bool as_built = true;
  std::optional<ProbeLevel> level;  // overrides the level it was built with
  std::shared_ptr<Output> output;
};

// The settings of the library, for all its containers.
struct Current {
  std::mutex mutex;
  Settings settings;
  bool read = false;  // the environment was read, or the user set something
};
Current& current() {
  static Current it;
  return it;
}

std::string directory_or_default(const char* directory) {
  if (directory != nullptr && *directory != '\0') return directory;
  const char* found = from_environment("WRAPPER_IR_DEBUG_DIR");
  if (found == nullptr) found = from_environment("AOTI_TORCH_SAVE_DIR");  // of Inductor's printer
  return found != nullptr ? found : "wrapper_ir_debug";
}

template <class Test>
bool any(const ProgramInfo& program, Test test) {
  for (std::size_t n = 0; n < program.num_probes; ++n) {
    if (test(program.probes[n])) return true;
  }
  return false;
}

Settings parsed(const ProgramInfo& program, const char* level) {
  Settings made;
  made.as_built = level == nullptr;
  if (made.as_built) return made;
  made.level = parse_level(level);
  const bool names_only = !any(program, [](const ProbeInfo& probe) {
    return probe.level != ProbeLevel::kNames;
  });
  if (made.level && *made.level != ProbeLevel::kNames && names_only) {
    throw Error("WIR2163", "the library was built to show names and knows no values to show",
                "export it with another level, such as debug='print': that can be switched to "
                "names");
  }
  return made;
}

void provide_output(Current& it) {
  if (it.settings.output == nullptr) {
    it.settings.output = std::make_shared<Output>(directory_or_default(nullptr));
  }
}

}  // namespace

void read_probe_environment(const ProgramInfo& program) {
  Current& it = current();
  const std::lock_guard lock(it.mutex);
  if (std::exchange(it.read, true)) return;
  provide_output(it);
  try {
    Settings made = parsed(program, from_environment("WRAPPER_IR_DEBUG"));
    made.output = it.settings.output;
    it.settings = made;
  } catch (const Error& error) {  // may be set for another program, so load anyway
    it.settings.output->always("debug: WRAPPER_IR_DEBUG: " + error.message() + " (" + error.hint() +
                             ")");
  }
}

void set_probes(const ProgramInfo& program, const char* level, const char* directory) {
  Settings made = parsed(program, level);
  Current& it = current();
  const std::lock_guard lock(it.mutex);
  const bool same = it.settings.output != nullptr && (directory == nullptr || *directory == '\0');
  made.output = same ? it.settings.output
                     : std::make_shared<Output>(directory_or_default(directory));
  it.settings = made;
  it.read = true;
}

// The receiver of one call's probes. Used only by the thread of the call.
class ProbeReport : public ProbeSink {
 public:
  ProbeReport(const ProgramInfo& program, Settings settings)
      : ProbeSink{[](const ProbeSink& sink, std::size_t probe, const Slot* values) {
          const auto& report = static_cast<const ProbeReport&>(sink);
          const_cast<ProbeReport&>(report).guarded(report.program_.probes[probe], values);
        }},
        program_(program),
        settings_(std::move(settings)) {}

 private:
  // Only the findings of a check make a call fail.
  void guarded(const ProbeInfo& probe, const Slot* values) {
    try {
      show(probe, values);
    } catch (const NonFinite&) {
      throw;
    } catch (const std::exception& error) {
      settings_.output->line(head(probe) + ": cannot be shown: " + first_line(error.what()));
    }
  }

  void show(const ProbeInfo& probe, const Slot* values) {
    switch (settings_.as_built ? probe.level : *settings_.level) {
      case ProbeLevel::kNames: return names(probe);
      case ProbeLevel::kPrint: return print(probe, values);
      case ProbeLevel::kSave: return save(probe, values);
      case ProbeLevel::kCheck: return check(probe, values, true);
      case ProbeLevel::kCheckNan: return check(probe, values, false);
      case ProbeLevel::kStats: return stats(probe, values);
      case ProbeLevel::kCompare:
      case ProbeLevel::kHook: return;  // need Python
    }
  }

  static std::string head(const ProbeInfo& probe) {
    return std::string(probe.label) + (probe.after ? " after" : " before");
  }

  // Writes names only before calls, unless the library was built otherwise.
  void names(const ProbeInfo& probe) {
    const bool told = settings_.as_built || probe.level == ProbeLevel::kNames;
    if (probe.after && !told &&
        any(program_, [](const ProbeInfo& each) { return !each.after; })) {
      return;
    }
    settings_.output->always(head(probe));
  }

  template <class Function>
  void each_tensor(const ProbeInfo& probe, const Slot* values, const char* failed,
                   Function function) {
    for (std::size_t n = 0; n < probe.num_operands; ++n) {
      if (probe.operands[n].kind != ProbeOperand::Kind::kTensor) break;
      try {
        function(probe.operands[n].name, tensor_of(values[n]));
      } catch (const std::exception& error) {
        settings_.output->line(head(probe) + " " + probe.operands[n].name + ": " + failed + ": " +
                               first_line(error.what()));
      }
    }
  }

  // Calls a function with the name and the value of each number.
  template <class Function>
  static void each_number(const ProbeInfo& probe, const Slot* values, Function function) {
    for (std::size_t n = 0; n < probe.num_operands; ++n) {
      const Slot& slot = *values++;
      switch (probe.operands[n].kind) {
        case ProbeOperand::Kind::kTensor: break;
        case ProbeOperand::Kind::kBool:
          function(probe.operands[n].name, at::Scalar(slot.integer != 0));
          break;
        case ProbeOperand::Kind::kInteger:
          function(probe.operands[n].name, at::Scalar(slot.integer));
          break;
        case ProbeOperand::Kind::kReal:
          function(probe.operands[n].name, at::Scalar(slot.real));
          break;
        case ProbeOperand::Kind::kComplex:
          function(probe.operands[n].name,
                   at::Scalar(c10::complex<double>(slot.real, (values++)->real)));
          break;
      }
    }
  }

  void print(const ProbeInfo& probe, const Slot* values) {
    each_tensor(probe, values, "cannot be shown", [&](const char* name, const at::Tensor& tensor) {
      settings_.output->line(head(probe) + " " + described(name, tensor));
    });
    std::string numbers;
    each_number(probe, values, [&](const char* name, const at::Scalar& number) {
      const std::string text = brief(number);
      if (!numbers.empty()) numbers += ", ";
      numbers += text == name ? text : name + ("=" + text);
    });
    if (!numbers.empty()) settings_.output->line(head(probe) + " scalars: " + numbers);
  }

  static std::string entry(const ProbeInfo& probe, const char* buffer) {
    std::string text = "\"call\": " + quoted(probe.label) + ", \"when\": \"" +
                       (probe.after ? "after" : "before") + "\", \"buffer\": " + quoted(buffer);
    if (*probe.source != '\0') text += ", \"source\": " + quoted(probe.source);
    return text;
  }

  static std::string list(at::IntArrayRef values) {
    std::string text = "[";
    for (const std::int64_t value : values) {
      if (text.size() > 1) text += ", ";
      text += std::to_string(value);
    }
    return text + "]";
  }

  static std::string layout(const at::Tensor& tensor) {
    const char* name = short_dtype(tensor);
    return std::string(", \"dtype\": \"") + (name != nullptr ? name : "unknown") +
           "\", \"size\": " + list(tensor.sizes()) + ", \"stride\": " +
           (tensor.layout() == at::kStrided ? list(tensor.strides()) : "null") +
           ", \"device\": \"" + tensor.device().str() + "\"";
  }

  // Keeps letters, digits, '_' and '.', and replaces each run of other characters with one '_'.
  static std::string file_name(const std::string& text) {
    std::string made;
    bool gap = false;
    for (const char c : text) {
      const bool fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.';
      if (fit || !gap) made += fit ? c : '_';
      gap = !fit;
    }
    return made.substr(0, 80);
  }

  static std::string call_name(const ProbeInfo& probe) {
    std::string label = probe.label;
    const std::size_t space = label.find(' ');
    if (space != std::string::npos) label[space] = '-';
    const std::size_t dash = label.find('-');
    return dash == std::string::npos ? label : label.substr(dash + 1);
  }

  void save(const ProbeInfo& probe, const Slot* values) {
    std::string numbers;
    each_number(probe, values, [&](const char*, const at::Scalar& number) {
      if (!numbers.empty()) numbers += ", ";
      numbers += in_json(number);
    });
    if (!numbers.empty()) {
      try {
        settings_.output->note("index.jsonl", entry(probe, "") + ", \"scalars\": [" + numbers +
                                                  "]");
      } catch (const std::exception&) {  // saving the tensors reports it
      }
    }
    each_tensor(probe, values, "cannot be saved", [&](const char* name, const at::Tensor& tensor) {
      if (short_dtype(tensor) == nullptr || tensor.layout() != at::kStrided) {
        throw std::runtime_error("a tensor of that layout");
      }
      const std::string stem = file_name(call_name(probe)) + (probe.after ? "-after-" : "-before-") +
                               file_name(name);
      settings_.output->save(tensor, stem, entry(probe, name) + layout(tensor));
    });
  }

  // A number in JSON, as a string if JSON has no such number.
  static std::string in_json(const at::Scalar& number) {
    if (number.isComplex()) return quoted(repr(number.toComplexDouble()));
    if (!number.isFloatingPoint()) return brief(number);
    const std::string words = repr(number.toDouble());
    return std::isfinite(number.toDouble()) ? words : quoted(words);
  }
  template <class T>
  static std::string in_json(const std::optional<T>& number) {
    return number ? in_json(at::Scalar(*number)) : "null";
  }

  void stats(const ProbeInfo& probe, const Slot* values) {
    each_tensor(probe, values, "no statistics", [&](const char* name, const at::Tensor& tensor) {
      const at::Tensor own = tensor.cpu();  // once, for the statistics and for the checksum
      const Statistics found = statistics_of(readable(own));
      settings_.output->note("stats.jsonl", entry(probe, name) + layout(tensor) +
                                                numbers_of(found) + ", \"checksum\": \"" +
                                                checksum(own) + "\"");
    });
  }

  static std::string numbers_of(const Statistics& found) {
    const auto first = [](const char* name, const Index& index) {
      return std::string(", \"") + name + "\": " + list(index);
    };
    return ", \"min\": " + in_json(found.minimum) + ", \"max\": " + in_json(found.maximum) +
           ", \"mean\": " + in_json(found.mean) + ", \"std\": " + in_json(found.std) +
           ", \"nan\": " + std::to_string(found.nan) + ", \"inf\": " + std::to_string(found.inf) +
           (found.nan == 0 ? "" : first("first_nan", found.first_nan)) +
           (found.inf == 0 ? "" : first("first_inf", found.first_inf));
  }

  // Before the call, records its inputs' ranges. After it, throws on NaN (`with_inf`: or on inf).
  void check(const ProbeInfo& probe, const Slot* values, bool with_inf) {
    if (!probe.after) {
      inputs_of_ = probe.label;
      inputs_.clear();
    }
    for (std::size_t n = 0; n < probe.num_operands; ++n) {
      const ProbeOperand& operand = probe.operands[n];
      if (operand.kind != ProbeOperand::Kind::kTensor) break;
      if (!probe.after) {
        inputs_ += (inputs_.empty() ? "" : "; ") + range_words(operand.name, tensor_of(values[n]));
        continue;
      }
      const at::Tensor& tensor = tensor_of(values[n]);
      if (!tensor.is_floating_point() && !tensor.is_complex()) continue;
      const Statistics found = statistics_of(readable(tensor), false);
      if (found.nan != 0 || (with_inf && found.inf != 0)) refuse(probe, operand.name, found);
    }
  }

  [[noreturn]] void refuse(const ProbeInfo& probe, const char* name, const Statistics& found) {
    const bool known = inputs_of_ == probe.label && !inputs_.empty();
    const bool nan = found.nan != 0;
    throw NonFinite("WIR1502",
                std::string("call ") + probe.label + " wrote " + (nan ? "NaN" : "inf") + " to " +
                    name + ", first at " +
                    index_words(nan ? found.first_nan : found.first_inf, true) + ", " +
                    std::to_string(nan ? found.nan : found.inf) + " in all; it read " +
                    (known ? inputs_ : "nothing"));
  }

  const ProgramInfo& program_;
  const Settings settings_;
  std::string inputs_of_;
  std::string inputs_;
};

ProbeReport* begin_probes(const ProgramInfo& program) {
  Settings settings;
  {
    Current& it = current();
    const std::lock_guard lock(it.mutex);
    if (!it.settings.as_built && !it.settings.level) return nullptr;
    provide_output(it);
    settings = it.settings;
  }
  return new ProbeReport(program, std::move(settings));
}

void end_probes(ProbeReport* report) { delete report; }

const ProbeSink* sink_of(const ProbeReport* report) { return report; }

}  // namespace wir::runtime
