#include "graph_journal.h"

#include <algorithm>

#include "text.h"

namespace wir::runtime {
namespace {

struct Journals {
  std::mutex mutex;
  std::vector<const Journal*> all;

  // Never destroyed: containers may outlive the library's static objects.
  static Journals& get() {
    static Journals& made = *new Journals;
    return made;
  }
};

void tell(const char* program, const std::string& reason) {
  const std::string text = std::string("calls of '") + program +
                           "' are not replayed as a CUDA graph: " + reason;
  aoti_torch_warn("run", "wrapper_ir", 0, text.c_str());
}

}  // namespace

Journal::Journal(const ProgramInfo& program) : program_(program) {
  Journals& journals = Journals::get();
  const std::lock_guard lock(journals.mutex);
  journals.all.push_back(this);
}

Journal::~Journal() {
  Journals& journals = Journals::get();
  const std::lock_guard lock(journals.mutex);
  journals.all.erase(std::find(journals.all.begin(), journals.all.end(), this));
}

void Journal::ran(const std::vector<std::string>& reasons) {
  ++plain_;
  for (const std::string& reason : reasons) {
    if (count(reason) == 1) tell(program_.name, reason);
  }
}

// Counts a call for a reason, and returns how many there are now.
std::uint64_t Journal::count(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  for (auto& [other, calls] : reasons_) {
    if (other == reason) return ++calls;
  }
  reasons_.emplace_back(reason, 1);
  return 1;
}

void Journal::refuse(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (refused_.load(std::memory_order_relaxed)) return;
  refusal_ = reason;
  refused_.store(true, std::memory_order_release);
}

std::string Journal::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::string Journal::status() const {
  std::string text = "{\"program\": " + quoted(program_.name);
  const auto count = [&](const char* name, auto value) {
    text += std::string(", \"") + name + "\": " + std::to_string(value);
  };
  count("graphs", graphs.load());
  count("captures", captures.load());
  count("replays", replays.load());
  count("plain", plain_.load());
  text += ", \"reasons\": {";
  const std::lock_guard lock(mutex_);
  const char* between = "";
  for (const auto& [reason, calls] : reasons_) {
    text += between + quoted(reason) + ": " + std::to_string(calls);
    between = ", ";
  }
  return text + "}, \"refused\": " + (refused() ? "true" : "false") + "}";
}

std::string Journal::all() {
  Journals& journals = Journals::get();
  const std::lock_guard lock(journals.mutex);
  std::string text = "[";
  for (const Journal* each : journals.all) text += (text.size() > 1 ? ", " : "") + each->status();
  return text + "]";
}

}  // namespace wir::runtime
