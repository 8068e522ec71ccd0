// What became of a container's calls: how many were replayed, and why others were not.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <wir/program.h>

namespace wir::runtime {

// All functions may be called by several threads at once.
class Journal {
 public:
  explicit Journal(const ProgramInfo& program);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // A call that ran the program itself, and why. The first one of each reason is told aloud.
  void ran(const std::vector<std::string>& reasons);
  // No call will be captured any more.
  void refuse(const std::string& reason);
  bool refused() const { return refused_.load(std::memory_order_acquire); }
  std::string refusal() const;

  std::atomic<std::int64_t> graphs = 0;  // that are kept
  std::atomic<std::uint64_t> captures = 0;
  std::atomic<std::uint64_t> replays = 0;

  std::string status() const;  // JSON
  static std::string all();    // of all that there are

 private:
  std::uint64_t count(const std::string& reason);

  const ProgramInfo& program_;
  std::atomic<std::uint64_t> plain_ = 0;
  std::atomic<bool> refused_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<std::pair<std::string, std::uint64_t>> reasons_;  // with how many calls, oldest first
  std::string refusal_;
};

}  // namespace wir::runtime
