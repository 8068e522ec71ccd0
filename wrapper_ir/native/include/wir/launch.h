// Kernels over a grid, and kernels in vendors' languages, which the vendors' headers launch.
//
// For each kernel in such a language, a program has an object of the class template that the
// language names, instantiated with the types of the kernel's parameters:
//
//   template <class... Params>
//   class Kernel {
//    public:
//     explicit Kernel(const wir::KernelText& text);  // only keeps `text`
//     // Compiles the kernel for a device, given by its index. Called whenever a state is created:
//     // more than once, and on any thread.
//     void load(std::int32_t device);
//     // Buffers are passed as the addresses of their first elements. `call` has the stream, if the
//     // device's guard has set one.
//     void operator()(wir::Call& call, const wir::Grid& grid, Params... params) const;
//   };
//
// Errors are thrown, as a wir::Error or another std::exception.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wir {

// The number of blocks that a kernel is launched over.
struct Grid {
  std::int64_t x;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

// An option that the program passes to the launcher.
struct KernelOption {
  const char* name;
  const char* value;
  bool is_text;  // rather than a number or a boolean
};

struct KernelText {
  const char* name;           // for messages
  const char* code;           // its source
  const char* entry;          // the function's name in the source
  const char* params;         // its parameters' types as in the text form: "in f32, out f32, i64"
  std::int64_t group[3];      // size of a work-group; 0: not given
  std::size_t num_options;
  const KernelOption* options;
};

}  // namespace wir
