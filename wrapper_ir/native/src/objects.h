// The custom-class objects that belong to a program, as its container sees them.
#pragma once

#include <cstddef>

#include <wir/program.h>

#include "blob.h"

namespace wir::runtime {

// The objects of one container, shared with no other. Calls of their methods may change them.
class Objects {
 public:
  virtual ~Objects() = default;
  // A c10::IValue.
  virtual const void* value(std::size_t index) const = 0;
};

}  // namespace wir::runtime

// Creates all objects of a program, with the code of their classes. Throws if a class is missing or
// rejects the bytes. Defined in src/objects.cpp, which is linked if a program has objects.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] wir::runtime::Objects* wir_make_objects(
    const wir::ProgramInfo& program, const wir::runtime::Blob& blob);
