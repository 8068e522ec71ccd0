// Decides which calls are captured, and replays them.
//
// The first call with inputs of given sizes runs the program, which is the warm-up that captures
// need. The second one is captured, which computes nothing, and replayed; later ones are replayed.
//
// A graph reads and writes fixed addresses. An input that had the same address in the first two
// calls is assumed to stay there, and the graph uses it in place. Others are copied to a buffer of
// the graph before a replay, and back afterwards if the program writes to them. Addresses are
// checked on every call. If an input moves unexpectedly, the call is captured again.
//
// NCCL wants all ranks to capture the same calls and to replay graphs of the same capture, and
// addresses differ from rank to rank. So a program that calls collectives has inputs that are
// copied wherever they are.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/tensor.h>

#include "graph_journal.h"
#include "graph_recorder.h"
#include "graph_results.h"
#include "graphs.h"
#include "modes.h"
#include "text.h"

namespace wir::runtime {
namespace {

// After this many captures because an input moved, every input is copied.
constexpr std::size_t kMoves = 3;

// Capturing stops once captures outnumber replays by more than this, not counting the replay that
// follows each capture.
constexpr std::uint64_t kPatience = 64;

// A tensor is not copied if it spans more than kGaps times the size of its elements, and more than
// kSmall bytes.
constexpr std::int64_t kGaps = 4;
constexpr std::int64_t kSmall = 16 << 20;

constexpr const char* kOverlaps = "an input that the program writes to shares memory with another";

// The number of threads that a warm-up remembers.
constexpr std::size_t kThreads = 256;

// Returns an ID of the calling thread. Unlike PyTorch's and the system's, these are never reused.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> last = 0;
  static thread_local const std::uint64_t mine = ++last;
  return mine;
}

// The inputs of one call.
struct Inputs {
  std::vector<std::int64_t> key;         // dtypes, sizes, strides and numbers
  std::vector<std::uint8_t*> addresses;  // of tensors on the GPU, by input; null for others

  void read(const ProgramInfo& program, const Slot* slots, std::int32_t gpu_type);
};

void Inputs::read(const ProgramInfo& program, const Slot* slots, std::int32_t gpu_type) {
  key.clear();
  addresses.assign(program.num_inputs, nullptr);
  for (std::size_t n = 0; n < program.num_inputs; ++n) {
    if (program.inputs[n].kind != Kind::kTensor) {
      std::int64_t bits = 0;
      std::memcpy(&bits, &slots[n], sizeof bits);
      key.push_back(program.inputs[n].kind == Kind::kNone ? 0 : bits);
      continue;
    }
    const AtenTensorHandle tensor = slots[n].tensor;
    std::int32_t dtype = 0;
    std::int32_t device_type = program.inputs[n].tensor.device_type;
    std::int64_t rank = 0;
    check(aoti_torch_get_dtype(tensor, &dtype));
    check(aoti_torch_get_dim(tensor, &rank));
    key.push_back(dtype);
    key.push_back(rank);
    const std::int64_t *size = sizes(tensor), *stride = strides(tensor);
    key.insert(key.end(), size, size + rank);
    key.insert(key.end(), stride, stride + rank);
    if (device_type == device::any) {
      check(aoti_torch_get_device_type(tensor, &device_type));
      key.push_back(device_type);
    }
    if (device_type == gpu_type) addresses[n] = bytes_of(tensor);
  }
}

// An input that is copied to a buffer of the graph.
struct Moving {
  std::size_t input;
  Tensor memory;
  Tensor place;  // a view of it with the input's layout
  std::int64_t bytes;
  bool is_plain;  // copying its bytes is enough
  bool is_dense;  // there are no gaps between its elements
};

struct State {
  const ProgramInfo& program;
  void* state;

