// Hands the results of replayed calls to their callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <wir/program.h>
#include <wir/tensor.h>

#include "graph_recorder.h"

namespace wir::runtime {

// The dtype, sizes and strides of a tensor.
struct TensorLayout {
  std::int32_t dtype = 0;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;

  TensorLayout() = default;
  explicit TensorLayout(AtenTensorHandle tensor);

  std::int64_t rank() const { return static_cast<std::int64_t>(size.size()); }
  std::int64_t item_size() const;
  bool has_elements() const;
  std::int64_t count() const;   // number of elements
  std::int64_t extent() const;  // bytes that its elements span
  bool is_dense() const;        // its elements fill the extent and do not overlap
};

// A tensor's data, as bytes.
std::uint8_t* bytes_of(AtenTensorHandle tensor);

// The results of replays of one captured call. Every replay writes them to the same addresses, but
// the next replay must not change what a caller got. So results are copied, once per storage: those
// that share memory still do. Results that lie in an input or a constant become views of it.
class GraphResults {
 public:
  // Takes ownership of the handles in `captured`, even if it throws. `inputs` are those of the
  // capture. Throws std::runtime_error if a result cannot be handed out.
  GraphResults(const ProgramInfo& program, Slot* captured, const Slot* inputs,
               const AtenTensorHandle* constants, const Recorder& recorder);

  // `inputs` are those of the current call.
  void give(const Slot* inputs, Slot* outputs, Recorder& recorder) const;

 private:
  enum class Way { kSame, kNew, kInput, kCopy, kShared };
  struct Result {
    Way way;
    Slot value = {};         // for kSame: a number, or no tensor
    std::size_t source = 0;  // index of an input or of a copy
    TensorLayout layout = {};
    std::int64_t offset = 0;  // in bytes, from the first element of the source
    bool is_whole = false;    // the result is the whole copy
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
