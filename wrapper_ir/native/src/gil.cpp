#include "gil.h"

#include <dlfcn.h>

namespace wir::runtime {
namespace {

struct Python {
  // The state of this thread, whether or not it holds the lock.
  void* (*own_state)() = find("PyGILState_GetThisThreadState");
  // The state of the thread that holds the lock; since 3.12, of this thread if it holds the lock.
  void* (*running_state)() = find("PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet");
  void* (*save)() = find("PyEval_SaveThread");
  void (*restore)(void*) =
      reinterpret_cast<void (*)(void*)>(dlsym(RTLD_DEFAULT, "PyEval_RestoreThread"));

  bool is_there() const {
    return own_state != nullptr && running_state != nullptr && save != nullptr &&
           restore != nullptr;
  }

  static void* (*find(const char* name, const char* old_name = nullptr))() {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr && old_name != nullptr) found = dlsym(RTLD_DEFAULT, old_name);
    return reinterpret_cast<void* (*)()>(found);
  }
};

const Python& python() {
  static const Python found;
  return found;
}

}  // namespace

WithoutGil::WithoutGil() {
  const Python& api = python();
  if (!api.is_there()) return;
  // PyGILState_Check() would always return true once there are subinterpreters.
  void* own = api.own_state();
  if (own != nullptr && own == api.running_state()) thread_ = api.save();
}

WithoutGil::~WithoutGil() noexcept(false) {
  if (thread_ != nullptr) python().restore(thread_);
}

}  // namespace wir::runtime
