#include "constants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <wir/error.h>
#include <wir/layout.h>

#include "failure.h"
#include "modes.h"
#include "storage.h"

namespace wir::runtime {
namespace {

// torch::aot_inductor::ConstantType
constexpr std::int32_t kBuffer = 2;
constexpr std::int32_t kTensorConstant = 3;

// The alignment of torch's CPU allocator. Others change the last bits of some matrix products.
constexpr std::uintptr_t kAlignment = 64;

bool may_be_missing(const ConstantSpec& spec) {
  return spec.type == kBuffer || spec.type == kTensorConstant || spec.data_bytes == 0;
}

std::vector<bool> written_groups(const ProgramInfo& program) {
  std::vector<bool> written(program.num_constants);
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (program.constants[i].written) written[root_of(program, i)] = true;
  }
  return written;
}

void check_table(const ProgramInfo& program) {
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    const ConstantSpec& spec = program.constants[i];
    const ConstantSpec& root = program.constants[root_of(program, i)];
    if (spec.derived) continue;
    const bool inside = root.data_offset <= program.constants_size &&
                        root.data_bytes <= program.constants_size - root.data_offset &&
                        bytes_spanned(spec) <= root.data_bytes;
    if (!inside) {
      throw Error("WIR2154", std::string("constant '") + spec.qualified_name +
                                 "' reaches beyond the bytes of the constants");
    }
  }
}

// Creates the packed constants of a set from its other constants.
void pack(const ProgramInfo& program, Constants& made) {
  if (program.pack == nullptr) return;
  const NoGrad no_grad;
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (!program.constants[i].derived || is_folded(program, i)) continue;
    Tensor packed;
    program.pack(i, made.handles(), packed);
    made.put(i, std::move(packed));
  }
}

// A state of the folding program, for one run.
class FoldingState {
 public:
  FoldingState(const ProgramInfo& program, const AtenTensorHandle* constants)
      : program_(program), state_(program.create_state(constants)) {}
  ~FoldingState() { program_.destroy_state(state_); }
  FoldingState(const FoldingState&) = delete;
  FoldingState& operator=(const FoldingState&) = delete;

  void run(Call& call, Slot* outputs) { program_.run(state_, call, nullptr, outputs); }

 private:
  const ProgramInfo& program_;
  void* state_;
};

// Computes the folded constants of a set from its other constants, unless it has them, or some of
// the others still await their values.
void fold(const ProgramInfo& program, Constants& made) {
  if (program.folding == nullptr) return;
  const FoldingInfo& folding = *program.folding;
  const ProgramInfo& of = *folding.program;
  if (made.has(static_cast<std::size_t>(folding.made[0]))) return;  // they still hold
  std::vector<AtenTensorHandle> taken(of.num_constants);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const auto index = static_cast<std::size_t>(folding.taken[i]);
    if (!made.awaited.empty() && made.awaited[root_of(program, index)]) return;
    taken[i] = made[index];
  }
  const NoGrad no_grad;
  std::vector<Slot> results(of.num_outputs);
  Call call;
  try {
    FoldingState(of, taken.data()).run(call, results.data());
  } catch (...) {
    rethrow_with_line(of, call, nullptr);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    made.put(static_cast<std::size_t>(folding.made[i]), Tensor(results[i].tensor));
  }
}

// Creates the constants of a set that are made from others.
void derive(const ProgramInfo& program, Constants& made) {
  pack(program, made);
  fold(program, made);
}

// Creates the constants that a set lacks. Each is a view of the storage that `storage_of` makes for
// its group of tied constants.
template <typename StorageOf>
void fill(const ProgramInfo& program, Constants& made, StorageOf&& storage_of) {
  std::vector<Tensor> storages(program.num_constants);
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (program.constants[i].derived || made.has(i)) continue;
    const std::size_t root = root_of(program, i);
    if (storages[root] == nullptr) storages[root] = storage_of(program.constants[root], root);
    made.put(i, view_of(storages[root], program.constants[i]));
  }
  derive(program, made);
}

// Returns the caller's tensor that can serve as a constant: the one given for it, or for a constant
// with the same layout in the same storage. Null if there is none.
AtenTensorHandle shared_by(const ProgramInfo& program, const Given& given, std::size_t index) {
  if (given[index] != nullptr) return given[index];
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (given[i] != nullptr && root_of(program, i) == root_of(program, index) &&
        same_layout(program.constants[i], program.constants[index])) {
      return given[i];
    }
  }
  return nullptr;
}

void take_over(const ProgramInfo& program, const Given& given, Constants& made) {
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (AtenTensorHandle tensor = shared_by(program, given, i)) made.put(i, share(tensor));
  }
}

}  // namespace