  State(const ProgramInfo& info, void* taken) : program(info), state(taken) {}
  ~State() {
    if (state != nullptr) program.destroy_state(state);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

// A captured call.
struct Graph {
  std::vector<std::int64_t> key;
  std::vector<std::uint8_t*> fixed;   // addresses of inputs used in place; null for others
  std::vector<std::int64_t> extents;  // bytes that each input spans
  // Inputs that must be apart: the first one is written to, and one of the two is copied.
  std::vector<std::pair<std::size_t, std::size_t>> apart;
  std::vector<Moving> moving;
  std::unique_ptr<State> state;  // what the graph's kernels work on; null if it is lent
  std::unique_ptr<Recording> recording;
  std::unique_ptr<GraphResults> results;  // destroyed before the recording, which owns their memory

  bool fits(const Inputs& inputs) const {
    for (std::size_t n = 0; n < fixed.size(); ++n) {
      if (fixed[n] != nullptr && fixed[n] != inputs.addresses[n]) return false;
    }
    return true;
  }
};

// What a warm-up call leaves for the call that is captured.
struct Warm {
  std::vector<std::int64_t> key;
  std::vector<std::uint8_t*> addresses;
  std::set<std::uint64_t> threads;  // that ran it: libraries set up handles per thread
};

// Returns the item with this key or null, and moves it to the front.
template <class Item>
Item* find(std::vector<std::unique_ptr<Item>>& items, const std::vector<std::int64_t>& key) {
  for (auto each = items.begin(); each != items.end(); ++each) {
    if ((*each)->key != key) continue;
    std::rotate(items.begin(), each, each + 1);
    return items.front().get();
  }
  return nullptr;
}

// Shared by all calls that draw random numbers on one GPU: PyTorch has one generator per GPU.
struct Turns {
  explicit Turns(const ProgramInfo& program) : recorder(make_recorder(program)) {}

  static std::shared_ptr<Turns> on_device_of(const ProgramInfo& program) {
    static std::mutex mutex;
    static auto* const all = new std::map<std::int32_t, std::weak_ptr<Turns>>;
    const std::lock_guard lock(mutex);
    std::weak_ptr<Turns>& known = (*all)[program.number()];
    std::shared_ptr<Turns> found = known.lock();
    if (found == nullptr) known = found = std::make_shared<Turns>(program);
    return found;
  }

  std::shared_ptr<Recorder> recorder;
  std::mutex mutex;
};

// State that the graphs of a container share.
struct Shared {
  explicit Shared(const ProgramInfo& info) : program(info), journal(info) {}

  const ProgramInfo& program;
  Journal journal;
  std::shared_ptr<Turns> turns;  // null if no random numbers are drawn
};

class Using {
 public:
  explicit Using(Recorder& recorder) : recorder_(recorder), is_captured_(recorder.enter()) {}
  ~Using() { recorder_.leave(); }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;
  bool is_captured() const { return is_captured_; }

 private:
  Recorder& recorder_;
  bool is_captured_;
};

// Orders work during its lifetime after work during earlier ones.
class InOrder {
 public:
  explicit InOrder(Recorder& recorder) : recorder_(recorder) { recorder_.begin(); }
  ~InOrder() { recorder_.end(); }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  Recorder& recorder_;
};

class Replayed : public RunnerGraphs {
 public:
  explicit Replayed(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        program_(shared_->program),
        journal_(shared_->journal),
        recorder_(shared_->turns ? shared_->turns->recorder : make_recorder(program_)) {
    const GraphInfo& info = *program_.graphs;
    for (std::size_t n = 0; n < info.num_copied; ++n) {
      moves_[static_cast<std::size_t>(info.copied[n])] = true;
    }
  }
  ~Replayed() override { drop(graphs_.begin(), graphs_.end()); }

  void run(const GraphCall& given) override;
  std::size_t kept_bytes() const override;

 private:
  using Graphs = std::vector<std::unique_ptr<Graph>>;

  void run_here(const GraphCall& given);
  void run_plain(const GraphCall& given, const std::vector<std::string>& reasons = {});
  void give_up(const GraphCall& given);
  void warm_up(const GraphCall& given, Warm* warm);
  void capture(const GraphCall& given, const Warm& warm);
  std::vector<bool> inputs_to_move(const GraphCall& given, const Warm& warm);
  void expect_to_move(std::size_t input);
  std::unique_ptr<Graph> record(const GraphCall& given, const std::vector<bool>& moves);
  void keep_apart(Graph& graph, const std::vector<bool>& moves) const;
  void move_in(Graph& graph, const GraphCall& given, std::size_t input);
  void replay(Graph& graph, const GraphCall& given);
  void again(Graph& graph, const GraphCall& given);
  bool overlaps(const Graph& graph) const;
  bool overlaps_now(const GraphCall& given) const;
  std::string why_not_moved(const GraphCall& given, const std::vector<bool>& moves) const;
  void drop(Graphs::iterator first, Graphs::iterator last);

  std::shared_ptr<Shared> shared_;
  const ProgramInfo& program_;
  Journal& journal_;
  std::shared_ptr<Recorder> recorder_;
  Inputs now_;  // of the call in progress
  Graphs graphs_;
  std::vector<std::unique_ptr<Warm>> warm_;
  std::vector<bool> moves_ = std::vector<bool>(program_.num_inputs);  // which inputs are copied
  std::size_t moved_ = 0;  // how often an input moved unexpectedly
};

void Replayed::run(const GraphCall& given) {
  if (journal_.refused()) return give_up(given);
  std::unique_lock<std::mutex> turn;
  if (shared_->turns != nullptr) turn = std::unique_lock(shared_->turns->mutex);
  const Using gpu(*recorder_);
  if (gpu.is_captured()) return run_plain(given, {"they are part of another capture"});
  run_here(given);
}

void Replayed::run_here(const GraphCall& given) {
  now_.read(program_, given.inputs, recorder_->device_type());
  if (Graph* graph = find(graphs_, now_.key)) [[likely]] {
    if (graph->fits(now_)) [[likely]] {
      return replay(*graph, given);
    }
    return again(*graph, given);
  }
  Warm* warm = find(warm_, now_.key);
  if (warm == nullptr || warm->threads.count(this_thread()) == 0) return warm_up(given, warm);
  capture(given, *warm);
}

void Replayed::run_plain(const GraphCall& given, const std::vector<std::string>& reasons) {
  journal_.ran(reasons);
  ensure_state(program_, given.state, given.constants);
  const NoGrad no_grad;
  program_.run(given.state, given.call, given.inputs, given.outputs);
}

void Replayed::give_up(const GraphCall& given) {
  drop(graphs_.begin(), graphs_.end());
  run_plain(given, {journal_.refusal()});
}

void Replayed::warm_up(const GraphCall& given, Warm* warm) {
  run_plain(given);
  if (warm == nullptr) {  // after the run: a failed call warms nothing up
    if (warm_.size() >= 4 * program_.graphs->limit) warm_.pop_back();
    warm_.insert(warm_.begin(), std::make_unique<Warm>(Warm{now_.key, {}, {}}));
    warm = warm_.front().get();
  }
  warm->addresses = now_.addresses;
  if (warm->threads.size() >= kThreads) warm->threads.clear();
  warm->threads.insert(this_thread());
}

// Capturing.

void Replayed::capture(const GraphCall& given, const Warm& warm) {
  if (2 * journal_.captures > kPatience + journal_.replays) {
    journal_.refuse("their sizes or addresses change all the time");
    return give_up(given);
  }
  const std::vector<bool> moves = inputs_to_move(given, warm);
  const std::string obstacle = why_not_moved(given, moves);
  if (!obstacle.empty()) return run_plain(given, {obstacle});
  if (program_.graphs->has_branches && overlaps_now(given)) return run_plain(given, {kOverlaps});
  if (graphs_.size() >= program_.graphs->limit) drop(graphs_.end() - 1, graphs_.end());
  std::unique_ptr<Graph> graph;
  try {
    graph = record(given, moves);
  } catch (const std::exception& error) {
    journal_.refuse("capture failed: " + first_line(error.what()));
  }
  if (graph == nullptr) return give_up(given);
  ++journal_.captures;
  ++journal_.graphs;
  graphs_.insert(graphs_.begin(), std::move(graph));
  replay(*graphs_.front(), given);
}

std::vector<bool> Replayed::inputs_to_move(const GraphCall& given, const Warm& warm) {
  std::vector<bool> moves(program_.num_inputs);
  for (std::size_t n = 0; n < moves.size(); ++n) {
    if (now_.addresses[n] == nullptr) continue;  // it has no elements, or is not on the GPU
    if (warm.addresses[n] != now_.addresses[n]) expect_to_move(n);
    std::int32_t type = 0;
    check(aoti_torch_get_dtype(given.inputs[n].tensor, &type));
    // It may be lazily conjugated, which its address does not show.
    moves[n] = moves_[n] || moved_ >= kMoves || dtype::is_complex(type);
  }
  return moves;
}

void Replayed::expect_to_move(std::size_t input) {
  if (!program_.inputs[input].settled || moved_ >= kMoves) moves_[input] = true;
}

std::string Replayed::why_not_moved(const GraphCall& given, const std::vector<bool>& moves) const {
  for (std::size_t n = 0; n < moves.size(); ++n) {
    if (!moves[n]) continue;
    const TensorLayout layout(given.inputs[n].tensor);
    const std::string moved = std::string("input '") + program_.inputs[n].name + "' moves, and ";
    if (layout.extent() > std::max(kSmall, kGaps * layout.count() * layout.item_size())) {
      return moved + "has much memory between its elements";
    }
    for (std::size_t d = 0; d < layout.size.size(); ++d) {
      const bool is_written = program_.inputs[n].written || dtype::is_complex(layout.dtype);
      if (is_written && layout.stride[d] == 0 && layout.size[d] > 1) {
        return moved + "is written to where it is expanded";
      }
    }
  }
  return "";
}

std::unique_ptr<Graph> Replayed::record(const GraphCall& given, const std::vector<bool>& moves) {
  auto graph = std::make_unique<Graph>();
  graph->key = now_.key;
  graph->fixed = now_.addresses;
  std::vector<Slot> inputs(given.inputs, given.inputs + program_.num_inputs);
  for (std::size_t n = 0; n < moves.size(); ++n) {
    if (program_.inputs[n].kind == Kind::kTensor) {
      graph->extents.resize(n + 1);
      graph->extents[n] = TensorLayout(inputs[n].tensor).extent();
    }
    if (!moves[n]) continue;
    graph->fixed[n] = nullptr;
    move_in(*graph, given, n);
    inputs[n].tensor = graph->moving.back().place;
  }
  graph->extents.resize(program_.num_inputs);
  keep_apart(*graph, moves);
  ensure_state(program_, given.state, given.constants);
  void* state = given.state;
  if (!given.is_lent) {
    graph->state = std::make_unique<State>(program_, std::exchange(given.state, nullptr));
  }
  std::vector<Slot> results(program_.num_outputs);
  Call call;
  call.check_inputs = given.call.check_inputs;
  call.proxy_executor = given.call.proxy_executor;
  const auto work = [&] {
    const NoGrad no_grad;
    program_.run(state, call, inputs.data(), results.data());
  };
  Recording* beside = graphs_.empty() ? nullptr : graphs_.front()->recording.get();
  try {
    graph->recording = recorder_->record(work, beside);
  } catch (...) {
    for (std::size_t n = 0; n < results.size(); ++n) {
      if (program_.outputs[n].kind == Kind::kTensor) Tensor(results[n].tensor).reset();
    }
    throw;
  }
  graph->results = std::make_unique<GraphResults>(program_, results.data(), inputs.data(),
                                                  given.constants, *recorder_);
  return graph;
}

// Gives an input a buffer in the graph, and fills it: early readers must see valid numbers.
void Replayed::move_in(Graph& graph, const GraphCall& given, std::size_t input) {
  const AtenTensorHandle tensor = given.inputs[input].tensor;
  const TensorLayout layout(tensor);
  const std::int64_t extent = layout.extent(), count = extent / layout.item_size(), one = 1;
  Moving made{input, Tensor(), Tensor(), extent, !dtype::is_complex(layout.dtype), layout.is_dense()};
  outside_inference_mode([&] {
    made.memory = empty(1, &count, &one,
                        {layout.dtype, recorder_->device_type(), recorder_->device_index()});
    made.place =
        view(made.memory, layout.rank(), layout.size.data(), layout.stride.data(), 0);
  });
  recorder_->copy(data(made.place), now_.addresses[input], static_cast<std::size_t>(extent));
  graph.moving.push_back(std::move(made));
}

// Notes which inputs must be apart in each call. Those in place stay where they are.
void Replayed::keep_apart(Graph& graph, const std::vector<bool>& moves) const {
  const auto is_here = [&](std::size_t n) {
    return now_.addresses[n] != nullptr && graph.extents[n] > 0;
  };
  for (std::size_t w = 0; w < moves.size(); ++w) {
    if (!program_.inputs[w].written || !is_here(w)) continue;
    for (std::size_t n = 0; n < moves.size(); ++n) {
      if (n != w && is_here(n) && (moves[n] || moves[w])) graph.apart.emplace_back(w, n);
    }
  }
}

void Replayed::drop(Graphs::iterator first, Graphs::iterator last) {
  if (first == last) return;
  recorder_->wait();
  journal_.graphs -= last - first;
  graphs_.erase(first, last);
}

// Replaying.

void Replayed::replay(Graph& graph, const GraphCall& given) {
  if (overlaps(graph)) {
    return run_plain(given, {kOverlaps});
  }
  const InOrder in_order(*recorder_);
  for (const Moving& each : graph.moving) {
    if (each.is_plain) {
      recorder_->copy(data(each.place), now_.addresses[each.input],
                      static_cast<std::size_t>(each.bytes));
    } else {
      const NoGrad no_grad;
      check(aoti_torch_copy_(each.place, given.inputs[each.input].tensor, 1));
    }
  }
  graph.recording->replay();
  for (const Moving& each : graph.moving) {
    if (!program_.inputs[each.input].written) continue;
    if (each.is_plain && each.is_dense) {
      recorder_->copy(now_.addresses[each.input], data(each.place),
                      static_cast<std::size_t>(each.bytes));
    } else {
      const NoGrad no_grad;
      check(aoti_torch_copy_(given.inputs[each.input].tensor, each.place, 1));
    }
  }
  graph.results->give(given.inputs, given.outputs, *recorder_);
  ++journal_.replays;
}

// Captures a call again because an input has moved.
void Replayed::again(Graph& graph, const GraphCall& given) {
  ++moved_;
  for (std::size_t n = 0; n < graph.fixed.size(); ++n) {
    if (graph.fixed[n] != nullptr && graph.fixed[n] != now_.addresses[n]) expect_to_move(n);
  }
  drop(graphs_.begin(), graphs_.begin() + 1);  // find() has moved it to the front
  Warm* warm = find(warm_, now_.key);
  if (warm == nullptr || warm->threads.count(this_thread()) == 0) return warm_up(given, warm);
  warm->addresses = now_.addresses;
  capture(given, *warm);
}

// Whether an input that is written to overlaps another, and at least one of the two is copied.
bool Replayed::overlaps(const Graph& graph) const {
  for (const auto& [written, other] : graph.apart) {
    const std::uint8_t *begin = now_.addresses[written], *others = now_.addresses[other];
    if (begin < others + graph.extents[other] && others < begin + graph.extents[written]) {
      return true;
    }
  }
  return false;
}

// Whether an input that is written to overlaps another.
bool Replayed::overlaps_now(const GraphCall& given) const {
  const auto end_of = [&](std::size_t n) {
    return now_.addresses[n] + TensorLayout(given.inputs[n].tensor).extent();
  };
  for (std::size_t w = 0; w < program_.num_inputs; ++w) {
    if (!program_.inputs[w].written || now_.addresses[w] == nullptr) continue;
    for (std::size_t n = 0; n < program_.num_inputs; ++n) {
      if (n == w || now_.addresses[n] == nullptr) continue;
      if (now_.addresses[w] < end_of(n) && now_.addresses[n] < end_of(w)) return true;
    }
  }
  return false;
}

std::size_t Replayed::kept_bytes() const {
  std::size_t found = 0;
  for (const auto& graph : graphs_) {
    for (const Moving& each : graph->moving) found += static_cast<std::size_t>(each.bytes);
    if (program_.kept_bytes != nullptr && graph->state != nullptr) {
      found += program_.kept_bytes(graph->state->state);
    }
  }
  return found;
}

class ContainerGraphs : public Graphs {
 public:
  explicit ContainerGraphs(const ProgramInfo& program)
      : shared_(std::make_shared<Shared>(program)) {
    const char* wanted = std::getenv("WRAPPER_IR_CUDA_GRAPHS");
    const GraphInfo& info = *program.graphs;
    for (std::size_t n = 0; n < info.num_reasons; ++n) reasons_.emplace_back(info.reasons[n]);
    if (wanted != nullptr && std::strcmp(wanted, "0") == 0) {
      reasons_.assign(1, "WRAPPER_IR_CUDA_GRAPHS is 0");
    } else if (reasons_.empty() && why_no_recorder() != nullptr) {
      reasons_.emplace_back(why_no_recorder());
    }
    if (!reasons_.empty()) {
      shared_->journal.refuse(reasons_.front());
    } else if (info.is_random) {
      shared_->turns = Turns::on_device_of(program);
    }
  }

  std::unique_ptr<RunnerGraphs> of_runner() override {
    if (!reasons_.empty()) return nullptr;
    return std::make_unique<Replayed>(shared_);
  }
  void ran() override { shared_->journal.ran(reasons_); }
  const Journal& journal() const { return shared_->journal; }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<std::string> reasons_;
};

}  // namespace
}  // namespace wir::runtime

extern "C" [[gnu::visibility("hidden")]] wir::runtime::Graphs* wir_make_graphs(
    const wir::ProgramInfo& program) {
  return new wir::runtime::ContainerGraphs(program);
}

extern "C" [[gnu::visibility("default")]] const char* wir_graph_status(
    const wir::runtime::Graphs* graphs) {
  using wir::runtime::ContainerGraphs;
  const std::string text =
      graphs == nullptr
          ? wir::runtime::Journal::all()
          : "[" + static_cast<const ContainerGraphs*>(graphs)->journal().status() + "]";
  // Not a std::string: a thread-local destructor keeps the library loaded until the thread ends.
  static thread_local char* last = nullptr;
  std::free(last);
  last = strdup(text.c_str());
  return last == nullptr ? "[]" : last;
}
