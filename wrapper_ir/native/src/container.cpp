#include "container.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include <torch/headeronly/version.h>
#include <wir/dtype.h>
#include <wir/error.h>

#include "failure.h"
#include "gil.h"
#include "inputs.h"
#include "modes.h"
#include "numbers.h"
#include "on_stream.h"
#include "probing.h"
#include "small_array.h"
#include "storage.h"

// Returns why this processor cannot run the library's kernels, or null. The build adds it if the
// kernels need more than the architecture's baseline.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char* wir_cpu_problem() noexcept;

// Throws unless all ops of a program are registered. Defined in src/op.cpp, which is linked if the
// program looks ops up.
extern "C" [[gnu::weak, gnu::visibility("hidden")]] void wir_check_ops(
    const wir::ProgramInfo& program);

namespace wir::runtime {
namespace {

std::string release(std::uint64_t version) {
  return std::to_string(version >> 56) + "." + std::to_string(version >> 48 & 255);
}

void check_program(const ProgramInfo& program) {
  if (program.contract != kContract) {
    throw Error("WIR2163", "generated code and runtime differ in ABI version: " +
                               std::to_string(program.contract) + " and " +
                               std::to_string(kContract),
                "build the library again");
  }
  const std::uint64_t here = aoti_torch_abi_version();
  if (here >> 48 < TORCH_ABI_VERSION >> 48) {
    throw Error("WIR2163", "the library needs PyTorch " + release(TORCH_ABI_VERSION) +
                               " or later, and this is " + release(here),
                "load it with the release that it was made with, or make it with this one");
  }
  const char* problem = wir_cpu_problem != nullptr ? wir_cpu_problem() : nullptr;
  if (problem != nullptr) throw Error("WIR2163", problem);
  if (program.num_ops != 0 && wir_check_ops != nullptr) wir_check_ops(program);
  if (program.folding != nullptr) check_program(*program.folding->program);
}

void check_accelerator(const ProgramInfo& program, const std::string& given) {
  const std::string made_for =
      std::string(program.device) + ":" + std::to_string(program.number());
  if (given == program.device || given == made_for) return;
  throw Error("WIR2163", "the program was made for '" + made_for + "', not for '" + given + "'");
}

// Null stands for the device that the program was made for, or for the current one of its type.
void check_device(const ProgramInfo& program, const char* device) {
  const char* number = device == nullptr ? nullptr : std::strchr(device, ':');
  if (program.here != nullptr && number != nullptr) program.here->bind(std::atoi(number + 1));
  const bool on_host = program.number() < 0;
  if (device == nullptr) return;
  if (!on_host) return check_accelerator(program, device);
  const bool on_cpu = std::strncmp(device, "cpu", 3) == 0;
  bool wanted = true;
  for (std::size_t i = 0; i < program.num_inputs; ++i) {
    const InputSpec& input = program.inputs[i];
    wanted = wanted && (input.kind != Kind::kTensor || input.tensor.device_type == device::cpu);
  }
  if (on_cpu || !wanted) return;
  throw Error("WIR2163", std::string("the program was made for the CPU, not for '") + device + "'");
}

void check_count(const char* what, std::size_t expected, std::size_t got,
                 const char* remark = "") {
  if (expected == got) return;
  throw Error("WIR2152", std::string("the program ") + what + " " + std::to_string(expected) +
                             (std::strcmp(what, "takes") == 0 ? " inputs" : " results") +
                             ", not " + std::to_string(got) + remark);
}

// PyTorch's loaders pass on tensors and drop everything else.
const char* remark_on_numbers(const ProgramInfo& program) {
  for (std::size_t i = 0; i < program.num_inputs; ++i) {
    const Kind kind = program.inputs[i].kind;
    if (kind == Kind::kInteger || kind == Kind::kReal || kind == Kind::kBool) {
      return "; a number is passed as a tensor of one element, 3 as torch.tensor(3)";
    }
  }
  return "";
}

// Returns a tuple of `count` leaves as a pytree spec in PyTorch's JSON format.
std::string tuple_of_leaves(std::size_t count) {
  std::string leaves;
  for (std::size_t i = 0; i < count; ++i) {
    leaves += i == 0 ? "" : ", ";
    leaves += R"({"type": null, "context": null, "children_spec": []})";
  }
  return R"({"type": "builtins.tuple", "context": "null", "children_spec": [)" + leaves + "]}";
}

std::string spec_of_inputs(const ProgramInfo& program) {
  if (*program.in_spec != '\0') return program.in_spec;
  // Positional arguments and no keyword arguments.
  return R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
         tuple_of_leaves(program.num_given()) +
         R"(, {"type": "builtins.dict", "context": "[]", "children_spec": []}]}])";
}

std::string spec_of_results(const ProgramInfo& program) {
  if (*program.out_spec != '\0') return program.out_spec;
  return "[1, " + tuple_of_leaves(program.num_outputs) + "]";
}

// Whether only the tensors were given, and the program knows all other inputs itself.
bool are_tensors_alone(const ProgramInfo& program, std::size_t given) {
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < program.num_given(); ++i) {
    const InputSpec& input = program.inputs[i];
    if (input.kind == Kind::kTensor) {
      ++tensors;
    } else if (input.kind != Kind::kNone && !input.is_fixed) {
      return false;
    }
  }
  return given == tensors;
}

// The handles of a call's inputs. Deleted at its end, except those that the program has released.
class Owned {
 public:
  // `handles` may be those of the tensors only; other inputs are null then.
  Owned(const ProgramInfo& program, AtenTensorHandle* handles, std::size_t count)
      : handles_(count < program.num_inputs ? program.num_inputs : count) {
    const bool alone = count != program.num_given() && are_tensors_alone(program, count);
    accepted_ = alone || count == program.num_given();
    for (std::size_t i = 0, next = 0; next < count; ++i) {
      if (alone && program.inputs[i].kind != Kind::kTensor) continue;
      handles_[i] = std::exchange(handles[next++], nullptr);
    }
  }
  ~Owned() {
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i] != nullptr) aoti_torch_delete_tensor_object(handles_[i]);
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  AtenTensorHandle* data() { return handles_.data(); }
  bool accepted() const { return accepted_; }

