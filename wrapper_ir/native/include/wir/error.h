// The exception that generated code and the runtime throw, and the functions that word it.
#pragma once

#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

// In PyTorch since 2.13. Earlier versions only print the error.
extern "C" [[gnu::weak]] const char* torch_exception_get_what_without_backtrace();

namespace wir {

// An error with a stable code, in the same words as wrapper_ir's errors in Python.
class Error : public std::runtime_error {
 public:
  Error(const char* code, const std::string& message, std::string hint = "")
      : std::runtime_error(std::string(code) + ": " + message +
                           (hint.empty() ? "" : "\n  hint: " + hint)),
        code_(code),
        message_(message),
        hint_(std::move(hint)) {}
  // An error with fields in Python: `form` names them in braces, `words` holds their values.
  [[gnu::cold, gnu::noinline]] Error(const char* code, const char* form,
                                     std::initializer_list<std::string> words,
                                     std::string hint = "")
      : Error(code, filled(form, words), std::move(hint)) {
    form_ = form;
    words_ = words;
  }

  // An error that reports another one. In Python it is of that one's class, too.
  [[gnu::cold, gnu::noinline]] Error(const char* code, const std::string& message,
                                     std::exception_ptr cause)
      : Error(code, message) {
    cause_ = std::move(cause);
  }

  const char* code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }
  const char* form() const noexcept { return form_; }
  const std::vector<std::string>& words() const noexcept { return words_; }
  const std::exception_ptr& cause() const noexcept { return cause_; }

 private:
  static std::string filled(std::string text, std::initializer_list<std::string> words) {
    std::size_t at = 0;
    for (const std::string& word : words) {
      at = text.find('{', at);
      text.replace(at, text.find('}', at) + 1 - at, word);
      at += word.size();
    }
    return text;
  }

  const char* code_;
  std::string message_;
  std::string hint_;
  const char* form_ = "";
  std::vector<std::string> words_;
  std::exception_ptr cause_;
};

// Reports the failure of a function of PyTorch's C shim.
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

// Reports a relation between symbols that does not hold.
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_relation(const char* relation,
                                                                   const std::string& values) {
  throw Error("WIR2153", "the program needs {relation}, but {values}",
              {relation, values.empty() ? "it does not hold" : values},
              "pass inputs that satisfy it, or recapture with the varying sizes dynamic");
}

}  // namespace wir
