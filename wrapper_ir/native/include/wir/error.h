// The exception that generated code and the runtime part throw, and what words it.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

// In PyTorch since 2.13; earlier versions only print what went wrong.
extern "C" [[gnu::weak]] const char* torch_exception_get_what_without_backtrace();

namespace wir {

// A mistake with a stable code, worded as wrapper_ir words it in Python.
class Error : public std::runtime_error {
 public:
  Error(const char* code, const std::string& message, std::string hint = "")
      : std::runtime_error(std::string(code) + ": " + message +
                           (hint.empty() ? "" : "\n  hint: " + hint)),
        code_(code),
        message_(message),
        hint_(std::move(hint)) {}

  const char* code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  const char* code_;
  std::string message_;
  std::string hint_;
};

// A function of PyTorch's C shim failed.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_in_torch() {
  const char* what = torch_exception_get_what_without_backtrace != nullptr
                         ? torch_exception_get_what_without_backtrace()
                         : nullptr;
  throw Error("WIR2160", what != nullptr && *what != '\0'
                             ? std::string(what)
                             : "PyTorch refused the call and printed the reason");
}

inline void check(AOTITorchError error) {
  if (__builtin_expect(error != AOTI_TORCH_SUCCESS, 0)) fail_in_torch();
}

// A relation among symbols does not hold.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_relation(const char* relation,
                                                                   const std::string& values) {
  throw Error("WIR2153",
              "the program needs " + std::string(relation) + ", but " +
                  (values.empty() ? "it does not hold" : values),
              "give inputs for which that holds, or make the program so that what varies is dynamic");
}

}  // namespace wir