 private:
  SmallArray<AtenTensorHandle> handles_;
  bool accepted_;
};

}  // namespace

std::vector<NewValue> values_of(AOTInductorConstantMapHandle map) {
  if (map == nullptr) throw Error("WIR2163", "there is no map of constants");
  std::vector<NewValue> values;
  for (const auto& [name, tensor] : *reinterpret_cast<const ConstantMap*>(map)) {
    values.push_back({name.c_str(), tensor});
  }
  return values;
}

std::vector<NewValue> values_of(const AOTInductorConstantMapEntry* pairs, std::size_t count) {
  if (pairs == nullptr && count != 0) throw Error("WIR2163", "there are no pairs of constants");
  std::vector<NewValue> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back({pairs[i].name, pairs[i].handle});
  return values;
}

Container::Container(const ProgramInfo& program, std::size_t runners, const char* device,
                     const char* directory, const std::vector<NewValue>* external)
    : program_(program), in_spec_(spec_of_inputs(program)), out_spec_(spec_of_results(program)) {
  check_program(program);
  check_device(program, device);
  if (runners == 0) throw Error("WIR2163", "there must be at least one runner, not 0");
  if (program.num_probes != 0) read_probe_environment(program);
  const Given given = external == nullptr ? Given() : external_values(program, *external);
  const bool awaits = external == nullptr && program.num_objects == 0 && Blob::is_absent(program);
  const bool needs_bytes = external == nullptr || program.num_objects != 0;
  if (!awaits && (needs_bytes || !covers_all(program, given))) {
    blob_ = Blob::open(program, directory);
  }
  has_read_bytes_ = blob_ != nullptr;
  const OnDevice on_device(program.here == nullptr ? -1 : program.number());
  outside_inference_mode([&] {
    active_ = awaits ? awaited_constants(program_) : first_constants(program_, given, blob_);
    if (program_.num_objects != 0) objects_.reset(wir_make_objects(program_, *blob_));
  });
  if (program.folding != nullptr) wait_for_devices(program);
  if (program.graphs != nullptr && wir_make_graphs != nullptr) {
    graphs_.reset(wir_make_graphs(program));
  }
  runners_.resize(runners);
  idle_.resize(runners);
  std::iota(idle_.begin(), idle_.end(), 0);
  Runner& next = runners_.back();
  next.constants = active_;
  next.stream = current_stream();
  if (!awaits) prepare(next);  // so that errors surface here
}

