// The words a failed call leaves behind.
#pragma once

#include <string>

#include <wir/program.h>

#include "abi.h"

namespace wir::runtime {

// Of the calling thread's last call of the interface; empty if that succeeded.
const char* last_failure();
void clear_failure();

// Stores the words of the exception being handled. `aloud` also prints them, for loaders that do
// not ask for them.
AOTIRuntimeError keep_failure(bool aloud);

// Whether the loader of this PyTorch shows what a failed run left behind; those before 2.13 rely
// on the library to print it.
bool loader_asks_after_runs();

// Throws the exception being handled again, with the line of the program and what it was called
// with.
[[noreturn]] void rethrow_with_line(const ProgramInfo& program, const Call& call,
                                    const Slot* inputs);

// Runs the body of an entry: what it throws becomes an error code.
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
    throw;  // the thread is being ended: nobody may stop that
  } catch (...) {
    return keep_failure(aloud);
  }
}
