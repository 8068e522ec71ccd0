// Symmetric memory of CPU tensors: memory that the processes of one machine share.
//
// PyTorch has such memory on GPUs only. Here an allocation is a file in memory, which the peers map
// when they meet for it, and the ops do what those of CUDA do, one barrier before they read and one
// after. An allocation has its buffer first, then its signal pad.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>
#include <torch/library.h>

namespace {

using c10d::symmetric_memory::SymmetricMemory;
using c10d::symmetric_memory::SymmetricMemoryAllocator;
using Clock = std::chrono::steady_clock;

/// How long ranks wait for one another unless they are told: a rank may still be compiling.
constexpr std::chrono::milliseconds kPatience{60'000};

/// A mapping of a file in memory, until its last user has gone.
class Segment {
 public:
  /// Maps a file, which this then closes.
  Segment(int file, size_t buffer_size, size_t pad_size)
      : file_(file), buffer_size_(buffer_size), pad_offset_((buffer_size + 63) / 64 * 64) {
    size_ = pad_offset_ + pad_size;
    base_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (base_ == MAP_FAILED) {
      close(file_);
      TORCH_CHECK(false, "shared memory cannot be mapped: ", std::strerror(errno));
    }
  }

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  ~Segment() {
    munmap(base_, size_);
    close(file_);
  }

  static std::shared_ptr<Segment> create(size_t buffer_size, size_t pad_size) {
    const int file = memfd_create("symmetric", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0, "shared memory cannot be made: ", std::strerror(errno));
    const size_t size = (buffer_size + 63) / 64 * 64 + pad_size;
    if (ftruncate(file, static_cast<off_t>(size)) != 0) {
      const int error = errno;
      close(file);
      TORCH_CHECK(false, "shared memory has no room for ", size, " bytes: ", std::strerror(error));
    }
    return std::make_shared<Segment>(file, buffer_size, pad_size);
  }

  static std::shared_ptr<Segment> open(const std::string& path, size_t buffer, size_t pad) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    TORCH_CHECK(file >= 0, "the memory of a peer, ", path, ", cannot be opened: ",
                std::strerror(errno));
    return std::make_shared<Segment>(file, buffer, pad);
  }

  int file() const { return file_; }
  size_t buffer_size() const { return buffer_size_; }
  void* buffer() const { return base_; }
  void* pad() const { return static_cast<char*>(base_) + pad_offset_; }

 private:
  int file_;
  size_t buffer_size_;
  size_t pad_offset_;
  size_t size_;
  void* base_;
};

/// Allocations of all ranks of a group, which have met.
class SharedMemory : public SymmetricMemory {
 public:
  SharedMemory(std::vector<std::shared_ptr<Segment>> segments, int rank)
      : segments_(std::move(segments)), rank_(rank) {
    for (const auto& segment : segments_) {
      buffers_.push_back(segment->buffer());
      pads_.push_back(segment->pad());
    }
  }

  std::vector<void*> get_buffer_ptrs() override { return buffers_; }
  std::vector<void*> get_signal_pad_ptrs() override { return pads_; }
  void** get_buffer_ptrs_dev() override { return buffers_.data(); }
  void** get_signal_pad_ptrs_dev() override { return pads_.data(); }
  size_t get_buffer_size() override { return segments_[rank_]->buffer_size(); }
  size_t get_offset() { return 0; }
  bool has_multicast_support() override { return false; }
  void* get_multicast_ptr() override { return nullptr; }
  int get_rank() override { return rank_; }
  int get_world_size() override { return static_cast<int>(segments_.size()); }
  c10::Device get_device() override { return c10::Device(c10::kCPU); }
  bool world_within_direct_access() { return true; }

  void barrier(int channel, size_t timeout_ms) override {
    const auto end = limit(timeout_ms);
    for (int peer = 0; peer < get_world_size(); ++peer) {
      if (peer != rank_) exchange(signal(peer, rank_, channel), 0, 1, peer, "barrier", end);
    }
    for (int peer = 0; peer < get_world_size(); ++peer) {
      if (peer != rank_) exchange(signal(rank_, peer, channel), 1, 0, peer, "barrier", end);
    }
  }

  void put_signal(int dst_rank, int channel, size_t timeout_ms) override {
    const auto end = limit(timeout_ms);
    exchange(signal(dst_rank, rank_, channel), 0, 1, dst_rank, "put_signal", end);
  }

  void wait_signal(int src_rank, int channel, size_t timeout_ms) override {
    const auto end = limit(timeout_ms);
    exchange(signal(rank_, src_rank, channel), 1, 0, src_rank, "wait_signal", end);
  }

 private:
  using Signal = std::atomic<uint32_t>;
  static_assert(Signal::is_always_lock_free, "processes cannot share a lock");