Container::~Container() {
  for (Runner& runner : runners_) drop(runner);
  if (program_.release_shared != nullptr) program_.release_shared();
}

void Container::drop_state(Runner& runner) {
  if (runner.state != nullptr) program_.destroy_state(std::exchange(runner.state, nullptr));
}

void Container::drop(Runner& runner) {
  runner.graphs.reset();
  drop_state(runner);
  if (runner.constants != nullptr && runner.constants->superseded) wait_for_devices(program_);
  runner.constants.reset();  // after the graphs and the state, which hold views of them
}

GpuStream Container::current_stream() const {
  return program_.current_stream == nullptr ? GpuStream{} : program_.current_stream(program_.number());
}

void Container::set_stream_affinity(bool on) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() != runners_.size()) {
    throw Error("WIR2163", "calls are running", "set the affinity of streams before or after them");
  }
  if (on && program_.number() < 0) {
    throw Error("WIR2163", "the program runs on the CPU, where there are no streams");
  }
  if (on) check_streams();
  owners_.assign(on ? runners_.size() : 0, nullptr);
}

std::int64_t Container::runner_of(void* stream) {
  const std::lock_guard lock(mutex_);
  if (owners_.empty()) return kNoAffinity;
  const auto owner = std::find(owners_.begin(), owners_.end(), stream);
  return stream == nullptr || owner == owners_.end() ? kNoRunner : owner - owners_.begin();
}

// Returns the position in idle_ of the runner that a call takes; end() if the call has to wait.
std::vector<std::size_t>::iterator Container::choice(void* asked, const GpuStream& stream) {
  const auto owner = std::find(owners_.begin(), owners_.end(), asked);
  if (asked != nullptr && owner != owners_.end()) {
    return std::find(idle_.begin(), idle_.end(), owner - owners_.begin());
  }
  const auto suits = [&](std::size_t each) {
    return owners_.empty() ? runners_[each].serves(stream) : owners_[each] == nullptr;
  };
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(), suits);
  if (found != idle_.rend()) return found.base() - 1;
  return idle_.empty() ? idle_.end() : idle_.end() - 1;
}

// Returns the index of the runner. `asked` is the stream that the caller passed, or null.
std::size_t Container::take(void* asked, Runner& runner) {
  const GpuStream stream = current_stream();
  Runner stale;
  std::size_t number = 0;
  {
    std::unique_lock lock(mutex_);
    auto chosen = idle_.end();
    returned_.wait(lock, [&] { return (chosen = choice(asked, stream)) != idle_.end(); });
    number = *chosen;
    idle_.erase(chosen);
    if (asked != nullptr && !owners_.empty()) owners_[number] = asked;
    std::swap(runner, runners_[number]);
    if (!runner.serves(stream)) {
      std::swap(runner, stale);
      runner.graphs = std::move(stale.graphs);
    }
    if (runner.state == nullptr) {
      runner.constants = active_;
      runner.releases = releases_;
      runner.stream = stream;
    }
  }
  drop(stale);
  return number;
}

void Container::give_back(std::size_t number, Runner runner, bool failed) {
  Runner stale;
  bool any_will_do = true;
  {
    const std::lock_guard lock(mutex_);
    const bool is_current = runner.constants == active_ && runner.releases == releases_;
    if (!is_current || runner.stream.is_captured) std::swap(runner, stale);
    if (is_current && stale.graphs != nullptr) {
      runner.graphs = std::move(stale.graphs);
      runner.constants = stale.constants;
    }
    runners_[number] = std::move(runner);
    idle_.push_back(number);  // cannot allocate: it was there before
    any_will_do = owners_.empty();
    if (failed && !any_will_do) owners_[number] = nullptr;
  }
  any_will_do ? returned_.notify_one() : returned_.notify_all();
  drop(stale);
}

void Container::prepare(Runner& runner) {
  ensure_state(program_, runner.state, runner.constants->handles());
}

