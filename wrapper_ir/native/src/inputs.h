// What comes in with a call: checked, and unpacked from the tensors it comes as.
#pragma once

#include <wir/program.h>

namespace wir::runtime {

// Throws an Error that names the first input which is not what the program was made for. With
// `all` false only what would crash at once is refused: a null handle.
void check_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, bool all);

// Numbers come as tensors of one element.
void unpack_inputs(const ProgramInfo& program, const AtenTensorHandle* handles, Slot* slots);

}  // namespace wir::runtime
