// Calls of library ops by schema. This file includes ATen, because the dispatcher's boxed calls
// have no C interface that takes every kind of argument.
#include <cstring>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/class_type.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <wir/dtype.h>
#include <wir/layout.h>
#include <wir/op.h>
#include <wir/program.h>

// Defined in src/own_ops.cpp, which is linked if a program calls ops of the front end.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] bool wir_own_op(const char* name,
                                                                    const wir::Arg* args,
                                                                    const wir::Result* results);

namespace wir {
namespace {

// The numbers in generated code must be those of this PyTorch.
static_assert(int(at::ScalarType::Byte) == dtype::uint8);
static_assert(int(at::ScalarType::Half) == dtype::float16);
static_assert(int(at::ScalarType::Float) == dtype::float32);
static_assert(int(at::ScalarType::ComplexDouble) == dtype::complex128);
static_assert(int(at::ScalarType::Bool) == dtype::bool_);
static_assert(int(at::ScalarType::QInt32) == dtype::qint32);
static_assert(int(at::ScalarType::BFloat16) == dtype::bfloat16);
static_assert(int(at::ScalarType::Float8_e5m2) == dtype::float8_e5m2);
static_assert(int(at::ScalarType::Float8_e4m3fnuz) == dtype::float8_e4m3fnuz);
static_assert(int(at::ScalarType::UInt64) == dtype::uint64);
static_assert(int(at::ScalarType::Float8_e8m0fnu) == dtype::float8_e8m0fnu);
static_assert(int(at::ScalarType::Float4_e2m1fn_x2) == dtype::float4_e2m1fn_x2);
static_assert(int(at::DeviceType::CPU) == device::cpu);
static_assert(int(at::DeviceType::CUDA) == device::cuda);
static_assert(int(at::MemoryFormat::Contiguous) == 0);
static_assert(int(at::MemoryFormat::Preserve) == 1);
static_assert(int(at::MemoryFormat::ChannelsLast) == 2);
static_assert(int(at::MemoryFormat::ChannelsLast3d) == 3);
static_assert(int(at::Layout::Strided) == 0);
static_assert(int(at::Layout::Mkldnn) == 3);
static_assert(int(at::Layout::Jagged) == 7);

[[noreturn]] void refuse(const c10::FunctionSchema& schema, const std::string& what) {
  throw Error("WIR2166", "the op '" + schema.name() + "' " + what,
              "make the program again, with the version of the op that is installed");
}

// PyTorch's own ops stay registered forever. Others may be unregistered and registered again, along
// with the Python library or test that defined them, and an old handle would then dangle.
bool is_permanent(const char* name) { return std::strncmp(name, "aten::", 6) == 0; }

bool is_registered(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchema({name, overload}).has_value();
}

std::string whole_name(const char* name, const char* overload) {
  return *overload == '\0' ? name : std::string(name) + "." + overload;
}

c10::OperatorHandle look_up(const char* name, const char* overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found) {
    const std::string whole = whole_name(name, overload);
    throw Error("WIR2165", "no library that is loaded has the op '" + whole + "'",
                "load or import what defines the op before the program runs");
  }
  return *found;
}

// Arguments.

const c10::IValue& object_of(const Arg& arg) {
  return *static_cast<const c10::IValue*>(arg.first.object);
}

class Converter {
 public:
  explicit Converter(const c10::FunctionSchema& schema) : schema_(schema) {}

  c10::IValue convert(const Arg& arg, const c10::Type& type) const {
    switch (type.kind()) {
      case c10::TypeKind::OptionalType:
        if (arg.kind == Arg::Kind::kNone) return {};
        return convert(arg, *type.castRaw<c10::OptionalType>()->getElementType());
      case c10::TypeKind::TensorType:
        if (arg.kind == Arg::Kind::kTensor) return *reinterpret_cast<at::Tensor*>(arg.first.tensor);
        // As from Python: backward ops get an undefined tensor where the forward op had none.
        if (arg.kind == Arg::Kind::kNone) return at::Tensor();
        break;
      case c10::TypeKind::ListType:
        return list(arg, type.castRaw<c10::ListType>()->getElementType());
      case c10::TypeKind::FloatType:
      case c10::TypeKind::SymFloatType:
        if (arg.kind == Arg::Kind::kInteger) return static_cast<double>(arg.first.integer);
        if (arg.kind == Arg::Kind::kReal) return arg.first.real;
        break;
      case c10::TypeKind::StringType:
        if (arg.kind == Arg::Kind::kString) return std::string(arg.first.string);
        break;
      case c10::TypeKind::ClassType:
      case c10::TypeKind::GeneratorType:
        if (arg.kind == Arg::Kind::kObject && object_of(arg).type()->isSubtypeOf(type)) {
          return object_of(arg);
        }
        break;
      default:
        return plain(arg);
    }
    return mismatch(type);
  }

