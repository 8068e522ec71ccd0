// Kernels over a grid, and those in languages of vendors, which the vendors' headers launch.
//
// For each kernel in such a language a program has an object of the class template that the language
// names, with the types of the kernel's parameters:
//
//   template <class... Params>
//   class Kernel {
//    public:
//     explicit Kernel(const wir::KernelText& text);  // keeps it; does nothing else
//     // Compiles it for the device of a number. When a state is made: several times, by any thread.
//     void load(std::int32_t device);
//     // Buffers come as the addresses of their first elements. `call` has the stream, if the
//     // device's guard has put one there.
//     void operator()(wir::Call& call, const wir::Grid& grid, Params... params) const;
//   };
//
// What goes wrong is thrown, as a wir::Error or another std::exception.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wir {

// Over how many blocks a kernel is launched.
struct Grid {
  std::int64_t x;
  std::int64_t y = 1;
  std::int64_t z = 1;
};

// What the program says to the launcher.
struct KernelOption {
  const char* name;
  const char* value;
  bool is_text;  // rather than a number or a truth value
};

struct KernelText {
  const char* name;           // for messages
  const char* code;           // its source
  const char* entry;          // the function's name in the source
  const char* params;         // their types as in the text form: "in f32, out f32, i64"
  std::int64_t group[3];      // of a work-group; 0: none is given
  std::size_t num_options;
  const KernelOption* options;
};

}  // namespace wir
