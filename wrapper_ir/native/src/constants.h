// A set of values for a program's constants, and functions that derive another set from it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <wir/program.h>
#include <wir/tensor.h>

#include "blob.h"

namespace wir::runtime {

// Immutable once built, except for constants that the program itself writes to. Shared by the calls
// that run with it, and freed with the last of them.
class Constants {
 public:
  explicit Constants(std::size_t count) : tensors_(count), handles_(count) {}

  const AtenTensorHandle* handles() const { return handles_.data(); }
  AtenTensorHandle operator[](std::size_t index) const { return handles_[index]; }
  bool has(std::size_t index) const { return handles_[index] != nullptr; }

  void put(std::size_t index, Tensor tensor) {
    tensors_[index] = std::move(tensor);
    handles_[index] = tensors_[index];
  }

  // By index of a group's root: whether that group of tied constants still awaits a value. Empty if
  // none does.
  std::vector<bool> awaited;

  // The bytes that tensors in `tensors_` view; null if all own their storage.
  std::shared_ptr<Blob> blob;

  // Whether this set has been replaced; work on a GPU may still be reading it.
  mutable std::atomic<bool> superseded{false};

 private:
  std::vector<Tensor> tensors_;
  std::vector<AtenTensorHandle> handles_;
};

// Waits until the GPUs that hold constants have finished all queued work. Streams do not wait for
// each other: new values must be in place before a run on any stream reads them, and old ones must
// stay until earlier runs have read them.
void wait_for_devices(const ProgramInfo& program);

// A new value for a constant.
struct NewValue {
  const char* name;  // in the program or in the model
  AtenTensorHandle tensor;
};

struct UpdateOptions {
  bool full = false;          // every parameter must be given
  bool first = false;         // there are no values yet
  bool user_managed = false;  // the caller's memory is used, not copied
  bool from_cpu = false;      // CPU tensors are accepted for constants on other devices
  bool inactive = false;      // updates the set not in use; copies what the program writes to
};

// For each constant, the tensor given for it or null; empty if nothing was given.
using Given = std::vector<AtenTensorHandle>;

// Returns a container's initial values, in the caller's memory. All parameters must be given;
// unknown names are ignored. Throws an Error that lists every problem.
Given external_values(const ProgramInfo& program, const std::vector<NewValue>& values);

// Whether `given` covers every constant, so the program's own bytes are not needed.
bool covers_all(const ProgramInfo& program, const Given& given);

// Returns a program's initial values: the given ones, not copied, and its own for the rest. Its own
// are copied if it writes to them or if they are misaligned or not on the CPU.
std::shared_ptr<Constants> first_constants(const ProgramInfo& program, const Given& given,
                                           const std::shared_ptr<Blob>& blob);

// Returns the initial set of a library built without values: memory still to be filled.
std::shared_ptr<Constants> awaited_constants(const ProgramInfo& program);

// Throws an Error that names the constants that still await a value.
void check_given(const ProgramInfo& program, const Constants& constants);

// Returns a set copied from `bytes`, which are laid out like the program's own.
std::shared_ptr<Constants> constants_from(const ProgramInfo& program, const std::uint8_t* bytes);

// Returns `base` with some values replaced. Constants that share storage with a given one change
// with it. Throws an Error that lists every problem, and then changes nothing.
//
// `active` is the set in use. Constants that were not given and are not parameters come from it.
std::shared_ptr<Constants> updated_constants(const ProgramInfo& program, const Constants& base,
                                             const Constants& active,
                                             const std::vector<NewValue>& values,
                                             const UpdateOptions& options);

// Returns `base` with its folded constants computed again, from what their sources hold now.
std::shared_ptr<Constants> refolded_constants(const ProgramInfo& program, const Constants& base);

// Whether a constant is computed by the folding program.
bool is_folded(const ProgramInfo& program, std::size_t index);

}  // namespace wir::runtime
