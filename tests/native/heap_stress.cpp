// Eight threads that allocate, hand over and free memory of heaps, in calls, inside of others'
// calls and long after; for sanitizers. Prints "fine".
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <c10/core/CPUAllocator.h>

#include <wir/heap.h>

namespace {

constexpr std::size_t kKib = 1024;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

// Memory with a mark at both ends, which nobody else may change.
struct Held {
  c10::DataPtr data;
  std::size_t bytes = 0;
  unsigned char mark = 0;

  static Held make(std::size_t bytes, unsigned char mark) {
    Held made{c10::GetCPUAllocator()->allocate(bytes), bytes, mark};
    auto* begin = static_cast<unsigned char*>(made.data.get());
    require(reinterpret_cast<std::uintptr_t>(begin) % 64 == 0, "memory is not aligned");
    begin[0] = begin[bytes - 1] = mark;
    return made;
  }

  void check() const {
    const auto* begin = static_cast<const unsigned char*>(data.get());
    require(begin[0] == mark && begin[bytes - 1] == mark, "memory was given to two");
  }
};

// What threads hand to each other.
std::mutex guard;
std::vector<Held> handed;

void work(unsigned seed) {
  std::mt19937 random(seed);
  std::optional<wir::Heap> heap(std::in_place);
  const auto held = [&] {
    const std::size_t bytes = kKib * (1 + random() % 2048);
    return Held::make(bytes, static_cast<unsigned char>(random()));
  };
  for (int round = 0; round < 200; ++round) {
    if (random() % 16 == 0) heap.emplace();  // what is in use lives on
    std::vector<Held> alive;
    {
      const wir::Heap::Call call(*heap);
      for (int i = 0; i < 12; ++i) {
        alive.push_back(held());
        if (random() % 2 == 0) {
          std::swap(alive[random() % alive.size()], alive.back());
          alive.back().check();
          alive.pop_back();
        }
      }
      if (random() % 4 == 0) {
        wir::Heap other;
        const wir::Heap::Call inner(other);
        alive.push_back(held());
        const wir::Heap::Pause pause(other);
        alive.push_back(held());
      }
      void* raw = c10::GetCPUAllocator()->raw_allocate(200 * kKib);
      c10::GetCPUAllocator()->raw_deallocate(raw);
    }
    for (const Held& each : alive) each.check();
    std::vector<Held> mine;
    {
      const std::lock_guard lock(guard);
      for (Held& each : alive) handed.push_back(std::move(each));
      while (handed.size() > 40) {
        std::swap(handed[random() % handed.size()], handed.back());
        mine.push_back(std::move(handed.back()));
        handed.pop_back();
      }
    }
    for (const Held& each : mine) each.check();
  }
}

}  // namespace

int main() {
  void* before = c10::GetCPUAllocator()->raw_allocate(300 * kKib);
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 8; ++seed) threads.emplace_back(work, seed);
#ifndef __SANITIZE_THREAD__  // which does not follow processes
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {  // another thread may have had the lock
      wir::Heap heap;
      const wir::Heap::Call call(heap);
      Held::make(1024 * kKib, 1).check();
      _exit(0);
    }
    int status = 1;
    require(waitpid(child, &status, 0) == child && status == 0, "a child failed");
  }
#endif
  for (std::thread& thread : threads) thread.join();
  c10::GetCPUAllocator()->raw_deallocate(before);  // by another allocator than made it

  wir::Heap heap;
  {
    const wir::Heap::Call call(heap);
    Held::make(1024 * kKib, 1);
  }
  require(heap.bytes() == 1024 * kKib, "memory is not kept");
  handed.clear();
  require(heap.bytes() == 1024 * kKib, "another heap's memory is kept");
  std::puts("fine");
  return 0;
}
