// Calls of library ops by schema, for ops that PyTorch's C shim has no function for.
//
// The C shim's own call by schema cannot pass numbers of type Scalar, complex numbers or lists of
// these, and looks the op up by name on every call. So the runtime has its own (src/op.cpp), which
// looks an op up once.
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
// Owns an object that an op returned.
class OwnObject {
 public:
  OwnObject() = default;
  ~OwnObject() { take(nullptr); }
  OwnObject(const OwnObject&) = delete;
  OwnObject& operator=(const OwnObject&) = delete;

  const void* value() const { return value_; }
  // Takes ownership of a c10::IValue created with `new`, or of null.
  void take(void* value);

 private:
  void* value_ = nullptr;
};

struct None {};
struct Default {};  // the schema's default

inline constexpr None none;
inline constexpr Default unset;

// A list of tensors.
using Handles = std::initializer_list<AtenTensorHandle>;

// A list of integers, mostly sizes.
using Ints = std::initializer_list<std::int64_t>;

class Arg;
using List = std::initializer_list<Arg>;

// One argument. Anything it refers to must live until the call returns.
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

// The variable that receives a part of an op's results.
class Result {
 public:
  enum class Kind : std::int32_t { kTensor, kInteger, kReal, kBool, kObject };
  static constexpr std::size_t kDepth = 3;

  // `steps` is the path to the part: its position among the results, then in nested lists.
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

// An op in PyTorch's registry. It is looked up on its first call, because libraries that register
// ops may be loaded after this one. An op that is not PyTorch's own is looked up on every call.
class Op {
 public:
  constexpr Op(const char* name, const char* overload) : name_(name), overload_(overload) {}

  // Calls the op, bypassing autograd. Arguments are in the schema's order; trailing ones that are
  // left out take the schema's defaults.
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

// A method of a custom class. The object it is called on is the first argument, and the method is
// looked up in the object's class on every call.
class Method {
 public:
  explicit constexpr Method(const char* name) : name_(name) {}

  // Arguments and results as for an op.
  void operator()(std::initializer_list<Arg> args, std::initializer_list<Result> results = {}) {
    call(args.begin(), args.size(), results.begin(), results.size());
  }

 private:
  void call(const Arg* args, std::size_t arg_count, const Result* results,
            std::size_t result_count);

  const char* name_;
};

}  // namespace wir