bool is_folded(const ProgramInfo& program, std::size_t index) {
  if (program.folding == nullptr) return false;
  const std::int32_t* made = program.folding->made;
  const std::int32_t* end = made + program.folding->program->num_outputs;
  return std::find(made, end, static_cast<std::int32_t>(index)) != end;
}

void wait_for_devices(const ProgramInfo& program) {
  if (program.wait == nullptr) return;
  std::int32_t last = INT32_MIN;  // a repeated wait costs nothing
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    const TensorSpec& tensor = program.constants[i].tensor;
    const std::int32_t index = program.number(tensor);
    if (tensor.device_type == device::cpu || index == last) continue;
    program.wait(last = index);
  }
}

bool covers_all(const ProgramInfo& program, const Given& given) {
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (!program.constants[i].derived && shared_by(program, given, i) == nullptr) return false;
  }
  return true;
}

std::shared_ptr<Constants> first_constants(const ProgramInfo& program, const Given& given,
                                           const std::shared_ptr<Blob>& blob) {
  auto made = std::make_shared<Constants>(program.num_constants);
  if (!given.empty()) take_over(program, given, *made);
  if (blob != nullptr) check_table(program);
  const std::vector<bool> written = written_groups(program);
  fill(program, *made, [&](const ConstantSpec& root, std::size_t index) {
    std::uint8_t* bytes = blob->begin() + root.data_offset;
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes) % kAlignment == 0;
    if (written[index] || !aligned || root.data_bytes == 0 ||
        root.tensor.device_type != device::cpu) {
      return copied_storage(root, bytes);
    }
    made->blob = blob;
    return storage_at(bytes, root.data_bytes);
  });
  return made;
}

std::shared_ptr<Constants> awaited_constants(const ProgramInfo& program) {
  auto made = std::make_shared<Constants>(program.num_constants);
  made->awaited.resize(program.num_constants);
  fill(program, *made, [&](const ConstantSpec& root, std::size_t index) {
    made->awaited[index] = root.data_bytes != 0;
    return new_storage(root);
  });
  return made;
}

void check_given(const ProgramInfo& program, const Constants& constants) {
  std::string names;
  for (std::size_t i = 0; i < constants.awaited.size(); ++i) {
    if (!constants.awaited[i]) continue;
    names += (names.empty() ? "'" : ", '") + std::string(program.constants[i].qualified_name) + "'";
  }
  if (names.empty()) return;
  throw Error("WIR2162", "the library was made without values, and none were given for " + names,
              "give them by load_constants, such as the model's state_dict()");
}

std::shared_ptr<Constants> constants_from(const ProgramInfo& program, const std::uint8_t* bytes) {
  auto made = std::make_shared<Constants>(program.num_constants);
  fill(program, *made, [&](const ConstantSpec& root, std::size_t) {
    return copied_storage(root, bytes + root.data_offset);
  });
  return made;
}

namespace {

// A checked update: for each constant, the tensor given for it or null.
class Update {
 public:
  Update(const ProgramInfo& program, const std::vector<NewValue>& values,
         const UpdateOptions& options)
      : program_(program), options_(options), given_(program.num_constants), refused_(program.num_constants) {
    for (const NewValue& value : values) take(value);
    if (options.full) check_complete();
    if (options.user_managed) check_shareable();
    if (!problems_.empty()) {
      throw Error("WIR2162",
                  (options.first ? "these constants are not the program's"
                                 : "the constants cannot be updated") + problems_,
                  (options.first ? "" : "nothing was changed; ") + hint());
    }
  }

  const Given& given() const { return given_; }

 private:
  void take(const NewValue& value) {
    if (value.name == nullptr) return problem("a tensor was given without a name");
    const std::size_t index = find(value.name);
    if (index == program_.num_constants) {
      // A whole state_dict may be given, and the program needs a part of it.
      if (options_.first || is_unread(value.name)) return;
      return problem(std::string("there is no constant '") + value.name + "'");
    }
    const ConstantSpec& spec = program_.constants[index];
    if (given_[index] != nullptr && given_[index] != value.tensor) {
      return problem(std::string("constant '") + spec.qualified_name + "' was given twice");
    }
    if (spec.derived) {
      problem(std::string("constant '") + spec.qualified_name +
              "' is made from other constants; pass those");
    } else if (fits(spec, value.tensor)) {
      given_[index] = value.tensor;
    } else {
      refused_[index] = true;
    }
  }

