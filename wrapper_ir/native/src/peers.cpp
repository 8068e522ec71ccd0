// Memory that peers address. The C shim has no function for it, so this file includes ATen.
#include <wir/peers.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <wir/dtype.h>
#include <wir/error.h>

namespace wir {
namespace {

struct Block {
  at::Tensor memory;  // its bytes
  void* stream;

  std::int64_t bytes() const { return memory.numel(); }
  // Nobody else has a tensor of this memory.
  bool is_idle() const { return memory.storage().use_count() == 1; }
  bool serves(std::int64_t wanted) const { return is_idle() && bytes() >= wanted; }
};

std::int64_t bytes_of(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                      c10::ScalarType dtype) {
  const auto dims = static_cast<std::size_t>(rank);
  return static_cast<std::int64_t>(
      at::detail::computeStorageNbytes({size, dims}, {stride, dims}, c10::elementSize(dtype)));
}

at::Tensor allocate(std::int64_t bytes, Options options) {
  constexpr std::int64_t kLeast = 16;  // backends have no allocations of nothing
  const c10::InferenceMode ordinary(false);  // a later call may not be in that mode
  std::int32_t index = options.device_index;
  if (options.device_type == device::cpu) {
    index = -1;  // pointers into host memory are on a device without a number
  } else if (index < 0) {
    check(aoti_torch_get_current_device_index(&index));
  }
  const c10::Device device(static_cast<c10::DeviceType>(options.device_type),
                           static_cast<c10::DeviceIndex>(index));
  return c10d::symmetric_memory::empty_strided_p2p({std::max(bytes, kLeast)}, {1}, c10::kByte,
                                                   device, std::nullopt, std::nullopt);
}

Tensor shown(const at::Tensor& memory, std::int64_t rank, const std::int64_t* size,
             const std::int64_t* stride, c10::ScalarType dtype) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(memory.storage()), memory.key_set(), c10::scalarTypeToTypeMeta(dtype));
  const auto dims = static_cast<std::size_t>(rank);
  view.unsafeGetTensorImpl()->set_sizes_and_strides({size, dims}, {stride, dims});
  return Tensor(torch::aot_inductor::new_tensor_handle(std::move(view)));
}

}  // namespace

struct PeerBlocks {
  std::vector<Block> free;
  std::vector<Block> captured;

  const at::Tensor& take(const GpuStream& stream, std::int64_t bytes, Options options);

 private:
  const at::Tensor& for_capture(std::int64_t bytes);
};

const at::Tensor& PeerBlocks::take(const GpuStream& stream, std::int64_t bytes, Options options) {
  if (stream.is_captured) return for_capture(bytes);
  const auto found = std::find_if(free.begin(), free.end(), [&](const Block& block) {
    return block.stream == stream.stream && block.is_idle();
  });
  if (found != free.end()) {
    if (found->bytes() >= bytes) return found->memory;
    free.erase(found);  // before the larger one is allocated
  }
  free.push_back({allocate(bytes, options), stream.stream});
  return free.back().memory;
}

const at::Tensor& PeerBlocks::for_capture(std::int64_t bytes) {
  const auto serves = [&](const Block& block) { return block.serves(bytes); };
  const auto warm = std::find_if(free.begin(), free.end(), serves);
  if (warm != free.end()) {
    captured.push_back(std::move(*warm));
    free.erase(warm);
    return captured.back().memory;
  }
  const auto again = std::find_if(captured.begin(), captured.end(), serves);
  if (again != captured.end()) return again->memory;
  throw Error("WIR2168",
              "the ranks cannot meet for " + std::to_string(bytes) +
                  " bytes of symmetric memory during a capture",
              "run the program once, with the same sizes, before it is captured");
}

Tensor PeerMemory::empty_strided(const GpuStream& stream, std::int64_t rank,
                                 const std::int64_t* size, const std::int64_t* stride,
                                 Options options) {
  const auto dtype = static_cast<c10::ScalarType>(options.dtype);
  const std::int64_t bytes = bytes_of(rank, size, stride, dtype);
  const std::lock_guard lock(changing_);
  if (blocks_ == nullptr) blocks_ = new PeerBlocks();
  return shown(blocks_->take(stream, bytes, options), rank, size, stride, dtype);
}

std::size_t PeerMemory::release() {
  const std::lock_guard lock(changing_);
  if (blocks_ == nullptr) return 0;
  std::size_t bytes = 0;
  const auto is_idle = [&](const Block& block) {
    const bool idle = block.is_idle();
    if (idle) bytes += static_cast<std::size_t>(block.bytes());
    return idle;
  };
  std::vector<Block>& free = blocks_->free;
  free.erase(std::remove_if(free.begin(), free.end(), is_idle), free.end());
  return bytes;
}

Tensor empty_for_peers(std::int64_t rank, const std::int64_t* size, const std::int64_t* stride,
                       Options options) {
  const auto dtype = static_cast<c10::ScalarType>(options.dtype);
  const at::Tensor memory = allocate(bytes_of(rank, size, stride, dtype), options);
  return shown(memory, rank, size, stride, dtype);
}

}  // namespace wir