 private:
  // Converts an argument by its own kind, whatever the schema's type.
  c10::IValue plain(const Arg& arg) const {
    switch (arg.kind) {
      case Arg::Kind::kNone:
        return {};
      case Arg::Kind::kTensor:
        return *reinterpret_cast<at::Tensor*>(arg.first.tensor);
      case Arg::Kind::kInteger:
      case Arg::Kind::kDtype:
      case Arg::Kind::kLayout:
      case Arg::Kind::kMemoryFormat:
        return arg.first.integer;
      case Arg::Kind::kReal:
        return arg.first.real;
      case Arg::Kind::kBool:
        return arg.first.integer != 0;
      case Arg::Kind::kComplex:
        return c10::complex<double>(arg.first.real, arg.second.imag);
      case Arg::Kind::kString:
        return std::string(arg.first.string);
      case Arg::Kind::kObject:
        return object_of(arg);
      case Arg::Kind::kDevice:
        return c10::Device(static_cast<c10::DeviceType>(arg.first.integer),
                           static_cast<c10::DeviceIndex>(arg.second.index));
      default:
        refuse(schema_, "takes no list there");
    }
  }

  c10::IValue list(const Arg& arg, const c10::TypePtr& element) const {
    c10::impl::GenericList found(element);
    found.reserve(arg.second.count);
    if (arg.kind == Arg::Kind::kIntegers) {
      for (std::size_t n = 0; n < arg.second.count; ++n) {
        found.push_back(convert(Arg(arg.first.integers[n]), *element));
      }
    } else if (arg.kind == Arg::Kind::kList) {
      for (std::size_t n = 0; n < arg.second.count; ++n) {
        found.push_back(convert(arg.first.list[n], *element));
      }
    } else {
      return mismatch(*element);
    }
    return found;
  }

  [[noreturn]] c10::IValue mismatch(const c10::Type& type) const {
    refuse(schema_, "takes other arguments: " + type.str() + " is something else here");
  }

  const c10::FunctionSchema& schema_;
};

// Results.

const c10::IValue& part(const c10::FunctionSchema& schema, const Result& result,
                        const std::vector<c10::IValue>& stack) {
  std::int32_t step = 0;
  std::size_t first = 0;
  if (schema.returns().size() != 1 && result.depth != 0) first = result.path[step++];
  if (first >= stack.size()) refuse(schema, "returns fewer results");
  const c10::IValue* found = &stack[first];
  while (step < result.depth) {
    const auto position = static_cast<std::size_t>(result.path[step++]);
    if (found->isTuple() && position < found->toTupleRef().elements().size()) {
      found = &found->toTupleRef().elements()[position];
      continue;
    }
    if (!found->isList() || position >= found->toListRef().size()) {
      const std::size_t length = found->isList() ? found->toListRef().size() : 0;
      throw Error("WIR2156", kOtherResultForm,
                  {whole_name(schema.name().c_str(), schema.overload_name().c_str()), "length",
                   "a list of at least " + std::to_string(position + 1),
                   "one of " + std::to_string(length)},
                  kOtherResult);
    }
    found = &found->toListRef()[position];
  }
  return *found;
}

// Zero tensors may have no memory (autograd creates such gradients). Neither kernels nor PyTorch's
// C shim expect that.
at::Tensor with_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor._is_zerotensor()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).zero_();
}

void give(const c10::FunctionSchema& schema, const Result& result, const c10::IValue& value) {
  switch (result.kind) {
    case Result::Kind::kTensor: {
      if (!value.isTensor()) refuse(schema, "returns no tensor there");
      at::Tensor tensor = with_memory(value.toTensor());
      auto* handle = reinterpret_cast<AtenTensorHandle>(&tensor);
      check(aoti_torch_new_tensor_handle(handle, static_cast<Tensor*>(result.target)->out()));
      return;
    }
    case Result::Kind::kInteger:
      *static_cast<Int*>(result.target) =
          value.isBool() ? static_cast<std::int64_t>(value.toBool()) : value.toScalar().toLong();
      return;
    case Result::Kind::kReal:
      *static_cast<double*>(result.target) = value.toScalar().toDouble();
      return;
    case Result::Kind::kBool:
      *static_cast<bool*>(result.target) = value.toScalar().toBool();
      return;
    case Result::Kind::kObject:
      if (!value.isObject() && !value.isGenerator()) refuse(schema, "returns no object there");
      static_cast<OwnObject*>(result.target)->take(new c10::IValue(value));
      return;
  }
}