  static Clock::time_point limit(size_t timeout_ms) {
    return Clock::now() + (timeout_ms ? std::chrono::milliseconds(timeout_ms) : kPatience);
  }

  /// The word in one rank's pad which another one sets.
  Signal& signal(int at, int from, int channel) {
    const auto index = static_cast<size_t>(channel) * segments_.size() + from;
    TORCH_CHECK(at >= 0 && at < get_world_size(), "there is no rank ", at);
    TORCH_CHECK(channel >= 0 && (index + 1) * sizeof(Signal) <= get_signal_pad_size(),
                "there is no channel ", channel);
    return static_cast<Signal*>(pads_[at])[index];
  }

  /// Replaces a value once it is there.
  void exchange(Signal& word, uint32_t from, uint32_t to, int peer, const char* what,
                Clock::time_point end) {
    for (int tries = 0;; ++tries) {
      uint32_t expected = from;
      if (word.compare_exchange_weak(expected, to, std::memory_order_acq_rel)) return;
      if (tries < 100) {
        sched_yield();
        continue;
      }
      TORCH_CHECK(Clock::now() < end, what, ": rank ", rank_, " has waited too long for rank ",
                  peer);
      usleep(50);
    }
  }

  std::vector<std::shared_ptr<Segment>> segments_;
  std::vector<void*> buffers_;
  std::vector<void*> pads_;
  int rank_;
};

class SharedMemoryAllocator : public SymmetricMemoryAllocator {
 public:
  void* alloc(size_t size, int, const std::optional<std::string>&) override {
    auto segment = Segment::create(size, pad_size());
    const std::lock_guard<std::mutex> lock(changing_);
    void* const place = segment->buffer();
    allocations_[place].segment = std::move(segment);
    return place;
  }

  void free(void* ptr) override {
    const std::lock_guard<std::mutex> lock(changing_);
    allocations_.erase(ptr);
  }

  size_t get_alloc_size(void* ptr) override { return find(ptr).segment->buffer_size(); }

  // Not in all releases that we support.
  bool has_allocation(void* ptr) {
    const std::lock_guard<std::mutex> lock(changing_);
    return allocations_.count(ptr) != 0;
  }

  c10::intrusive_ptr<SymmetricMemory> rendezvous(
      void* ptr, const std::optional<std::string>& group_name) override {
    TORCH_CHECK(group_name.has_value(), "rendezvous: a group is needed");
    const Allocation mine = find(ptr);
    const auto known = mine.met.find(*group_name);
    if (known != mine.met.end()) return known->second;
    auto handle = meet(mine.segment, *group_name);
    const std::lock_guard<std::mutex> lock(changing_);
    ++meetings_;
    allocations_.at(ptr).met.emplace(*group_name, handle);
    return handle;
  }

  bool has_multicast_support(int) override { return false; }
  c10::DeviceType supported_device_type() override { return c10::kCPU; }
  std::string name() override { return "SHARED_MEMORY"; }

  int64_t alive() {
    const std::lock_guard<std::mutex> lock(changing_);
    return static_cast<int64_t>(allocations_.size());
  }

  int64_t meetings() {
    const std::lock_guard<std::mutex> lock(changing_);
    return meetings_;
  }

 private:
  struct Allocation {
    std::shared_ptr<Segment> segment;
    /// By group.
    std::map<std::string, c10::intrusive_ptr<SymmetricMemory>> met;
  };

  static size_t pad_size() { return c10d::symmetric_memory::get_signal_pad_size(); }

  Allocation find(void* ptr) {
    const std::lock_guard<std::mutex> lock(changing_);
    const auto found = allocations_.find(ptr);
    TORCH_CHECK(found != allocations_.end(), ptr, " is not the beginning of symmetric memory");
    return found->second;
  }

  /// Maps the allocations of all ranks, each of which is here for the same time in this group.
  c10::intrusive_ptr<SymmetricMemory> meet(const std::shared_ptr<Segment>& mine,
                                           const std::string& group_name) {
    const auto group = c10d::resolve_process_group(group_name);
    const auto store = c10::make_intrusive<c10d::PrefixStore>("shared_memory", group->getStore());
    const std::string round = next_round(group_name);
    const int rank = group->getRank();
    const std::string file =
        "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(mine->file());
    store->set(key(round, rank), std::to_string(mine->buffer_size()) + " " + file);
    std::vector<std::shared_ptr<Segment>> segments;
    for (int peer = 0; peer < group->getSize(); ++peer) {
      if (peer == rank) {
        segments.push_back(mine);
        continue;
      }
      store->wait({key(round, peer)}, kPatience);
      const std::string said = store->get_to_str(key(round, peer));
      size_t size_end = 0;
      const size_t size = std::stoull(said, &size_end);
      TORCH_CHECK(size == mine->buffer_size(), "rendezvous: rank ", rank, " has ",
                  mine->buffer_size(), " bytes, rank ", peer, " has ", size);
      segments.push_back(Segment::open(said.substr(size_end + 1), size, pad_size()));
    }
    auto handle = c10::make_intrusive<SharedMemory>(std::move(segments), rank);
    handle->barrier(0, 0);  // before that, peers may still have to open this rank's file
    return handle;
  }

