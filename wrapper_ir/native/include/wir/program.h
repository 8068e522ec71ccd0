// What a generated program and the runtime part know of each other, and nothing else.
//
// A library is linked from two halves. The generated half holds data and one `ProgramInfo` that
// points to all of it; it is small and compiles quickly. The runtime half (src/) is the same for
// every program: it is compiled once for a version of PyTorch and kept. It implements
// AOTInductor's C interface, owns the constants, checks what comes in and words every error.
//
// Both halves speak to PyTorch through its C shim alone, so neither includes a header of ATen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace wir {

class Queues;
class Tensor;

// Raised whenever anything below changes; the runtime refuses a program made for another one.
inline constexpr std::uint32_t kContract = 12;

// In a table of sizes or strides: known only when the program runs. The runtime skips it in its
// checks, the generated code checks what the program says of it.
inline constexpr std::int64_t kDynamic = INT64_MIN;

struct TensorSpec {
  std::int32_t dtype;         // number of a c10::ScalarType
  std::int32_t device_type;   // number of a c10::DeviceType; -1: any
  std::int32_t device_index;  // -1: any
  std::int32_t rank;
  const std::int64_t* size;    // `rank` numbers, in elements
  const std::int64_t* stride;  // likewise
};

// One value passed in or out. Which member counts is the kind of its specification.
union Slot {
  AtenTensorHandle tensor;  // null: None
  std::int64_t integer;     // also bool: 0 or 1
  double real;
  const void* object;  // a c10::IValue
};

enum class Kind : std::int32_t { kTensor, kInteger, kReal, kBool, kNone, kObject };

struct InputSpec {
  const char* name;
  Kind kind;
  bool donated;       // the program may take over the storage
  bool written;       // the program writes to it
  TensorSpec tensor;  // of a kTensor
  // A number that the program was made for and takes no other. PyTorch's Python loader passes only
  // tensors on, so such numbers may be left out, and so may kNone; of that kind, whether it has to
  // be None, or anything will do.
  bool is_fixed = false;
  Slot fixed = {};
  const char* class_name = nullptr;  // of a kObject: "ns::Queue"
  bool settled = false;  // made by another piece: it stays where it is once that one is captured
};

struct OutputSpec {
  const char* name;
  Kind kind;
  TensorSpec tensor = {};  // of a kTensor, where callers may give memory for it
  // Of the tensor that a number is handed over as, where its kind does not say it: a
  // c10::ScalarType.
  std::int32_t dtype = -1;
  bool shared = false;  // of a piece, and no caller's: it may stay in the graph's memory
};

struct ConstantSpec {
  const char* name;            // in the program; an identifier
  const char* qualified_name;  // in the model, "encoder.0.weight"; what users update it by
  std::int32_t type;           // torch::aot_inductor::ConstantType
  bool written;                // calls may write to it (batch-norm statistics)
  std::int32_t tied_to;        // index of the constant whose storage it shares, or -1
  TensorSpec tensor;
  std::int64_t storage_offset;  // in elements, from the start of its bytes
  std::uint64_t data_offset;    // of its bytes in the blob of constants
  std::uint64_t data_bytes;
  // Packed by a library's op, of others, for each set of constants; it has no bytes of its own.
  bool packed = false;
};

// An object of a custom class that belongs to the program. To the generated code it is an input, one
// of the last; whoever runs the program hands it on.
struct ObjectSpec {
  const char* name;            // in the program; an identifier
  const char* qualified_name;  // in the model, "encoder.scale"
  const char* class_name;      // "ns::Queue"
};

// The bytes that an object is made from, in the blob of constants behind those of tensors.
struct ObjectPlace {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// Where a line of the program comes from; errors are worded with it.
struct LineInfo {
  const char* path;    // "body[3].then[2]"
  const char* what;    // the line in short: "aten::addmm.out(...)", "kernel cpp_fused_relu_0"
  const char* source;  // the model's "file.py:12 in forward", or empty
};

enum class ProbeLevel : std::int32_t {
  kSave,
  kPrint,
  kNames,
  kCheck,
  kStats,
  kCompare,
  kHook,
  kCheckNan
};

// One value that a probe shows. A complex number takes two slots.
struct ProbeOperand {
  enum class Kind : std::int32_t { kTensor, kInteger, kReal, kBool, kComplex };
  const char* name;
  Kind kind;
};

// What is known of a probe of the debug printer before the program runs.
struct ProbeInfo {
  const char* label;  // number and name of the call: "0003 cpp_fused_relu_0"
  bool after;         // on which side of the call it stands
  ProbeLevel level;
  const char* source;  // where in the model the call comes from, or empty
  std::size_t num_operands;
  const ProbeOperand* operands;  // tensors, then numbers
};

// Who is told what probes see.
struct ProbeSink {
  // Values are those of the probe's operands, borrowed. May throw.
  void (*receive)(const ProbeSink& sink, std::size_t probe, const Slot* values);

