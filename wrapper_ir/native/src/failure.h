// The error message that a failed call leaves behind.
#pragma once

#include <string>

#include <wir/program.h>

#include "abi.h"

namespace wir::runtime {

// The message of the calling thread's last call into the interface; empty if it succeeded.
const char* last_failure();
void clear_failure();

// Stores the message of the exception being handled. `aloud` also prints it, for loaders that do
// not ask for it.
AOTIRuntimeError keep_failure(bool aloud);

// Whether this PyTorch's loader shows the message of a failed run. Before 2.13, loaders rely on the
// library to print it.
bool loader_asks_after_runs();

// Rethrows the exception being handled, adding the program line and the inputs of the call.
[[noreturn]] void rethrow_with_line(const ProgramInfo& program, const Call& call,
                                    const Slot* inputs);

// Runs the body of an entry point and turns exceptions into an error code.
template <typename Body>
AOTIRuntimeError entry(Body&& body, bool aloud = true);

}  // namespace wir::runtime

#include <cxxabi.h>

template <typename Body>
AOTIRuntimeError wir::runtime::entry(Body&& body, bool aloud) {
  clear_failure();
  try {
    body();
    return kSuccess;
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled; that must not be stopped
  } catch (...) {
    return keep_failure(aloud);
  }
}