  // A name in the program takes precedence over one in the model: loaders translate to the former.
  std::size_t find(const char* name) const {
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      if (std::strcmp(program_.constants[i].name, name) == 0) return i;
    }
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      if (std::strcmp(program_.constants[i].qualified_name, name) == 0) return i;
    }
    return program_.num_constants;
  }

  bool is_unread(const char* name) const {
    return std::any_of(program_.unread, program_.unread + program_.num_unread,
                       [&](const char* unread) { return std::strcmp(unread, name) == 0; });
  }

  bool fits(const ConstantSpec& spec, AtenTensorHandle tensor) {
    bool defined = false;
    if (tensor == nullptr || aoti_torch_is_defined(tensor, &defined) != 0 || !defined) {
      problem(std::string("constant '") + spec.qualified_name + "' was given no tensor");
      return false;
    }
    const Metadata found(tensor);
    TensorSpec expected = spec.tensor;
    if (options_.from_cpu && found.device_type == device::cpu) {
      expected.device_type = device::cpu;
    }
    // The values will be copied, so their strides do not matter.
    if (!options_.user_managed && found.rank == expected.rank && found.layout == 0) {
      expected.stride = found.stride;
    }
    const std::string difference = differences(found, expected);
    if (difference.empty()) return true;
    problem(std::string("constant '") + spec.qualified_name + "' has the wrong " + difference +
            ": expected " + described(spec.tensor) + ", got " + described(found));
    return false;
  }

  void check_complete() {
    std::vector<bool> covered(program_.num_constants);
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      // Values that were given but did not fit have been reported already.
      if (given_[i] != nullptr || refused_[i]) covered[root_of(program_, i)] = true;
    }
    std::string missing;
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      const ConstantSpec& spec = program_.constants[i];
      if (covered[root_of(program_, i)] || may_be_missing(spec)) continue;
      missing += (missing.empty() ? "'" : ", '") + std::string(spec.qualified_name) + "'";
    }
    if (missing.empty()) return;
    problem((options_.first ? "missing: " : "missing from a full update: ") + missing);
  }

  // Constants that share storage can use the caller's memory only if its tensors share storage,
  // too. Of equal tensors with the same layout, the first serves for all.
  void check_shareable() {
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      for (std::size_t other = 0; other < i; ++other) {
        if (root_of(program_, i) != root_of(program_, other) || !are_apart(i, other)) continue;
        if (are_equal(i, other)) {
          given_[i] = given_[other];
          continue;
        }
        problem(std::string("constants '") + program_.constants[other].qualified_name + "' and '" +
                program_.constants[i].qualified_name +
                "' share their memory in the program, but not here");
      }
    }
  }

  bool are_equal(std::size_t i, std::size_t other) const {
    const ConstantSpec& spec = program_.constants[i];
    return given_[i] != nullptr && given_[other] != nullptr &&
           same_layout(spec, program_.constants[other]) &&
           same_elements(spec, given_[i], given_[other]);
  }

  bool are_apart(std::size_t i, std::size_t other) const {
    if (given_[i] != nullptr && given_[other] != nullptr) return start(i) != start(other);
    if (given_[i] == nullptr && given_[other] == nullptr) return false;
    return shared_by(program_, given_, given_[i] == nullptr ? i : other) == nullptr;
  }

  // Start of the given tensor's storage, assuming the constant's storage offset in the program.
  std::uintptr_t start(std::size_t index) const {
    const ConstantSpec& spec = program_.constants[index];
    return reinterpret_cast<std::uintptr_t>(data(given_[index])) -
           spec.storage_offset * aoti_torch_dtype_element_size(spec.tensor.dtype);
  }

  std::string hint() const {
    if (problems_.find("there is no constant") != std::string::npos) {
      return "get_constant_fqns() lists the names of the program's constants: the model's tensors "
             "that it needs";
    }
    return "give tensors like those of the module the program was made from";
  }

  void problem(const std::string& text) { problems_ += (problems_.empty() ? ": " : "; ") + text; }

  const ProgramInfo& program_;
  const UpdateOptions& options_;
  Given given_;
  std::vector<bool> refused_;
  std::string problems_;
};

// Builds the new set, one storage at a time.
class Exchange {
 public:
  Exchange(const ProgramInfo& program, const Constants& base, const Constants& active,
           const Given& given, const UpdateOptions& options)
      : program_(program),
        base_(base),
        active_(active),
        given_(given),
        options_(options),
        made_(std::make_shared<Constants>(program.num_constants)) {}

  std::shared_ptr<Constants> make() {
    made_->blob = base_.blob != nullptr ? base_.blob : active_.blob;
    if (options_.user_managed) take_over(program_, given_, *made_);
    const std::vector<bool> written = written_groups(program_);
    for (std::size_t root = 0; root < program_.num_constants; ++root) {
      if (program_.constants[root].derived || made_->has(root)) continue;
      if (root_of(program_, root) == root) exchange(root, members_of(root), written[root]);
    }
    made_->awaited = base_.awaited;
    for (std::size_t i = 0; i < made_->awaited.size(); ++i) {
      if (given_[i] != nullptr) made_->awaited[root_of(program_, i)] = false;
    }
    if (folded_hold()) keep_folded();
    derive(program_, *made_);
    return made_;
  }

