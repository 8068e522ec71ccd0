// Memory for library ops and results within a call, kept for the next call.
//
// Some library ops, such as convolutions, allocate their own results. Fresh memory costs a page
// fault for every 4 KiB, so we replace PyTorch's CPU allocator. Outside of our calls, on other
// threads and for small blocks, ours forwards to the previous allocator, at the cost of reading one
// thread-local variable. Within a call, it serves from the call's heap:
//
// - A heap is address space, reserved in large pieces and split into blocks in address order. A
//   free block is *warm* (its pages are resident) or *cold* (they are not yet, or were given back).
//   An allocation goes where it touches the fewest cold bytes; among equals, the best fit wins.
// - Warm bytes are bounded by the peak usage of any call so far, counting only what the call itself
//   allocated. Memory beyond that (results that a caller had accumulated) is given back to the
//   system when it is freed.
// - A block belongs to whoever holds the tensor. It can be freed on any thread, at any time. A
//   dropped heap lives on until its last block is freed.
//
// All heaps share one lock. It is held briefly, and only for blocks that take far longer to fill.
#include "heap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <wir/heap.h>
#include <wir/huge_pages.h>

namespace wir::heaps1 {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// The C library serves smaller blocks, mostly from memory that it already has.
constexpr std::size_t kLeast = std::size_t{128} << 10;

// The unit of reserved address space, which costs nothing until it is touched.
constexpr std::size_t kReserve = std::size_t{1} << 30;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

class Pool;

struct Block {
  enum class State { kUsed, kWarm, kCold };