  static std::string key(const std::string& round, int rank) {
    return round + "/" + std::to_string(rank);
  }

  std::string next_round(const std::string& group_name) {
    const std::lock_guard<std::mutex> lock(changing_);
    return group_name + "/" + std::to_string(rounds_[group_name]++);
  }

  std::mutex changing_;
  std::map<void*, Allocation> allocations_;
  std::map<std::string, int64_t> rounds_;
  int64_t meetings_ = 0;
};

SharedMemoryAllocator& allocator() {
  static const auto only = c10::make_intrusive<SharedMemoryAllocator>();
  return *only;
}

/// What the ranks have where this one has a tensor.
struct Peers {
  Peers(const char* op, const at::Tensor& input, const std::string& reduce_op,
        const std::string& group_name) {
    void* const place = input.storage().data_ptr().get();
    TORCH_CHECK(allocator().has_allocation(place), op,
                ": input must be allocated with empty_strided_p2p()");
    TORCH_CHECK(reduce_op == "sum", op, ": only sum is supported, not ", reduce_op);
    TORCH_CHECK(input.is_contiguous(), op, ": input must be contiguous");
    handle = c10d::symmetric_memory::rendezvous(input, group_name);
    const auto options = at::TensorOptions().dtype(input.dtype()).device(input.device());
    const int64_t offset = input.storage_offset() * static_cast<int64_t>(input.element_size());
    for (void* buffer : handle->get_buffer_ptrs()) {
      inputs.push_back(at::from_blob(static_cast<char*>(buffer) + offset, input.sizes(), options));
    }
  }

  void barrier() { handle->barrier(0, 0); }

  c10::intrusive_ptr<SymmetricMemory> handle;
  std::vector<at::Tensor> inputs;
};

/// Adds tensors in the order of the ranks, which gives all of them the same bits.
void sum(const std::vector<at::Tensor>& inputs, at::Tensor& out) {
  out.copy_(inputs[0]);
  for (size_t peer = 1; peer < inputs.size(); ++peer) out.add_(inputs[peer]);
}

at::Tensor one_shot_all_reduce_out(const at::Tensor& input, std::string reduce_op,
                                   std::string group_name, at::Tensor out) {
  TORCH_CHECK(out.sizes() == input.sizes(), "one_shot_all_reduce: out has another size");
  Peers peers("one_shot_all_reduce", input, reduce_op, group_name);
  peers.barrier();
  sum(peers.inputs, out);
  peers.barrier();
  return out;
}

at::Tensor one_shot_all_reduce(const at::Tensor& input, std::string reduce_op,
                               std::string group_name) {
  return one_shot_all_reduce_out(input, std::move(reduce_op), std::move(group_name),
                                 at::empty_like(input));
}

/// Each rank adds its part of the elements, and writes it to all of them.
at::Tensor two_shot_all_reduce_(at::Tensor input, std::string reduce_op, std::string group_name) {
  Peers peers("two_shot_all_reduce_", input, reduce_op, group_name);
  const int64_t ranks = peers.handle->get_world_size();
  const int64_t each = (input.numel() + ranks - 1) / ranks;
  const int64_t start = std::min(each * peers.handle->get_rank(), input.numel());
  const int64_t length = std::min(each, input.numel() - start);
  std::vector<at::Tensor> parts;
  for (const at::Tensor& each_input : peers.inputs) {
    parts.push_back(each_input.view(-1).narrow(0, start, length));
  }
  at::Tensor total = at::empty_like(parts[0]);
  peers.barrier();
  sum(parts, total);
  for (at::Tensor& part : parts) part.copy_(total);
  peers.barrier();
  return input;
}

void install() {
  c10d::symmetric_memory::register_allocator(
      c10::kCPU, c10::intrusive_ptr<SymmetricMemoryAllocator>::reclaim_copy(&allocator()));
}

}  // namespace

TORCH_LIBRARY_IMPL(symm_mem, CPU, m) {
  m.impl("one_shot_all_reduce", one_shot_all_reduce);
  m.impl("one_shot_all_reduce_out", one_shot_all_reduce_out);
  m.impl("two_shot_all_reduce_", two_shot_all_reduce_);
}

TORCH_LIBRARY(shared_memory, m) {
  m.def("install", install);
  m.def("alive", [] { return allocator().alive(); });
  m.def("rendezvous_count", [] { return allocator().meetings(); });
}
