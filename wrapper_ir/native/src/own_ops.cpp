// The ops that wrapper_ir's front end registers from Python, for processes without Python: random
// generator state, checks for NaN, and printing. Registered ops take precedence.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Formatting.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <wir/error.h>
#include <wir/number.h>
#include <wir/op.h>

namespace wir {
namespace {

constexpr std::string_view kNamespace = "wrapper_ir_inductor::";

const at::Tensor& tensor_of(const Arg& arg) {
  return *reinterpret_cast<at::Tensor*>(arg.first.tensor);
}

// The state of the CPU's random number generator.

void random_state(const Result& result) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  at::Tensor state = generator.get_state();
  auto* handle = reinterpret_cast<AtenTensorHandle>(&state);
  check(aoti_torch_new_tensor_handle(handle, static_cast<Tensor*>(result.target)->out()));
}

void set_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state.contiguous());
}

// The check for Inductor's nan_asserts.
void assert_finite(const at::Tensor& value, const char* name) {
  const char* what = value.isnan().any().item<bool>()   ? "NaN"
                     : value.isinf().any().item<bool>() ? "infinity"
                                                        : nullptr;
  if (what == nullptr) return;
  throw Error("WIR1502", std::string(name) + " has " + what,
              "make the program without torch._inductor.config.nan_asserts to let it pass");
}

// Printing.

[[noreturn]] void refuse_format(std::string_view text) {
  throw Error("WIR2166", "'" + std::string(text) + "' cannot be printed without Python: places for "
                         "values are {}, {0} and {name}",
              "leave out what formats values, or load the library where wrapper_ir is imported");
}

struct Value {
  std::string name;  // empty if it has none
  std::string text;
};

std::string text_of(const Arg& arg) {
  std::ostringstream out;
  switch (arg.kind) {
    case Arg::Kind::kTensor:
      out << tensor_of(arg);
      return out.str();
    case Arg::Kind::kInteger:
      return std::to_string(arg.first.integer);
    case Arg::Kind::kReal:
      return shown(arg.first.real);
    case Arg::Kind::kBool:
      return shown(arg.first.integer != 0);
    default:
      return "?";
  }
}

// The arguments of `print(str text, Tensor[] tensors, Scalar[] numbers, str[] given)`. `given` says
// for each value if it is a tensor or a number, and its keyword, if it was passed by one.
std::vector<Value> values_of(const Arg* args) {
  std::vector<Value> values;
  std::size_t tensors = 0, numbers = 0;
  for (std::size_t n = 0; n < args[3].second.count; ++n) {
    const std::string_view given = args[3].first.list[n].first.string;
    const std::size_t equals = given.rfind('=');
    const bool named = equals != std::string_view::npos;
    const bool is_tensor = (named ? given.substr(equals + 1) : given) == "tensor";
    const Arg& list = args[is_tensor ? 1 : 2];
    std::size_t& next = is_tensor ? tensors : numbers;
    const std::size_t position = next++;
    std::string text = list.kind == Arg::Kind::kIntegers
                           ? std::to_string(list.first.integers[position])
                           : text_of(list.first.list[position]);
    values.push_back({named ? std::string(given.substr(0, equals)) : "", std::move(text)});
  }
  return values;
}

// The value for `field` in curly brackets: the next one if `field` is empty. Null: there is none.
const Value* value_for(std::string_view field, const std::vector<Value>& values,
                       std::size_t& next) {
  const bool is_number =
      !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
  const std::size_t wanted =
      is_number ? std::strtoul(std::string(field).c_str(), nullptr, 10) : next;
  if (field.empty()) ++next;
  std::size_t position = 0;
  for (const Value& value : values) {
    if (!value.name.empty()) {
      if (value.name == field) return &value;
    } else if ((field.empty() || is_number) && position++ == wanted) {
      return &value;
    }
  }
  return nullptr;
}

std::string formatted(std::string_view text, const std::vector<Value>& values) {
  std::string made;
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      made += c;
    } else if (at + 1 < text.size() && text[at + 1] == c) {
      made += c;
      ++at;
    } else {
      const std::size_t end = text.find('}', at);
      if (c == '}' || end == std::string_view::npos) refuse_format(text);
      const Value* value = value_for(text.substr(at + 1, end - at - 1), values, next);
      if (value == nullptr) refuse_format(text);
      made += value->text;
      at = end;
    }
  }
  return made;
}

void print(const Arg* args) {
  const std::string line = formatted(args[0].first.string, values_of(args)) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace
}  // namespace wir

// Calls one of the front end's ops that is not registered. Returns false if it is not one of those.
extern "C" [[gnu::visibility("hidden")]] bool wir_own_op(const char* whole, const wir::Arg* args,
                                                         const wir::Result* results) {
  using namespace wir;
  const std::string_view name = whole;
  if (name.substr(0, kNamespace.size()) != kNamespace) return false;
  const std::string_view op = name.substr(kNamespace.size());
  if (op == "random_state") {
    random_state(results[0]);
  } else if (op == "set_random_state") {
    set_random_state(tensor_of(args[0]));
  } else if (op == "assert_finite") {
    assert_finite(tensor_of(args[0]), args[1].first.string);
  } else if (op == "print") {
    print(args);
  } else {
    throw Error("WIR2165", "the op '" + std::string(name) + "' calls Python",
                "import wrapper_ir.frontends.inductor before the program runs, or make the program "
                "without Inductor's generate_intermediate_hooks");
  }
  return true;
}
