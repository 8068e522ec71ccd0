// Results in memory that the caller provides.
#pragma once

#include <string>

#include <wir/layout.h>
#include <wir/program.h>
#include <wir/tensor.h>

namespace wir {

// The tensor that the caller provides for a result; null: none, so allocate one.
inline AtenTensorHandle given(const Call& call, std::size_t result) {
  return call.out == nullptr ? nullptr : call.out[result];
}

// Whether a result can be computed where the caller wants it: kernels of GPUs store up to 16 bytes
// at a time. Elsewhere, deliver() copies it there.
inline bool can_hold(AtenTensorHandle out, const Options& options) {
  return options.device_type == device::cpu || reinterpret_cast<std::uintptr_t>(data(out)) % 16 == 0;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_out(std::size_t result,
                                                              const Metadata& found,
                                                              const TensorSpec& spec) {
  throw Error("WIR2171",
              "{name} has the wrong {difference}: the result is {expected}, but got {got}",
              {"out[" + std::to_string(result) + "]", differences(found, spec), described(spec),
               described(found)},
              "give a tensor like the one that the program returns without out=");
}

// Memory for a result that is computed with `size` and `stride` and returned with the layout
// `shown`. A tensor that the caller provides must match `shown`.
inline Tensor empty_result(const Call& call, std::size_t result, const TensorSpec& shown,
                           std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                           Options options) {
  const AtenTensorHandle out = given(call, result);
  if (out == nullptr) return empty(rank, size, stride, options);
  const Metadata found(out);
  if (__builtin_expect(!found.fits(shown), 0)) refuse_out(result, found, shown);
  if (__builtin_expect(!can_hold(out, options), 0)) return empty(rank, size, stride, options);
  // Return a view, so that no op can change the metadata of the caller's tensor.
  return view(out, rank, size, stride, 0);
}

// The same for a result that is returned with the layout it is computed in.
inline Tensor empty_result(const Call& call, std::size_t result, std::int64_t rank,
                           const std::int64_t* size, const std::int64_t* stride, Options options) {
  const TensorSpec shown{options.dtype, options.device_type, -1, static_cast<std::int32_t>(rank),
                         size, stride};
  return empty_result(call, result, shown, rank, size, stride, options);
}

// Puts a result into the caller's tensor, if there is one. A result computed there is not copied.
inline void deliver(const Call& call, std::size_t result, Tensor& made) {
  const AtenTensorHandle out = given(call, result);
  if (out == nullptr) return;
  if (data(made) != data(out)) {
    const Metadata found(out), wanted(made);
    const TensorSpec shown{wanted.dtype, wanted.device_type, -1,
                           static_cast<std::int32_t>(wanted.rank), wanted.size, wanted.stride};
    if (!found.fits(shown)) refuse_out(result, found, shown);
    check(aoti_torch_copy_(out, made, false));
  }
  made = share(out);
}

}  // namespace wir
