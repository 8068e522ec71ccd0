// One set of values of a program's constants, and how another is made from it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <wir/program.h>
#include <wir/tensor.h>

#include "blob.h"

namespace wir::runtime {

// Immutable once it is made (what the program itself writes to excepted). Calls that run with it
// share it; it goes with the last of them.
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

  // Whether the constants of this number and those tied to it still await a value; empty where none
  // does.
  std::vector<bool> awaited;

  // What the views in `tensors_` show; null when all have storage of their own.
  std::shared_ptr<Blob> blob;

  // Whether other values have taken its place, while work on a GPU may still read these.
  mutable std::atomic<bool> superseded{false};

 private:
  std::vector<Tensor> tensors_;
  std::vector<AtenTensorHandle> handles_;
};

// Waits until the GPUs that constants lie on have done all that was asked of them. Work on one
// stream does not wait for another: new values have to be there before a run on whatever stream
// reads them, and old ones must last until those before have read them.
void wait_for_devices(const ProgramInfo& program);

// A value that somebody wants a constant to have.
struct NewValue {
  const char* name;  // of the program or of the model
  AtenTensorHandle tensor;
};

struct UpdateOptions {
  bool full = false;          // every parameter must be given
  bool first = false;         // there are no values yet
  bool user_managed = false;  // the caller's memory is used, not copied
  bool from_cpu = false;      // tensors may be on the CPU where the constant is elsewhere
  bool inactive = false;      // for the set that is not in use: what the program writes to is copied
};

// For each constant the tensor given for it, or null; or empty.
using Given = std::vector<AtenTensorHandle>;

// What a container is to begin with, in memory of the caller: all parameters; other names are left
// alone. Throws an Error that lists all that is wrong.
Given external_values(const ProgramInfo& program, const std::vector<NewValue>& values);

// Whether nothing is left that only the program's own bytes have.
bool covers_all(const ProgramInfo& program, const Given& given);

// The values a program begins with: those given, not copied, and for others those it was made with.
// Of the latter, what it writes to and what is not aligned is copied.
std::shared_ptr<Constants> first_constants(const ProgramInfo& program, const Given& given,
                                           const std::shared_ptr<Blob>& blob);

// What a library that was made without values begins with: memory for them.
std::shared_ptr<Constants> awaited_constants(const ProgramInfo& program);

// Throws an Error that names the constants that still await a value.
void check_given(const ProgramInfo& program, const Constants& constants);

// The same from other bytes, laid out like those of the program; they are copied.
std::shared_ptr<Constants> constants_from(const ProgramInfo& program, const std::uint8_t* bytes);

// Returns `base` with some values exchanged. Constants that share their storage with one that is
// given follow. Throws an Error that lists all that is wrong, and then nothing has changed.
//
// `active` is the set in use: what was not given and is no parameter is taken from there.
std::shared_ptr<Constants> updated_constants(const ProgramInfo& program, const Constants& base,
                                             const Constants& active,
                                             const std::vector<NewValue>& values,
                                             const UpdateOptions& options);

}  // namespace wir::runtime
