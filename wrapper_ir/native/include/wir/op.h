// Calls of library ops by schema, for those that PyTorch's C shim has no function for.
//
// The C shim's own call by schema cannot carry numbers of type Scalar, complex numbers or lists of
// such, and looks the op up by name in every call. So the runtime part has one of its own
// (src/op.cpp), which looks an op up once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <wir/number.h>
#include <wir/tensor.h>

namespace wir {

struct Complex {
  double real;
  double imag;
};
struct Dtype {
  std::int32_t number;
};
struct Device {
  std::int32_t type;
  std::int32_t index;
};
struct Layout {
  std::int32_t number;
};
struct MemoryFormat {
  std::int32_t number;
};
struct Object {
  const void* value = nullptr;  // a c10::IValue
};
// An object that an op returned. It goes with the variable.
class OwnObject {
 public:
  OwnObject() = default;
  ~OwnObject() { take(nullptr); }
  OwnObject(const OwnObject&) = delete;
  OwnObject& operator=(const OwnObject&) = delete;

  const void* value() const { return value_; }
  // A c10::IValue that was made with `new`, or null.
  void take(void* value);

 private:
  void* value_ = nullptr;
};

struct None {};
struct Default {};  // what the schema says

inline constexpr None none;
inline constexpr Default unset;

// Tensors in a row.
using Handles = std::initializer_list<AtenTensorHandle>;

// A list of integers, mostly sizes.
using Ints = std::initializer_list<std::int64_t>;

class Arg;
using List = std::initializer_list<Arg>;

// One argument. What it refers to has to live until the call returns.
class Arg {
 public:
  enum class Kind : std::int32_t {
    kDefault,
    kNone,
    kTensor,
    kInteger,
    kReal,
    kBool,
    kComplex,
    kString,
    kDtype,
    kDevice,
    kLayout,
    kMemoryFormat,
    kIntegers,
    kList,
    kObject,
  };

  Arg(Default) : kind(Kind::kDefault) {}
  Arg(None) : kind(Kind::kNone) {}
  Arg(AtenTensorHandle value) : kind(Kind::kTensor) { first.tensor = value; }
  Arg(const Tensor& value) : Arg(static_cast<AtenTensorHandle>(value)) {}
  Arg(bool value) : kind(Kind::kBool) { first.integer = value ? 1 : 0; }
  Arg(Int value) : kind(Kind::kInteger) { first.integer = value; }
  template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Arg(T value) : kind(Kind::kInteger) { first.integer = value; }
  Arg(double value) : kind(Kind::kReal) { first.real = value; }
  Arg(Complex value) : kind(Kind::kComplex) {
    first.real = value.real;
    second.imag = value.imag;
  }
  Arg(const char* value) : kind(Kind::kString) { first.string = value; }
  Arg(Dtype value) : kind(Kind::kDtype) { first.integer = value.number; }
  Arg(Device value) : kind(Kind::kDevice) {
    first.integer = value.type;
    second.index = value.index;
  }
  Arg(Layout value) : kind(Kind::kLayout) { first.integer = value.number; }
  Arg(MemoryFormat value) : kind(Kind::kMemoryFormat) { first.integer = value.number; }
  Arg(Object value) : kind(Kind::kObject) { first.object = value.value; }
  Arg(const OwnObject& value) : kind(Kind::kObject) { first.object = value.value(); }
  Arg(Ints values) : kind(Kind::kIntegers) {
    first.integers = values.begin();
    second.count = values.size();
  }
  Arg(List values) : Arg(values.begin(), values.size()) {}
  Arg(const Arg* values, std::size_t count) : kind(Kind::kList) {
    first.list = values;
    second.count = count;
  }

  Kind kind;
  union {
    AtenTensorHandle tensor;
    std::int64_t integer;
    double real;
    const char* string;
    const std::int64_t* integers;
    const Arg* list;
    const void* object;
  } first = {};
  union {
    std::size_t count;
    double imag;
    std::int64_t index;
  } second = {};
};

// Where a part of what an op returns goes to.
class Result {
 public:
  enum class Kind : std::int32_t { kTensor, kInteger, kReal, kBool, kObject };
  static constexpr std::size_t kDepth = 3;

  // The way to the part: its position among the results, and in lists inside.
  template <class... Steps>
  Result(Tensor& target, Steps... steps) : Result(&target, Kind::kTensor, {steps...}) {}
  template <class... Steps>
  Result(Int& target, Steps... steps) : Result(&target, Kind::kInteger, {steps...}) {}
  template <class... Steps>
  Result(double& target, Steps... steps) : Result(&target, Kind::kReal, {steps...}) {}
  template <class... Steps>
  Result(bool& target, Steps... steps) : Result(&target, Kind::kBool, {steps...}) {}
  template <class... Steps>
  Result(OwnObject& target, Steps... steps) : Result(&target, Kind::kObject, {steps...}) {}

  void* target;
  Kind kind;
  std::int32_t depth = 0;
  std::int32_t path[kDepth] = {};

 private:
  Result(void* target_, Kind kind_, std::initializer_list<std::int32_t> steps)
      : target(target_), kind(kind_) {
    for (const std::int32_t step : steps) path[depth++] = step;
  }
};

// An op of PyTorch's registry. Looked up when it is first called (and again in each call, if it is
// not PyTorch's own): libraries that register ops may be loaded after this one.
class Op {
 public:
  constexpr Op(const char* name, const char* overload) : name_(name), overload_(overload) {}

  // Calls the op, past autograd. Arguments are those of its schema in order; those left out at the
  // end are the schema's defaults.
  void operator()(std::initializer_list<Arg> args, std::initializer_list<Result> results = {}) {
    call(args.begin(), args.size(), results.begin(), results.size());
  }

 private:
  void call(const Arg* args, std::size_t arg_count, const Result* results,
            std::size_t result_count);

  const char* name_;
  const char* overload_;
  std::atomic<const void*> found_{nullptr};
};

// A method of a custom class. The object that it is called on is the first argument, and its class
// is asked for the method in each call.
class Method {
 public:
  explicit constexpr Method(const char* name) : name_(name) {}

  // As those of an op.
  void operator()(std::initializer_list<Arg> args, std::initializer_list<Result> results = {}) {
    call(args.begin(), args.size(), results.begin(), results.size());
  }

 private:
  void call(const Arg* args, std::size_t arg_count, const Result* results,
            std::size_t result_count);

  const char* name_;
};

}  // namespace wir
