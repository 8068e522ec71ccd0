// Python's global lock, which a caller from Python may hold.
#pragma once

namespace wir::runtime {

// Lets go of the lock as long as it lives, if this thread holds it, so that other Python threads
// run meanwhile; and a thread that waits for its turn here cannot keep one that runs from calling
// an op written in Python. Does nothing in a process without Python. The library is not linked
// with Python: its functions are looked up by name.
class WithoutGil {
 public:
  WithoutGil();
  // Python ends a daemon thread that comes back while the interpreter shuts down, by unwinding.
  ~WithoutGil() noexcept(false);
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* thread_ = nullptr;
};

}  // namespace wir::runtime
