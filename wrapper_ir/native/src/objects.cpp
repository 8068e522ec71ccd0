// Deserialization of custom-class objects that PyTorch serialized. Classes are looked up in the
// process, so the library that registers one has to be loaded first.
#include "objects.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/custom_class_detail.h>

#include <wir/error.h>

namespace wir::runtime {
namespace {

// PyTorch's name for the type "ns::Queue": "__torch__.torch.classes.ns.Queue".
std::string type_name(const char* class_name) {
  std::string name = class_name;
  const std::size_t colons = name.find("::");
  if (colons != std::string::npos) name.replace(colons, 2, ".");
  return "__torch__.torch.classes." + name;
}

std::string named(const ObjectSpec& spec) {
  return std::string("object '") + spec.qualified_name + "' of class " + spec.class_name;
}

c10::IValue made_from(const ObjectSpec& spec, std::string_view bytes) {
  const std::string type = type_name(spec.class_name);
  if (torch::getCustomClass(type) == nullptr) {
    throw Error("WIR2165", std::string("no library that is loaded has the class '") +
                               spec.class_name + "' of the object '" + spec.qualified_name + "'",
                "load or import what defines the class before this library");
  }
  c10::IValue value;
  try {
    value = torch::jit::pickle_load_obj(bytes);
  } catch (const c10::Error& error) {
    throw Error("WIR2154", "the " + named(spec) + " cannot be made from its bytes: " +
                               error.what_without_backtrace(),
                "load the version of the class that the program was made with");
  }
  if (!value.isObject() || value.toObjectRef().type()->name()->qualifiedName() != type) {
    throw Error("WIR2154", "the bytes of the " + named(spec) + " make something else",
                "export the program again");
  }
  return value;
}

class Made final : public Objects {
 public:
  Made(const ProgramInfo& program, const Blob& blob) {
    values_.reserve(program.num_objects);
    for (std::size_t i = 0; i < program.num_objects; ++i) {
      const ObjectPlace& place = program.object_places[i];
      const auto* bytes = reinterpret_cast<const char*>(blob.begin() + place.offset);
      values_.push_back(made_from(program.objects[i], {bytes, place.bytes}));
    }
  }

  const void* value(std::size_t index) const override { return &values_[index]; }

 private:
  std::vector<c10::IValue> values_;
};

}  // namespace
}  // namespace wir::runtime

extern "C" [[gnu::visibility("hidden")]] wir::runtime::Objects* wir_make_objects(
    const wir::ProgramInfo& program, const wir::runtime::Blob& blob) {
  if (program.object_places == nullptr) {
    throw wir::Error("WIR2163", "the library was built without the program's objects");
  }
  return new wir::runtime::Made(program, blob);
}
