// The objects of custom classes that belong to a program: what the container knows of them.
#pragma once

#include <cstddef>

#include <wir/program.h>

#include "blob.h"

namespace wir::runtime {

// The objects of one container, which nobody else has. Calls of their methods may change them.
class Objects {
 public:
  virtual ~Objects() = default;
  // A c10::IValue.
  virtual const void* value(std::size_t index) const = 0;
};

}  // namespace wir::runtime

// Makes all objects of a program, by the code of their classes. Throws where a class is missing, or
// the bytes make no object of it. Of src/objects.cpp, which is linked where a program has objects.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] wir::runtime::Objects* wir_make_objects(
    const wir::ProgramInfo& program, const wir::runtime::Blob& blob);