std::vector<c10::IValue> stack_of(const c10::FunctionSchema& schema, const Arg* args,
                                  std::size_t arg_count) {
  const auto& declared = schema.arguments();
  if (arg_count > declared.size()) refuse(schema, "takes fewer arguments");
  const Converter converter(schema);
  std::vector<c10::IValue> stack;
  stack.reserve(declared.size());
  for (std::size_t n = 0; n < declared.size(); ++n) {
    if (n < arg_count && args[n].kind != Arg::Kind::kDefault) {
      stack.push_back(converter.convert(args[n], *declared[n].type()));
    } else if (declared[n].default_value()) {
      stack.push_back(*declared[n].default_value());
    } else {
      refuse(schema, "takes more arguments");
    }
  }
  return stack;
}

}  // namespace

void OwnObject::take(void* value) { delete static_cast<c10::IValue*>(std::exchange(value_, value)); }

void Op::call(const Arg* args, std::size_t arg_count, const Result* results,
              std::size_t result_count) {
  const void* known = found_.load(std::memory_order_acquire);
  try {
    if (known == nullptr && is_permanent(name_)) {
      known = new c10::OperatorHandle(look_up(name_, overload_));  // as long-lived as the op
      found_.store(known, std::memory_order_release);
    }
    if (wir_own_op != nullptr && known == nullptr && !is_registered(name_, overload_) &&
        wir_own_op(name_, args, results)) {
      return;
    }
    const c10::OperatorHandle op = known != nullptr
                                       ? *static_cast<const c10::OperatorHandle*>(known)
                                       : look_up(name_, overload_);
    const c10::FunctionSchema& schema = op.schema();
    std::vector<c10::IValue> stack = stack_of(schema, args, arg_count);
    // The program already contains the casts of autocast.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    op.callBoxed(stack);
    for (std::size_t n = 0; n < result_count; ++n) {
      give(schema, results[n], part(schema, results[n], stack));
    }
  } catch (const c10::Error& error) {
    throw Error("WIR2160", error.what_without_backtrace(), std::current_exception());
  }
}

void Method::call(const Arg* args, std::size_t arg_count, const Result* results,
                  std::size_t result_count) {
  const auto type = object_of(args[0]).toObjectRef().type();
  torch::jit::Function* method = type->findMethod(name_);
  if (method == nullptr) {
    throw Error("WIR2165", "the class '" + type->repr_str() + "' has no method '" + name_ + "'",
                "load the library that defined it when the program was made");
  }
  try {
    const c10::FunctionSchema& schema = method->getSchema();
    std::vector<c10::IValue> stack = stack_of(schema, args, arg_count);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    method->run(stack);
    for (std::size_t n = 0; n < result_count; ++n) {
      give(schema, results[n], part(schema, results[n], stack));
    }
  } catch (const c10::Error& error) {
    throw Error("WIR2160", error.what_without_backtrace(), std::current_exception());
  }
}

// Throws if a registered op changes the shape or the storage of its argument.
void refuse_changes(const ProgramInfo& program, const OpName& op) {
  const auto found = c10::Dispatcher::singleton().findSchema({op.name, op.overload});
  if (!found || !found->hasTag(at::Tag::inplace_view)) return;
  throw Error("WIR0106",
              std::string("program '") + program.name + "' declares '" +
                  whole_name(op.name, op.overload) +
                  "' unlike the op that is registered: it changes the shape or the storage of its "
                  "argument, which no program can say",
              "load the version of the op that the program was made with, or make the program again");
}

}  // namespace wir

// Throws unless all ops of a program are registered, and leave shapes and storages as they are.
extern "C" [[gnu::visibility("hidden")]] void wir_check_ops(const wir::ProgramInfo& program) {
  std::string missing;
  std::size_t count = 0;
  for (std::size_t n = 0; n < program.num_ops; ++n) {
    const wir::OpName& op = program.ops[n];
    if (wir::is_registered(op.name, op.overload)) {
      wir::refuse_changes(program, op);
      continue;
    }
    missing += (missing.empty() ? "'" : ", '") + wir::whole_name(op.name, op.overload) + "'";
    ++count;
  }
  if (count == 0) return;
  throw wir::Error("WIR2165",
                   std::string("no library that is loaded has the op") + (count == 1 ? " " : "s ") + missing,
                   "load or import what defines " + std::string(count == 1 ? "it" : "them") +
                       " before the library that calls " + (count == 1 ? "it" : "them"));
}