  char* begin;
  std::size_t size;
  State state;
  Block* before;  // neighbours in the same piece of address space
  Block* after;
  std::size_t place = 0;   // of a free block: its index in the free list
  Pool* pool = nullptr;    // of a used block, like `call`
  std::uint64_t call = 0;  // the call that allocated it
};

struct Shared {
  std::mutex mutex;
  std::unordered_map<void*, Block*> used;  // by address
};

// Never destroyed: tensors may outlive everything else.
Shared& shared() {
  static Shared& made = *new Shared;
  return made;
}

// The blocks of one heap. Used only under the lock.
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (const Piece& piece : pieces_) munmap(piece.begin, piece.size);
    for (Block* block : free_) delete block;
  }

  // Allocates a block. Returns null if the system has no memory.
  void* take(std::size_t bytes) {
    const std::size_t size = round_up(bytes, kPage);
    Block* block = choose(size);
    if (block == nullptr) block = reserve(size);
    if (block == nullptr) return nullptr;
    claim(block, size);
    block->pool = this;
    block->call = call_;
    shared().used.emplace(block->begin, block);
    ++used_;
    live_ += size;
    peak_ = std::max(peak_, live_);
    return block->begin;
  }

  // Takes a block back. Returns true if it was the last one of a dropped heap.
  bool give(Block* block) {
    --used_;
    if (block->call == call_) live_ -= block->size;
    block->state = Block::State::kWarm;
    add_free(block);
    join(block);
    trim();
    return is_over();
  }

  void begin_call() { next_call(); }

  void end_call() {
    limit_ = std::max(limit_, peak_);
    next_call();
    trim();
  }

  // Ends allocation from this heap. Returns true if none of its blocks is in use.
  bool drop() {
    dropped_ = true;
    trim();
    return is_over();
  }

  std::size_t warm() const { return warm_; }

 private:
  struct Piece {
    char* begin;
    std::size_t size;
  };

  void next_call() {
    ++call_;
    live_ = peak_ = 0;
  }

  bool is_over() const { return dropped_ && used_ == 0; }

  // Returns the first of the adjacent free blocks that `size` bytes would occupy, or null. Chooses
  // a place with the fewest cold bytes and, among these, one that leaves the least.
  Block* choose(std::size_t size) const {
    Block* best = nullptr;
    std::size_t best_cold = SIZE_MAX;
    std::size_t best_rest = SIZE_MAX;
    for (Block* first : free_) {
      std::size_t missing = size;
      std::size_t cold = 0;
      for (const Block* last = first; last != nullptr; last = last->after) {
        if (last->state == Block::State::kUsed) break;
        const std::size_t part = std::min(last->size, missing);
        if (last->state == Block::State::kCold) cold += part;
        missing -= part;
        if (missing != 0) continue;
        const std::size_t rest = last->size - part;
        if (cold < best_cold || (cold == best_cold && rest < best_rest)) {
          best = first;
          best_cold = cold;
          best_rest = rest;
        }
        break;
      }
    }
    return best;
  }

  // Reserves address space for at least `size` bytes. Returns null if there is none.
  Block* reserve(std::size_t size) {
    for (const std::size_t asked : {std::max(kReserve, round_up(size, kHugePage)), size}) {
      void* begin = mmap(nullptr, asked, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (begin == MAP_FAILED) continue;
      pieces_.push_back({static_cast<char*>(begin), asked});
      auto* block =
          new Block{static_cast<char*>(begin), asked, Block::State::kCold, nullptr, nullptr};
      add_free(block);
      return block;
    }
    return nullptr;
  }

  // Makes one used block of `size` bytes, starting with a free block.
  void claim(Block* block, std::size_t size) {
    remove_free(block);
    cut(block, size);
    bool is_cold = block->state == Block::State::kCold;
    while (block->size < size) {
      Block* next = block->after;
      is_cold |= next->state == Block::State::kCold;
      remove_free(next);
      cut(next, size - block->size);
      swallow(block, next);
    }
    block->state = Block::State::kUsed;
    if (is_cold) advise_huge_pages(block->begin, size);
  }

  // Shrinks a block, which must not be in the free list, to `size` bytes, and frees the rest.
  void cut(Block* block, std::size_t size) {
    if (block->size <= size) return;
    auto* rest =
        new Block{block->begin + size, block->size - size, block->state, block, block->after};
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    add_free(rest);
  }

  // Merges two neighbours, neither of which may be in the free list.
  static void swallow(Block* block, Block* next) {
    block->size += next->size;
    block->after = next->after;
    if (block->after != nullptr) block->after->before = block;
    delete next;
  }

  // Merges a free block with its neighbours in the same state.
  void join(Block* block) {
    if (block->before != nullptr && block->before->state == block->state) block = block->before;
    while (block->after != nullptr && block->after->state == block->state) {
      remove_free(block);
      remove_free(block->after);
      swallow(block, block->after);
      add_free(block);
    }
  }

  // Gives warm memory beyond the needs of one call back to the system, from the end.
  void trim() {
    const std::size_t limit = dropped_ ? 0 : std::max(limit_, peak_);
    while (warm_ > limit) {
      Block* last = nullptr;
      for (Block* block : free_) {
        if (block->state != Block::State::kWarm) continue;
        if (last == nullptr || last->begin < block->begin) last = block;
      }
      remove_free(last);
      const std::size_t over = std::min(last->size, warm_ + last->size - limit);
      if (over < last->size) {
        cut(last, last->size - over);
        add_free(last);
        last = last->after;
        remove_free(last);
      }
      madvise(last->begin, last->size, MADV_DONTNEED);
      last->state = Block::State::kCold;
      add_free(last);
      join(last);
    }
  }

  void add_free(Block* block) {
    block->place = free_.size();
    free_.push_back(block);
    if (block->state == Block::State::kWarm) warm_ += block->size;
  }

  void remove_free(Block* block) {
    free_.back()->place = block->place;
    free_[block->place] = free_.back();
    free_.pop_back();
    if (block->state == Block::State::kWarm) warm_ -= block->size;
  }

  std::vector<Piece> pieces_;
  std::vector<Block*> free_;
  std::size_t warm_ = 0;    // bytes of warm blocks
  std::size_t limit_ = 0;   // the most of them that are kept
  std::size_t used_ = 0;    // number of used blocks
  std::uint64_t call_ = 0;  // number of the current call, or of a gap between calls
  std::size_t live_ = 0;    // bytes that this call has allocated and not freed
  std::size_t peak_ = 0;    // the peak of that
  bool dropped_ = false;
};

// The heap that serves the thread, or null.
thread_local Pool* current = nullptr;

void free_any(void* data);

