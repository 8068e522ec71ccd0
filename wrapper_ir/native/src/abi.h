// AOTInductor's C interface, as declared in torch/csrc/inductor/aoti_runtime/interface.h of PyTorch
// 2.15; older versions declare a subset. The functions that control how constants are copied to a
// GPU (AOTInductorSetUsePinned..., AOTInductorSetPinned...) are omitted: no loader calls them. The
// interface is redeclared here because PyTorch's header pulls in streams and half of the standard
// library, and differs between versions. A test compiles both side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#define WIR_EXPORT __attribute__((__visibility__("default")))

#ifndef WIR_WITH_TORCHS_INTERFACE  // a test includes PyTorch's own declarations instead
using AOTIRuntimeError = std::int32_t;
#endif
inline constexpr AOTIRuntimeError kSuccess = 0;
inline constexpr AOTIRuntimeError kFailure = 1;

inline constexpr int kMaxArrayRefDims = 8;

#ifndef WIR_WITH_TORCHS_INTERFACE
extern "C" {

struct AOTInductorModelOpaque;
using AOTInductorModelHandle = AOTInductorModelOpaque*;

struct AOTInductorModelContainerOpaque;
using AOTInductorModelContainerHandle = AOTInductorModelContainerOpaque*;

struct AOTInductorStreamOpaque;
using AOTInductorStreamHandle = AOTInductorStreamOpaque*;

// The handle is actually a std::unordered_map<std::string, AtenTensorHandle>*.
struct AOTInductorConstantMap;
using AOTInductorConstantMapHandle = AOTInductorConstantMap*;

struct AOTInductorConstantMapEntry {
  const char* name;
  AtenTensorHandle handle;
};

struct AOTInductorArrayRefTensor {
  void* data;
  std::int64_t numel;
  std::int64_t sizes[kMaxArrayRefDims];
  std::int64_t strides[kMaxArrayRefDims];
  std::int32_t ndim;
  std::int32_t dtype;
  std::int32_t device_type;
  std::int32_t device_idx;
  std::int64_t reserved[4];
};
static_assert(sizeof(AOTInductorArrayRefTensor) == 192);

}  // extern "C"
#endif