  // `probe` is an index into ProgramInfo::probes.
  void show(std::size_t probe, std::initializer_list<Slot> values) const {
    receive(*this, probe, values.begin());
  }
};

// cuBLAS, set up by PyTorch for the thread and its current stream.
struct Blas {
  void* handle = nullptr;    // null: products of matrices are left to ATen
  std::int32_t math = 0;     // how it computes in float32, a cublasMath_t
  std::int32_t gpu = 0;
};

// One call in progress. Lives on the caller's stack.
struct Call {
  std::uint32_t line = 0;     // index into ProgramInfo::lines; set before whatever may fail
  bool check_inputs = true;   // sizes, ranges and relations of inputs are to be checked
  AOTIProxyExecutorHandle proxy_executor = nullptr;
  // Null, or for each input its handle if the caller gave it away and null if not. What the program
  // has no more use for dies with `release`; the caller deletes the rest after the call.
  AtenTensorHandle* owned = nullptr;
  const ProbeSink* probes = nullptr;  // null: probes are off
  // Null, or for each output a tensor to have it in, or null; for programs that take such. They are
  // borrowed, have the fixed facts of the outputs, and share no memory with inputs or one another.
  const AtenTensorHandle* out = nullptr;
  void* stream = nullptr;  // of a program on a GPU: where its kernels go; it is looked up by `run`
  std::int32_t gpu = -1;   // the one whose stream that is; it is the current one
  Queues* queues = nullptr;  // of a program with streams of its own
  Blas blas = {};          // of a program that calls cuBLAS itself: as it was looked up last
};

// The stream that a thread's work on a GPU goes to.
struct GpuStream {
  void* stream = nullptr;
  bool is_captured = false;  // into a graph, to be run later
};

// The program is done with an input and with every view of it.
inline void release(Call& call, std::size_t input) {
  if (call.owned == nullptr || call.owned[input] == nullptr) return;
  aoti_torch_delete_tensor_object(call.owned[input]);
  call.owned[input] = nullptr;
}

// How calls are captured as CUDA graphs and replayed by the library itself.
struct GraphInfo {
  std::size_t limit;    // how many graphs a runner keeps, one for each set of sizes
  bool shares_results;  // callers get the graph's own memory, which the next call writes to
  bool is_random;       // calls draw random numbers, which PyTorch has but one source of
  bool has_branches;    // what is written to is to share no memory with other inputs
  std::size_t num_reasons;
  const char* const* reasons;  // why no call can be captured
};

// Everything about one program. All pointers are to static data.
struct ProgramInfo {
  std::uint32_t contract;  // kContract
  const char* name;

  std::size_t num_inputs;
  const InputSpec* inputs;
  std::size_t num_outputs;
  const OutputSpec* outputs;
  std::size_t num_constants;
  const ConstantSpec* constants;
  std::size_t num_lines;
  const LineInfo* lines;

  const char* in_spec;   // pytrees of the user's arguments and results, JSON; may be empty
  const char* out_spec;

  // The constants' bytes, in this library; null when they lie in a file beside it.
  const std::uint8_t* constants_begin;
  const std::uint8_t* constants_end;
  const char* constants_file;    // its name, without a directory; null when they are embedded
  std::uint64_t constants_size;  // of the tensors among them
  const char* constants_digest;  // of the whole blob, hexadecimal SHA-256

  // A state holds what a program keeps from call to call: views of constants, buffers that never
  // leave a call. The runtime makes one for each call that may run at a time, and makes new ones
  // when constants are exchanged. A state is used by one call at a time. `constants` has
  // num_constants handles, which outlive the state.
  void* (*create_state)(const AtenTensorHandle* constants);
  void (*destroy_state)(void* state);

  // Run the program. `inputs` are borrowed; `outputs` are new handles that the caller owns, set
  // only when the call succeeds. Throws wir::Error or another std::exception; `call.line` then
  // tells where.
  void (*run)(void* state, Call& call, const Slot* inputs, Slot* outputs);

  std::size_t num_probes = 0;
  const ProbeInfo* probes = nullptr;

  // How many bytes of memory a state holds that no call is using; null where it never does.
  std::size_t (*kept_bytes)(const void* state) = nullptr;

  bool takes_out = false;  // whether callers may give memory for outputs

  // The device that the program runs on: its type by PyTorch's name and its number; -1: the host
  // alone. Where states hold memory of it, such a state serves one stream: work on another one would
  // not wait. `current_stream` then says which that is. `wait` is for work that goes on behind
  // calls; null where there is none, or nothing that it reads and others free.
  const char* device = "cpu";
  std::int32_t device_index = -1;
  GpuStream (*current_stream)(std::int32_t device_index) = nullptr;
  void (*wait)(std::int32_t device_index) noexcept = nullptr;

  const GraphInfo* graphs = nullptr;  // null: calls run as they are

  // The program's own objects, which are its last inputs.
  std::size_t num_objects = 0;
  const ObjectSpec* objects = nullptr;
  const ObjectPlace* object_places = nullptr;  // null where others hand the objects on

  // How many inputs callers give.
  std::size_t num_given() const { return num_inputs - num_objects; }

  // Of the whole blob, objects included.
  std::uint64_t blob_size() const {
    if (num_objects == 0 || object_places == nullptr) return constants_size;
    const ObjectPlace& last = object_places[num_objects - 1];
    return last.offset + last.bytes;
  }

  // Makes a constant that is packed of those that are not; null where there is none.
  void (*pack)(std::size_t index, const AtenTensorHandle* constants, Tensor& packed) = nullptr;
};

}  // namespace wir

// Defined by the generated half. Visible: whoever opens a library can find the program in it.
extern "C" __attribute__((visibility("default"))) const wir::ProgramInfo wir_program_info;
