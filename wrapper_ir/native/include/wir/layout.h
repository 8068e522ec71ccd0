// Checks of a tensor's layout against the program's specification, and the errors they report.
//
// Strides of dimensions of size 1, and of tensors without elements, are ignored.
#pragma once

#include <algorithm>
#include <string>

#include <wir/dtype.h>
#include <wir/number.h>
#include <wir/program.h>
#include <wir/tensor.h>

namespace wir {

// A tensor's metadata, as the C shim returns it.
struct Metadata {
  std::int32_t dtype = -1;
  std::int32_t device_type = -1;
  std::int32_t device_index = -1;
  std::int32_t layout = 0;
  std::int64_t rank = 0;
  const std::int64_t* size = nullptr;
  const std::int64_t* stride = nullptr;

  explicit Metadata(AtenTensorHandle tensor) {
    check(aoti_torch_get_layout(tensor, &layout));
    check(aoti_torch_get_dtype(tensor, &dtype));
    check(aoti_torch_get_device_type(tensor, &device_type));
    if (device_type != device::cpu) check(aoti_torch_get_device_index(tensor, &device_index));
    check(aoti_torch_get_dim(tensor, &rank));
    if (layout == 0) {  // others have no strides
      size = sizes(tensor);
      stride = strides(tensor);
    }
  }

