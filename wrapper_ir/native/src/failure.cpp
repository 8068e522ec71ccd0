#include "failure.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include <wir/error.h>
#include <wir/layout.h>

// Since 2.13, PyTorch's loader shows PyTorch's own last error message, if there is one, rather than
// the library's. The function that sets it is not part of the C shim.
namespace torch::csrc::shim::details {
[[gnu::weak, gnu::visibility("default")]] void set_torch_exception_what(const std::string& words);
}  // namespace torch::csrc::shim::details

namespace wir::runtime {
namespace {

// A plain array: a thread-local object with a destructor would keep the library loaded until the
// thread ends.
thread_local char failure[8192];

constexpr std::size_t kMaxInputsShown = 8;

// Messages quote external text, whose control characters must not reach the reader's terminal.
bool is_shown_as_it_is(unsigned char byte) {
  return (byte >= 32 && byte != 127) || byte == '\n' || byte == '\t';
}

void keep(const char* text) {
  static constexpr char kHex[] = "0123456789abcdef";
  static constexpr char kCut[] = " ...";
  char* to = failure;
  const char* const end = failure + sizeof failure - sizeof kCut - 3;
  for (; *text != '\0' && to < end; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    if (is_shown_as_it_is(byte)) {
      *to++ = *text;
    } else {
      for (const char c : {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]}) *to++ = c;
    }
  }
  if (*text == '\0') {
    *to = '\0';
    return;
  }
  while (to > failure && static_cast<unsigned char>(to[-1]) >= 0x80) --to;  // keep UTF-8 valid
  std::memcpy(to, kCut, sizeof kCut);
}

void tell_torch() {
  using torch::csrc::shim::details::set_torch_exception_what;
  if (set_torch_exception_what == nullptr) return;
  try {
    set_torch_exception_what(failure);
  } catch (const std::exception&) {
    return;  // no memory for the message
  }
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// "  called with x = float32[4, 8] ..., n = 3"
std::string called_with(const ProgramInfo& program, const Call& call, const Slot* inputs) try {
  std::string text;
  for (std::size_t i = 0; i < program.num_inputs && i < kMaxInputsShown; ++i) {
    text += text.empty() ? "\n  called with " : ", ";
    text += std::string(program.inputs[i].name) + " = ";
    switch (program.inputs[i].kind) {
      case Kind::kTensor:
        text += call.owned[i] != nullptr ? described(Metadata(call.owned[i])) : "(freed)";
        break;
      case Kind::kReal:
        text += number(inputs[i].real);
        break;
      case Kind::kInteger:
      case Kind::kBool:
        text += std::to_string(inputs[i].integer);
        break;
      case Kind::kObject:
        text += program.inputs[i].class_name;
        break;
      case Kind::kNone:
        text += "None";
        break;
    }
  }
  if (program.num_inputs > kMaxInputsShown) text += ", ...";
  return text;
} catch (const std::exception&) {
  return "";  // failing to describe an input must not hide the original error
}

std::string place(const ProgramInfo& program, const Call& call) {
  if (call.line >= program.num_lines) return "";
  const LineInfo& line = program.lines[call.line];
  if (*line.path == '\0') return "";  // code before the first line or after the last
  std::string text = std::string("\n  at ") + line.path;
  if (line.source != nullptr && *line.source != '\0') text += std::string(" (") + line.source + ")";
  return text;
}

std::string what_failed(const ProgramInfo& program, const Call& call) {
  const bool known = call.line < program.num_lines && *program.lines[call.line].what != '\0';
  return known ? program.lines[call.line].what : program.name;
}

}  // namespace

const char* last_failure() { return failure; }

void clear_failure() { failure[0] = '\0'; }

AOTIRuntimeError keep_failure(bool aloud) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    keep("WIR2164: there is not enough memory");
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("WIR2164: an exception of an unknown type was thrown");
  }
  if (aloud) std::fprintf(stderr, "%s\n", failure);
  tell_torch();
  return kFailure;
}

bool loader_asks_after_runs() {
  return aoti_torch_abi_version() >= (2ULL << 56 | 13ULL << 48);
}

void rethrow_with_line(const ProgramInfo& program, const Call& call, const Slot* inputs) {
  const char* code = "WIR2164";
  std::string message;
  std::string hint;
  try {
    throw;
  } catch (const Error& error) {
    code = error.code();
    // Errors found by generated code name their subject; PyTorch's messages do not.
    if (std::strcmp(code, "WIR2160") == 0) message = what_failed(program, call) + ": ";
    message += error.message();
    hint = error.hint();
  } catch (const std::bad_alloc&) {
    message = what_failed(program, call) + ": there is not enough memory";
  } catch (const std::exception& error) {
    message = what_failed(program, call) + ": " + error.what();
  } catch (abi::__forced_unwind&) {
    throw;
  } catch (...) {
    message = what_failed(program, call) + ": an exception of an unknown type was thrown";
  }
  message += place(program, call);
  if (std::strcmp(code, "WIR2151") != 0) message += called_with(program, call, inputs);
  throw Error(code, message, hint);
}

}  // namespace wir::runtime
