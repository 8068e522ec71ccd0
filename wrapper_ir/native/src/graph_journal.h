// Statistics of a container's calls: how many were replayed, and why others were not.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <wir/program.h>

namespace wir::runtime {

// All functions are thread-safe.
class Journal {
 public:
  explicit Journal(const ProgramInfo& program);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Counts a call that ran the program itself, and why. Warns about the first call for each reason.
  void ran(const std::vector<std::string>& reasons);
  // Ends all capturing.
  void refuse(const std::string& reason);
  bool refused() const { return refused_.load(std::memory_order_acquire); }
  std::string refusal() const;

  std::atomic<std::int64_t> graphs = 0;  // currently kept
  std::atomic<std::uint64_t> captures = 0;
  std::atomic<std::uint64_t> replays = 0;

  std::string status() const;  // JSON
  static std::string all();    // of all journals, a JSON list

 private:
  std::uint64_t count(const std::string& reason);

  const ProgramInfo& program_;
  std::atomic<std::uint64_t> plain_ = 0;
  std::atomic<bool> refused_ = false;
  mutable std::mutex mutex_;                                    // guards the members below
  std::vector<std::pair<std::string, std::uint64_t>> reasons_;  // with call counts, oldest first
  std::string refusal_;
};

}  // namespace wir::runtime