class Installed final : public Server {
 public:
  explicit Installed(c10::Allocator* former) : former_(former) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (__builtin_expect(current == nullptr || bytes < kLeast, 1)) return former_->allocate(bytes);
    void* data = nullptr;
    {
      const std::lock_guard lock(shared().mutex);
      data = current->take(bytes);
    }
    if (data == nullptr) return former_->allocate(bytes);  // which reports the failure
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, data, free_any, c10::Device(c10::DeviceType::CPU)};
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return former_->is_simple_data_ptr(data);
  }

  // A caller that has only an address may have it from either allocator.
  c10::DeleterFnPtr raw_deleter() const override {
    return former_->raw_deleter() == nullptr ? nullptr : free_any;
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    former_->copy_data(to, from, bytes);
  }

  void* make() override { return new Pool; }

  void drop(void* heap) noexcept override {
    auto* pool = static_cast<Pool*>(heap);
    bool over = false;
    {
      const std::lock_guard lock(shared().mutex);
      over = pool->drop();
    }
    if (over) delete pool;
  }

  std::size_t bytes(void* heap) noexcept override {
    const std::lock_guard lock(shared().mutex);
    return static_cast<Pool*>(heap)->warm();
  }

  void* begin(void* heap) noexcept override {
    const std::lock_guard lock(shared().mutex);
    static_cast<Pool*>(heap)->begin_call();
    return exchange(heap);
  }

  void end(void* heap, void* outer) noexcept override {
    exchange(outer);
    const std::lock_guard lock(shared().mutex);
    static_cast<Pool*>(heap)->end_call();
  }

  void* exchange(void* heap) noexcept override {
    return std::exchange(current, static_cast<Pool*>(heap));
  }

  void free_former(void* data) const { former_->raw_deallocate(data); }

 private:
  c10::Allocator* former_;
};

Installed* installed = nullptr;

// Frees memory of this allocator or of the former one.
void free_any(void* data) {
  if (data == nullptr) return;
  Pool* pool = nullptr;
  bool over = false;
  {
    Shared& all = shared();
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.used.find(data); found != all.used.end()) {
      Block* block = found->second;
      all.used.erase(found);
      pool = block->pool;
      // Report it before the memory can be allocated again.
      c10::profiledCPUMemoryReporter().Delete(data);
      over = pool->give(block);
    }
  }
  if (pool == nullptr) installed->free_former(data);
  if (over) delete pool;
}

// Keeps this library loaded, because PyTorch may call the allocator until the process ends.
void stay_loaded() {
  Dl_info found;
  if (dladdr(reinterpret_cast<const void*>(&stay_loaded), &found) != 0) {
    dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace

Server* server() noexcept {
  static std::mutex installing;
  const std::lock_guard lock(installing);
  c10::Allocator* now = c10::GetCPUAllocator();
  if (auto* found = dynamic_cast<Server*>(now); found != nullptr) return found;
  if (installed != nullptr) return installed;  // another allocator has replaced ours
  stay_loaded();
  installed = new Installed(now);
  // A forked process must find the lock free.
  pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); },
                 [] { shared().mutex.unlock(); });
  c10::SetCPUAllocator(installed);  // has no effect if the other has a higher priority
  return installed;
}

}  // namespace wir::heaps1

namespace wir {
namespace {

struct Handle {
  heaps1::Server* server;
  void* heap;
};

Handle* handle_of(void* opaque) { return static_cast<Handle*>(opaque); }

}  // namespace

Heap::Heap() {
  heaps1::Server* server = heaps1::server();
  opaque_ = new Handle{server, server->make()};
}

Heap::~Heap() {
  if (opaque_ == nullptr) return;
  handle_of(opaque_)->server->drop(handle_of(opaque_)->heap);
  delete handle_of(opaque_);
}

std::size_t Heap::bytes() const noexcept {
  return handle_of(opaque_)->server->bytes(handle_of(opaque_)->heap);
}

Heap::Call::Call(Heap& heap) noexcept
    : heap_(heap), outer_(handle_of(heap.opaque_)->server->begin(handle_of(heap.opaque_)->heap)) {}

Heap::Call::~Call() {
  handle_of(heap_.opaque_)->server->end(handle_of(heap_.opaque_)->heap, outer_);
}

Heap::Pause::Pause(Heap& heap) noexcept
    : heap_(heap), outer_(handle_of(heap.opaque_)->server->exchange(nullptr)) {}

Heap::Pause::~Pause() { handle_of(heap_.opaque_)->server->exchange(outer_); }

}  // namespace wir
