// Results in memory that the caller gives.
#pragma once

#include <string>

#include <wir/layout.h>
#include <wir/program.h>
#include <wir/tensor.h>

namespace wir {

// What the caller gives for a result; null: fresh memory will do.
inline AtenTensorHandle given(const Call& call, std::size_t result) {
  return call.out == nullptr ? nullptr : call.out[result];
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_out(std::size_t result,
                                                              const Metadata& found,
                                                              const TensorSpec& spec) {
  throw Error("WIR2171",
              "{name} has the wrong {difference}: the result is {expected}, given was {got}",
              {"out[" + std::to_string(result) + "]", differences(found, spec), described(spec),
               described(found)},
              "give a tensor like the one that the program returns without out=");
}

// Memory for a result that looks like `shown` when it is returned, and so while it is made.
inline Tensor empty_result(const Call& call, std::size_t result, const TensorSpec& shown,
                           std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                           Options options) {
  const AtenTensorHandle out = given(call, result);
  if (out == nullptr) return empty(rank, size, stride, options);
  const Metadata found(out);
  if (__builtin_expect(!found.fits(shown), 0)) refuse_out(result, found, shown);
  // A view: whatever an op does to it, the caller's tensor stays what it is.
  return view(out, rank, size, stride, 0);
}

// The same for a result that looks like what is allocated.
inline Tensor empty_result(const Call& call, std::size_t result, std::int64_t rank,
                           const std::int64_t* size, const std::int64_t* stride, Options options) {
  const TensorSpec shown{options.dtype, options.device_type, -1, static_cast<std::int32_t>(rank),
                         size, stride};
  return empty_result(call, result, shown, rank, size, stride, options);
}

// Have a result in the caller's tensor, if there is one. Nothing is copied that was made there.
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