 private:
  using Members = std::vector<std::size_t>;

  // Whether the folded constants of the base are those of the new set: what they are made from was
  // not given anew, and is in the same memory.
  bool folded_hold() const {
    if (program_.folding == nullptr) return false;
    const FoldingInfo& folding = *program_.folding;
    if (!base_.has(static_cast<std::size_t>(folding.made[0]))) return false;
    for (std::size_t i = 0; i < folding.program->num_constants; ++i) {
      const auto index = static_cast<std::size_t>(folding.taken[i]);
      for (const std::size_t member : members_of(root_of(program_, index))) {
        if (given_[member] != nullptr) return false;
      }
      if (data((*made_)[index]) != data(base_[index])) return false;
    }
    return true;
  }

  void keep_folded() {
    const FoldingInfo& folding = *program_.folding;
    for (std::size_t i = 0; i < folding.program->num_outputs; ++i) {
      const auto index = static_cast<std::size_t>(folding.made[i]);
      made_->put(index, share(base_[index]));
    }
  }

  Members members_of(std::size_t root) const {
    Members found;
    for (std::size_t i = 0; i < program_.num_constants; ++i) {
      if (root_of(program_, i) == root) found.push_back(i);
    }
    return found;
  }

  void exchange(std::size_t root, const Members& members, bool written) {
    bool any = false;
    for (const std::size_t i : members) any = any || given_[i] != nullptr;
    if (any) return copy(root, members);
    const bool from_active = options_.inactive && may_be_missing(program_.constants[root]);
    const Constants& source = from_active ? active_ : base_;
    if (written && options_.inactive && &source == &active_) {
      copy_from(source, root, members);  // the set in use keeps writing to its own
    } else {
      for (const std::size_t i : members) made_->put(i, share(source[i]));
    }
  }

  void copy(std::size_t root, const Members& members) {
    const Tensor storage = new_storage(program_.constants[root]);
    for (const std::size_t i : members) {
      made_->put(i, view_of(storage, program_.constants[i]));
      if (given_[i] == nullptr && members.size() > 1) copy_elements(made_of(i), base_[i]);
    }
    for (const std::size_t i : members) {
      if (given_[i] != nullptr) copy_elements(made_of(i), given_[i]);
    }
    if (members.size() > 1) check_agreement(members);
  }

  void copy_from(const Constants& source, std::size_t root, const Members& members) {
    const Tensor storage = new_storage(program_.constants[root]);
    for (const std::size_t i : members) {
      made_->put(i, view_of(storage, program_.constants[i]));
      copy_elements(made_of(i), source[i]);
    }
  }

  AtenTensorHandle made_of(std::size_t index) const { return (*made_)[index]; }

  // Several constants that share memory may be given, but not with different values.
  void check_agreement(const Members& members) const {
    std::size_t last = members.front();
    for (const std::size_t i : members) {
      if (given_[i] != nullptr) last = i;
    }
    for (const std::size_t i : members) {
      if (given_[i] == nullptr || i == last) continue;
      if (same_elements(program_.constants[i], made_of(i), given_[i])) continue;
      throw Error("WIR2162",
                  std::string("the constants cannot be updated: '") +
                      program_.constants[i].qualified_name + "' and '" +
                      program_.constants[last].qualified_name +
                      "' share their memory in the program, but were given different values",
                  "nothing was changed; give one of them, or the same values for both");
    }
  }

  const ProgramInfo& program_;
  const Constants& base_;
  const Constants& active_;
  const Given& given_;
  const UpdateOptions& options_;
  std::shared_ptr<Constants> made_;
};

}  // namespace

Given external_values(const ProgramInfo& program, const std::vector<NewValue>& values) {
  const UpdateOptions options = {.full = true, .first = true, .user_managed = true};
  return Update(program, values, options).given();
}

std::shared_ptr<Constants> refolded_constants(const ProgramInfo& program,
                                              const Constants& base) {
  auto made = std::make_shared<Constants>(program.num_constants);
  made->blob = base.blob;
  made->awaited = base.awaited;
  for (std::size_t i = 0; i < program.num_constants; ++i) {
    if (base.has(i) && !is_folded(program, i)) made->put(i, share(base[i]));
  }
  outside_inference_mode([&] { fold(program, *made); });
  return made;
}

std::shared_ptr<Constants> updated_constants(const ProgramInfo& program, const Constants& base,
                                             const Constants& active,
                                             const std::vector<NewValue>& values,
                                             const UpdateOptions& options) {
  const Update update(program, values, options);
  std::shared_ptr<Constants> made;
  outside_inference_mode([&] {
    const NoGrad no_grad;
    made = Exchange(program, base, active, update.given(), options).make();
  });
  return made;
}

}  // namespace wir::runtime
