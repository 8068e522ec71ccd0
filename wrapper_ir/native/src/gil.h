// Python's global interpreter lock, which a Python caller may hold.
#pragma once

namespace wir::runtime {

// Releases the lock for its lifetime, if this thread holds it, so that other Python threads can
// run. A thread that waits for a runner thus cannot block a running one that calls an op written in
// Python. Does nothing in a process without Python. The library is not linked against Python: its
// functions are looked up by name.
class WithoutGil {
 public:
  WithoutGil();
  // Python unwinds a daemon thread that takes the lock while the interpreter shuts down.
  ~WithoutGil() noexcept(false);
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* thread_ = nullptr;
};

}  // namespace wir::runtime