// Holds a runner for the duration of a call. If the call fails, the runner's state is dropped: it
// may be inconsistent.
class Container::Turn {
 public:
  Turn(Container& container, void* stream)
      : container_(container), number_(container.take(stream, runner_)) {}
  ~Turn() {
    if (!done_) container_.drop_state(runner_);
    container_.give_back(number_, std::move(runner_), !done_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  void run(Call& call, const Slot* inputs, Slot* outputs) {
    container_.run(runner_, call, inputs, outputs);
    done_ = true;
  }

 private:
  Container& container_;
  Runner runner_;
  std::size_t number_;
  bool done_ = false;
};

bool Container::checks_inputs() const {
  signed char told = checks_.load(std::memory_order_relaxed);
  if (told == kUnset) told = default_checks_.load(std::memory_order_relaxed);
  if (told != kUnset) return told != 0;
  const char* named = std::getenv("WRAPPER_IR_CHECK_INPUTS");
  return named == nullptr || std::strcmp(named, "0") != 0;
}

void Container::run(AtenTensorHandle* inputs, std::size_t num_inputs, AtenTensorHandle* outputs,
                    std::size_t num_outputs, AOTIProxyExecutorHandle proxy_executor,
                    void* stream) {
  Owned owned(program_, inputs, num_inputs);
  for (std::size_t i = 0; i < num_outputs; ++i) outputs[i] = nullptr;
  if (!owned.accepted()) {
    check_count("takes", program_.num_given(), num_inputs, remark_on_numbers(program_));
  }
  check_count("returns", program_.num_outputs, num_outputs);

  Call call;
  call.check_inputs = checks_inputs();
  call.proxy_executor = proxy_executor;
  call.owned = owned.data();
  check_inputs(program_, owned.data(), call.check_inputs);
  SmallArray<Slot> in(program_.num_inputs);
  unpack_inputs(program_, owned.data(), in.data());
  for (std::size_t i = 0; i < program_.num_objects; ++i) {
    in[program_.num_given() + i].object = objects_->value(i);
  }

  SmallArray<Slot> out(num_outputs);
  const WithoutGil without_gil;
  const OnStream on_stream(program_.number(), stream);
  Turn turn(*this, stream);
  turn.run(call, in.data(), out.data());
  hand_over(out.data(), outputs);
}

void Container::run(Runner& runner, Call& call, const Slot* inputs, Slot* outputs) {
  if (!runner.constants->awaited.empty()) [[unlikely]] check_given(program_, *runner.constants);
  if (graphs_ != nullptr && runner.graphs == nullptr) runner.graphs = graphs_->of_runner();
  if (graphs_ != nullptr && runner.graphs == nullptr) graphs_->ran();
  if (runner.graphs == nullptr) prepare(runner);
  try {
    if (runner.graphs != nullptr) {
      return runner.graphs->run(
          {call, inputs, outputs, runner.constants->handles(), runner.state});
    }
    const NoGrad no_grad;
    const Probing probing(program_);
    call.probes = probing.sink();
    program_.run(runner.state, call, inputs, outputs);
  } catch (...) {
    rethrow_with_line(program_, call, inputs);
  }
}

// Turns all results into handles, or deletes all of them on failure. Results whose memory the
// program may use again are copied: the caller may write to them, and later calls may, too.
void Container::hand_over(Slot* results, AtenTensorHandle* outputs) {
  const NoGrad no_grad;
  std::size_t done = 0;
  try {
    for (; done < program_.num_outputs; ++done) {
      outputs[done] = packed(program_.outputs[done], results[done]);
      if (!program_.outputs[done].lasts || outputs[done] == nullptr) continue;
      Tensor own = separate(outputs[done]);
      aoti_torch_delete_tensor_object(std::exchange(outputs[done], own.release()));
    }
  } catch (...) {
    for (std::size_t i = 0; i < program_.num_outputs; ++i) {
      if (i >= done && program_.outputs[i].kind == Kind::kTensor) outputs[i] = results[i].tensor;
      if (outputs[i] != nullptr) {
        aoti_torch_delete_tensor_object(std::exchange(outputs[i], nullptr));
      }
    }
    throw;
  }
  if (blob_ == nullptr || blob_->size() == 0) return;
  for (std::size_t i = 0; i < program_.num_outputs; ++i) {
    void* address = nullptr;
    if (outputs[i] != nullptr && aoti_torch_get_data_ptr(outputs[i], &address) == 0 &&
        blob_->holds(address)) {
      blob_->pin();  // a result views a constant that an op returned unasked
    }
  }
}

void Container::update(const std::vector<NewValue>& values, const UpdateOptions& options) {
  const std::lock_guard lock(updating_);
  const std::shared_ptr<const Constants> active = constants(false);
  std::shared_ptr<const Constants> base = options.inactive ? constants(true) : active;
  if (base == nullptr) base = active;
  publish(updated_constants(program_, *base, *active, values, options), options.inactive);
}

void Container::update_from_bytes(const std::uint8_t* bytes) {
  if (bytes == nullptr) throw Error("WIR2163", "there are no bytes of constants");
  const std::lock_guard lock(updating_);
  std::shared_ptr<const Constants> made;
  outside_inference_mode([&] { made = constants_from(program_, bytes); });
  publish(std::move(made), false);
  has_read_bytes_ = true;
}

void Container::fold(bool inactive, void* stream) {
  if (program_.folding == nullptr) return;
  const std::lock_guard lock(updating_);
  const OnStream on_stream(program_.number(), stream);
  const std::shared_ptr<const Constants> base = constants(inactive);
  if (base == nullptr) {
    throw Error("WIR2163", "there are no inactive constants to fold",
                "update the inactive ones first");
  }
  publish(refolded_constants(program_, *base), inactive);
}

void Container::publish(std::shared_ptr<const Constants> made, bool inactive) {
  wait_for_devices(program_);  // until the new values are in place
  std::vector<Runner> stale;
  {
    const std::lock_guard lock(mutex_);
    (inactive ? inactive_ : active_).swap(made);
    if (made != nullptr) made->superseded = true;
    if (!inactive) stale = take_stale();
  }
  for (Runner& runner : stale) drop(runner);
  if (made != nullptr) wait_for_devices(program_);  // until nothing reads the old ones
}

// Takes what idle runners hold for replaced constants. Busy runners drop theirs in give_back().
std::vector<Container::Runner> Container::take_stale() {
  std::vector<Runner> stale;
  for (Runner& runner : runners_) {
    if (runner.constants == nullptr || runner.constants == active_) continue;
    stale.emplace_back();
    std::swap(stale.back(), runner);
  }
  return stale;
}

void Container::swap() {
  std::vector<Runner> stale;
  {
    const std::lock_guard update_lock(updating_);
    const std::lock_guard lock(mutex_);
    if (inactive_ == nullptr) {
      throw Error("WIR2163", "there are no inactive constants to swap in",
                  "update the inactive ones first");
    }
    active_->superseded = true;
    active_.swap(inactive_);
    stale = take_stale();
  }
  for (Runner& runner : stale) drop(runner);
}

void Container::free_inactive() {
  std::shared_ptr<const Constants> freed;
  const std::lock_guard update_lock(updating_);
  {
    const std::lock_guard lock(mutex_);
    freed.swap(inactive_);
  }
  if (freed != nullptr) wait_for_devices(program_);
}

std::size_t Container::release() {
  std::size_t bytes = program_.release_shared == nullptr ? 0 : program_.release_shared();
  if (program_.kept_bytes == nullptr && graphs_ == nullptr) return bytes;
  std::vector<Runner> kept;
  {
    const std::lock_guard lock(mutex_);
    ++releases_;
    for (Runner& runner : runners_) {
      if (runner.state == nullptr && runner.graphs == nullptr) continue;
      kept.emplace_back();
      std::swap(kept.back(), runner);
    }
  }
  for (Runner& runner : kept) {
    if (runner.graphs != nullptr) bytes += runner.graphs->kept_bytes();
    if (runner.state != nullptr && program_.kept_bytes != nullptr) {
      bytes += program_.kept_bytes(runner.state);
    }
    drop(runner);
  }
  return bytes;
}

std::shared_ptr<const Constants> Container::constants(bool inactive) {
  const std::lock_guard lock(mutex_);
  return inactive ? inactive_ : active_;
}

std::shared_ptr<const Constants> Container::lasting_constants(bool inactive) {
  std::shared_ptr<const Constants> found = constants(inactive);
  if (found != nullptr && found->blob != nullptr) found->blob->pin();
  return found;
}

const std::vector<AOTInductorConstantMapEntry>& Container::entries(bool inactive) {
  const std::lock_guard lock(updating_);
  entries_.clear();
  const std::shared_ptr<const Constants> found = lasting_constants(inactive);
  for (std::size_t i = 0; found != nullptr && i < program_.num_constants; ++i) {
    const ConstantSpec& spec = program_.constants[i];
    if (!spec.derived) entries_.push_back({spec.qualified_name, (*found)[i]});
  }
  return entries_;
}

}  // namespace wir::runtime
