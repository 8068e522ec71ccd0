// How callers get the results of a call that was replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <wir/program.h>
#include <wir/tensor.h>

#include "graph_recorder.h"

namespace wir::runtime {

// Types, sizes and strides of one tensor.
struct TensorLayout {
  std::int32_t dtype = 0;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;

  TensorLayout() = default;
  explicit TensorLayout(AtenTensorHandle tensor);

  std::int64_t rank() const { return static_cast<std::int64_t>(size.size()); }
  std::int64_t item_size() const;
  bool has_elements() const;
  std::int64_t count() const;   // of its elements
  std::int64_t extent() const;  // bytes from the first element to the last
  bool is_dense() const;        // its elements fill that, each in a place of its own
};

// A tensor's data, as bytes.
std::uint8_t* bytes_of(AtenTensorHandle tensor);

// The results of replays of one captured call. A replay writes them to where that call did; what a
// caller gets must stay as it is when the next one runs. So it is copied, once for each storage:
// results that share memory go on to share it. What lies in an input or in a constant is a view.
class GraphResults {
 public:
  // Takes the handles in `captured`, in any case. `inputs` are those that were captured. Throws
  // std::runtime_error where a result cannot be handed out.
  GraphResults(const ProgramInfo& program, Slot* captured, const Slot* inputs,
               const AtenTensorHandle* constants, const Recorder& recorder);

  // `inputs` are those of the call.
  void give(const Slot* inputs, Slot* outputs, Recorder& recorder) const;

 private:
  enum class Way { kSame, kNew, kInput, kCopy, kShared };
  struct Result {
    Way way;
    Slot value = {};         // of kSame: a number, or no tensor
    std::size_t source = 0;  // number of an input or of a copy
    TensorLayout layout = {};
    std::int64_t offset = 0;  // in bytes, from the first element of the source
    bool is_whole = false;    // a copy as it was made
  };
  struct Copy {
    TensorLayout layout;
    const std::uint8_t* begin;
    std::uintptr_t storage;
  };

  Result plan(std::size_t number, AtenTensorHandle result, const Slot* inputs,
              const AtenTensorHandle* constants);
  Result copied(AtenTensorHandle result, TensorLayout layout);
  Tensor made(const Result& result, const Slot* inputs, std::vector<Tensor>& copies,
              std::size_t number) const;

  const ProgramInfo& program_;
  std::int32_t device_type_;
  std::int32_t device_index_;
  std::vector<Tensor> captured_;
  std::vector<Result> results_;
  std::vector<Copy> copies_;
};

}  // namespace wir::runtime