  bool has_elements() const {
    for (std::int64_t n = 0; n < rank; ++n) {
      if (size[n] == 0) return false;
    }
    return true;
  }
  bool is_of_size(const TensorSpec& spec) const {
    for (std::int64_t n = 0; n < rank; ++n) {
      if (spec.size[n] != kDynamic && spec.size[n] != size[n]) return false;
    }
    return true;
  }
  bool is_of_stride(const TensorSpec& spec) const {
    for (std::int64_t n = 0; n < rank; ++n) {
      if (spec.stride[n] != kDynamic && spec.stride[n] != stride[n] && size[n] != 1) {
        return !has_elements();
      }
    }
    return true;
  }
  bool is_on(const TensorSpec& spec) const {
    if (spec.device_type == device::any) return true;
    return spec.device_type == device_type &&
           (spec.device_index == -1 || device_type == device::cpu ||
            spec.device_index == device_index);
  }
  bool fits(const TensorSpec& spec) const {
    return layout == 0 && dtype == spec.dtype && is_on(spec) && rank == spec.rank &&
           is_of_size(spec) && is_of_stride(spec);
  }
};

inline std::string shown(std::int64_t value) {
  return value == kDynamic ? "*" : std::to_string(value);
}

inline std::string listed(std::int64_t count, const std::int64_t* numbers) {
  std::string text = "[";
  for (std::int64_t n = 0; n < count; ++n) {
    if (n != 0) text += ", ";
    text += shown(numbers[n]);
  }
  return text + "]";
}

inline std::string described(std::int32_t dtype, std::int64_t rank, const std::int64_t* size,
                             const std::int64_t* stride, std::int32_t device_type,
                             std::int32_t device_index) {
  std::string device = device_name(device_type);
  if (device_type != device::cpu && device_index >= 0) {
    device += ":" + std::to_string(device_index);
  }
  return std::string(dtype_name(dtype)) + listed(rank, size) + " with strides " +
         listed(rank, stride) + " on " + device;
}
inline std::string described(const TensorSpec& spec) {
  return described(spec.dtype, spec.rank, spec.size, spec.stride, spec.device_type,
                   spec.device_index);
}
inline const char* layout_name(std::int32_t layout) {
  if (layout == aoti_torch_layout_sparse_coo()) return "sparse_coo";
  if (layout == aoti_torch_layout_sparse_csr()) return "sparse_csr";
  if (layout == aoti_torch_layout_sparse_csc()) return "sparse_csc";
  if (layout == aoti_torch_layout_sparse_bsr()) return "sparse_bsr";
  if (layout == aoti_torch_layout_sparse_bsc()) return "sparse_bsc";
  if (layout == aoti_torch_layout__mkldnn()) return "_mkldnn";
  if (layout == aoti_torch_layout_jagged()) return "jagged";
  return "an unknown layout";
}
inline std::string described(const Metadata& found) {
  if (found.layout != 0) {
    return std::string("a tensor stored as torch.") + layout_name(found.layout);
  }
  return described(found.dtype, found.rank, found.size, found.stride, found.device_type,
                   found.device_index);
}

// The properties in which a tensor differs from its specification: "dtype and size".
inline std::string differences(const Metadata& found, const TensorSpec& spec) {
  if (found.layout != 0) return "storage layout";
  std::string text;
  auto add = [&text](const char* what) { text += (text.empty() ? "" : " and ") + std::string(what); };
  if (found.dtype != spec.dtype) add("dtype");
  if (!found.is_on(spec)) add("device");
  if (found.rank != spec.rank) {
    add("rank");
  } else if (!found.is_of_size(spec)) {
    add("size");
  } else if (!found.is_of_stride(spec)) {
    add("stride");
  }
  return text;
}

inline std::string hint_for(const std::string& difference, const TensorSpec& spec) {
  if (difference == "stride") {
    return "the elements are laid out differently: copy it into a tensor of these strides";
  }
  if (difference == "dtype") {
    return std::string("convert it with .to(torch.") + dtype_name(spec.dtype) + ")";
  }
  if (difference == "device") return "move it with .to(device)";
  if (difference == "size" && std::find(spec.size, spec.size + spec.rank, kDynamic) !=
                                  spec.size + spec.rank) {
    return "sizes shown as * may vary; the others were fixed when the program was made";
  }
  if (difference == "size" || difference == "rank") {
    return "sizes were fixed when the program was made; declare those that vary as dynamic";
  }
  return "pass inputs in the order and form in which the program was made";
}

// The dimensions that differ, in the words of Inductor's wrappers.
inline std::string dimensions(const Metadata& found, const TensorSpec& spec) {
  std::string text;
  for (std::int64_t n = 0; n < found.rank; ++n) {
    const bool of_size = spec.size[n] == kDynamic || spec.size[n] == found.size[n];
    const bool of_stride = spec.stride[n] == kDynamic || spec.stride[n] == found.stride[n];
    if (of_size && (of_stride || found.size[n] == 1)) continue;
    text += (text.empty() ? "expected size " : "; expected size ") + shown(found.size[n]) +
            "==" + shown(spec.size[n]) + ", stride " + shown(found.stride[n]) +
            "==" + shown(spec.stride[n]) + " at dim=" + std::to_string(n);
  }
  return text;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_input(const char* name,
                                                                const Metadata& found,
                                                                const TensorSpec& spec) {
  const std::string difference = differences(found, spec);
  const bool fits = found.layout != 0 || found.rank != spec.rank ||
                    (found.is_of_size(spec) && found.is_of_stride(spec));
  const std::string where = fits ? "" : dimensions(found, spec) + ": ";
  throw Error("WIR2151",
              "input '{name}' has the wrong {difference}: expected {expected}, got {got}",
              {name, difference, described(spec), described(found)},
              where + hint_for(difference, spec));
}

inline constexpr const char* kOtherResult =
    "recapture with the torch version and settings in use; if the op is your own, its fake kernel "
    "(torch.library.register_fake) must describe what it returns";

inline constexpr const char* kOtherResultForm =
    "'{op}' returned a result with a different {difference}: expected {expected}, got {got}";

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_result(const char* op,
                                                                 const Metadata& found,
                                                                 const TensorSpec& spec) {
  throw Error("WIR2156", kOtherResultForm,
              {op, differences(found, spec), described(spec), described(found)},
              kOtherResult);
}

// Checks an input of the program, called `name`.
inline void check_input(AtenTensorHandle tensor, const char* name, const TensorSpec& spec) {
  const Metadata found(tensor);
  if (__builtin_expect(!found.fits(spec), 0)) refuse_input(name, found, spec);
}

// Checks a tensor that `op` returned.
inline void check_result(AtenTensorHandle tensor, const char* op, const TensorSpec& spec) {
  const Metadata found(tensor);
  if (__builtin_expect(!found.fits(spec), 0)) refuse_result(op, found, spec);
}

// Checks a tensor that `op` returned in a layout other than strided.
inline void check_kind(AtenTensorHandle tensor, const char* op, std::int32_t layout) {
  std::int32_t found = 0;
  check(aoti_torch_get_layout(tensor, &found));
  if (__builtin_expect(found != layout, 0)) {
    throw Error("WIR2156",
                std::string("'") + op + "' returned a tensor stored as torch." +
                    (found == 0 ? "strided" : layout_name(found)) + ", not as torch." +
                    layout_name(layout),
                kOtherResult);
  }
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_address(const char* name,
                                                                  std::int64_t alignment,
                                                                  const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%#zx", reinterpret_cast<std::uintptr_t>(address));
  throw Error("WIR2157",
              "'{name}' is not aligned to {alignment} bytes: its data is at {address}",
              {name, std::to_string(alignment), text},
              "copy it into a new tensor");
}

inline void check_alignment(AtenTensorHandle tensor, const char* name, std::int64_t alignment) {
  const void* address = data(tensor);
  if (__builtin_expect(reinterpret_cast<std::uintptr_t>(address) % alignment != 0, 0)) {
    refuse_address(name, alignment, address);
  }
}

// A view of a tensor's storage as another type. It starts `offset` bytes after the tensor does.
inline Tensor view_as(AtenTensorHandle source, std::int32_t dtype, std::int64_t rank,
                      const std::int64_t* size, const std::int64_t* stride, Int offset) {
  std::int32_t old = -1;
  check(aoti_torch_get_dtype(source, &old));
  const std::int64_t first = offset_of(source);
  const Int start = Int(first) * aoti_torch_dtype_element_size(old) + offset;
  if (mod(start, aoti_torch_dtype_element_size(dtype)) != 0) {
    throw Error("WIR2155", "a view of {dtype} begins {offset} bytes into its storage, inside an element",
                {std::string("torch.") + dtype_name(dtype), shown(start)});
  }
  // PyTorch makes such views only of tensors that start at the beginning of their storage.
  Tensor whole;
  if (first != 0) {
    static constexpr std::int64_t kNone = 0;
    static constexpr std::int64_t kOne = 1;
    whole = view(source, 1, &kNone, &kOne, -first);
    source = whole;
  }
  AtenTensorHandle made = nullptr;
  check(aoti_torch__alloc_from_pool(source, start, dtype, rank, size, stride, &made));
  return Tensor(made);
}

}  // namespace wir
