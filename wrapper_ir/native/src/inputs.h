// The inputs of a call: checks, and unpacking of numbers from the tensors that hold them.
#pragma once

#include <wir/program.h>

namespace wir::runtime {

// Throws an Error that names the first input that does not match its specification. With `all`
// false, refuses only what would crash immediately: null handles.
void check_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, bool all);

// Numbers are passed as tensors of one element.
void unpack_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, Slot* slots);

}  // namespace wir::runtime
