// The contract between a generated program and the runtime: all that they know of each other.
//
// A library is linked from two halves. The generated half holds data and one `ProgramInfo` that
// points to all of it; it is small and compiles quickly. The runtime half (src/) is the same for
// every program: it is compiled once per version of PyTorch and cached. It implements AOTInductor's
// C interface, owns the constants, checks inputs and words every error.
//
// Both halves talk to PyTorch through its C shim. Only the few runtime files that need more, such
// as src/op.cpp, include ATen headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <wir/here.h>

namespace wir {

class Queues;
class Tensor;

// Raised whenever anything below changes. The runtime refuses a program with another number.
inline constexpr std::uint32_t kContract = 18;

// In a table of sizes or strides: known only at run time. The runtime's checks skip it, and the
// generated code checks what the program states about it.
inline constexpr std::int64_t kDynamic = INT64_MIN;

struct TensorSpec {
  std::int32_t dtype;         // a c10::ScalarType
  std::int32_t device_type;   // a c10::DeviceType; -1: any
  std::int32_t device_index;  // -1: any
  std::int32_t rank;
  const std::int64_t* size;    // `rank` numbers, in elements
  const std::int64_t* stride;  // likewise
  // For a complex input: the program reads its memory as it is. A real one is always plain.
  bool plain = false;
};

// One value passed in or out. The kind in its specification says which member is set.
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
  TensorSpec tensor;  // for a kTensor
  // For a number: the program accepts only the value `fixed`. PyTorch's Python loader passes on
  // tensors only, so such numbers may be left out, and so may kNone. For a kNone: the value has to
  // be None; if false, anything will do.
  bool is_fixed = false;
  Slot fixed = {};
  const char* class_name = nullptr;  // for a kObject: "ns::Queue"
  bool settled = false;  // made by another piece: its address is fixed once that piece is captured
};

struct OutputSpec {
  const char* name;
  Kind kind;
  TensorSpec tensor = {};  // for a kTensor that callers may provide memory for
  // The c10::ScalarType of the tensor that a number is returned as; -1: the kind implies it.
  std::int32_t dtype = -1;
  bool shared = false;  // internal to a program's pieces: it may stay in the graph's memory
  bool lasts = false;  // its memory is, or may be, that of a constant or of an object
};

struct ConstantSpec {
  const char* name;            // in the program; an identifier
  const char* qualified_name;  // in the model, "encoder.0.weight"; the key for updates
  std::int32_t type;           // torch::aot_inductor::ConstantType
  bool written;                // calls may write to it (batch-norm statistics)
  std::int32_t tied_to;        // index of the constant whose storage it shares, or -1
  TensorSpec tensor;
  std::int64_t storage_offset;  // in elements, from the start of its bytes
  std::uint64_t data_offset;    // of its bytes in the blob of constants
  std::uint64_t data_bytes;
  // Made from other constants, once per set of constants: packed by a library op, or folded. It has
  // no bytes of its own.
  bool derived = false;
};

// An object of a custom class that belongs to the program. To the generated code it is an input,
// and these inputs come last. Whoever runs the program passes it.
struct ObjectSpec {
  const char* name;            // in the program; an identifier
  const char* qualified_name;  // in the model, "encoder.scale"
  const char* class_name;      // "ns::Queue"
};

// The serialized bytes of an object. They follow those of the tensors in the blob of constants.
struct ObjectPlace {
  std::uint64_t offset;
  std::uint64_t bytes;
};

// The name of an op: "ns::op" and its overload, which may be empty.
struct OpName {
  const char* name;
  const char* overload;
};

// The origin of a line of the program, for error messages.
struct LineInfo {
  const char* path;    // "body[3].then[2]"
  const char* what;    // the line in brief: "aten::addmm.out(...)", "kernel cpp_fused_relu_0"
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

// One value that a probe reports. A complex number takes two slots.
struct ProbeOperand {
  enum class Kind : std::int32_t { kTensor, kInteger, kReal, kBool, kComplex };
  const char* name;
  Kind kind;
};

// The static description of a probe of the debug printer.
struct ProbeInfo {
  const char* label;  // number and name of the call: "0003 cpp_fused_relu_0"
  bool after;         // it comes after the call, not before
  ProbeLevel level;
  const char* source;  // where in the model the call comes from, or empty
  std::size_t num_operands;
  const ProbeOperand* operands;  // tensors, then numbers
};

// The receiver of what probes report.
struct ProbeSink {
  // `values` are those of the probe's operands, borrowed. May throw.
  void (*receive)(const ProbeSink& sink, std::size_t probe, const Slot* values);

  // `probe` is an index into ProgramInfo::probes.
  void show(std::size_t probe, std::initializer_list<Slot> values) const {
    receive(*this, probe, values.begin());
  }
};

// One call in progress. Lives on the caller's stack.
struct Call {
  std::uint32_t line = 0;     // index into ProgramInfo::lines; set before anything that may fail
  bool check_inputs = true;   // check sizes, ranges and relations of inputs
  AOTIProxyExecutorHandle proxy_executor = nullptr;
  // Null, or for each input its handle if this call owns it, else null. `release` deletes a handle
  // after the input's last use; the caller deletes the rest after the call.
  AtenTensorHandle* owned = nullptr;
  const ProbeSink* probes = nullptr;  // null: probes are off
  // Null, or for each output a tensor to put it in, or null; only for programs that accept them.
  // The tensors are borrowed, have the fixed properties of the outputs, and share no memory with
  // inputs or one another.
  const AtenTensorHandle* out = nullptr;
  void* stream = nullptr;  // for a program on a GPU: the stream of its kernels, which `run` sets
  std::int32_t gpu = -1;   // the GPU of that stream; it is the current one
  Queues* queues = nullptr;  // for a program with streams of its own
};

// The stream that receives a thread's work on a GPU.
struct GpuStream {
  void* stream = nullptr;
  bool is_captured = false;  // work is captured into a graph, to run later
};

// Frees those inputs that the call owns, after their last use and that of all their views.
template <class... Inputs>
void release(Call& call, Inputs... inputs) {
  if (call.owned == nullptr) return;
  for (const int input : {inputs...}) {
    if (call.owned[input] == nullptr) continue;
    aoti_torch_delete_tensor_object(call.owned[input]);
    call.owned[input] = nullptr;
  }
}

// Settings for calls that the library itself captures as CUDA graphs and replays.
struct GraphInfo {
  std::size_t limit;    // the number of graphs a runner keeps, one for each set of sizes
  bool shares_results;  // callers get the graph's own memory, which the next call overwrites
  bool is_random;       // calls draw random numbers, which PyTorch has a single source of
  bool has_branches;    // inputs that are written to must share no memory with others
  std::size_t num_reasons;
  const char* const* reasons;  // why no call can be captured
  // Positions of inputs that are copied wherever they are, because ranks capture together.
  std::size_t num_copied = 0;
  const std::int32_t* copied = nullptr;
};

struct ProgramInfo;

// The program that computes the folded constants, once per set of constants.
struct FoldingInfo {
  const ProgramInfo* program;  // it has no inputs
  const std::int32_t* taken;   // for each of its constants, the index of the one that it is
  const std::int32_t* made;    // for each of its results, the index of the constant that it is
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

  const char* in_spec;   // pytrees of the user's arguments and results, as JSON; may be empty
  const char* out_spec;

  // The constants' bytes in this library; null if they are in a file beside it.
  const std::uint8_t* constants_begin;
  const std::uint8_t* constants_end;
  const char* constants_file;    // its name, without a directory; null if they are embedded
  std::uint64_t constants_size;  // in bytes, without the objects
  const char* constants_digest;  // of the whole blob, hexadecimal SHA-256

  // A state holds everything a program keeps between calls: views of constants, and buffers that
  // never leave a call. The runtime creates one for each concurrent call, and new ones when the
  // constants are swapped. One call at a time uses a state. `constants` has num_constants handles,
  // which outlive the state.
  void* (*create_state)(const AtenTensorHandle* constants);
  void (*destroy_state)(void* state);

  // Runs the program. `inputs` are borrowed; `outputs` are new handles that the caller owns, set
  // only if the call succeeds. Throws wir::Error or another std::exception; `call.line` then says
  // where.
  void (*run)(void* state, Call& call, const Slot* inputs, Slot* outputs);

  std::size_t num_probes = 0;
  const ProbeInfo* probes = nullptr;

  // Returns the number of bytes that an idle state holds; null if states never hold any.
  std::size_t (*kept_bytes)(const void* state) = nullptr;

  bool takes_out = false;  // callers may provide memory for outputs

  // The device that the program runs on: PyTorch's name for its type, and its index; -1: the host
  // alone, or what `here` says. A state that holds device memory serves one stream, because work on another stream would
  // not wait for it; `current_stream` then returns the stream. `wait` waits for work that continues
  // after calls; null if there is no such work, or if nobody else frees anything that it reads.
  const char* device = "cpu";
  std::int32_t device_index = -1;
  GpuStream (*current_stream)(std::int32_t device_index) = nullptr;
  void (*wait)(std::int32_t device_index) noexcept = nullptr;

  const GraphInfo* graphs = nullptr;  // null: calls are not captured

  // The program's own objects, which are its last inputs.
  std::size_t num_objects = 0;
  const ObjectSpec* objects = nullptr;
  const ObjectPlace* object_places = nullptr;  // null if others pass the objects

  // The number of inputs that callers pass.
  std::size_t num_given() const { return num_inputs - num_objects; }

  // The size of the whole blob in bytes, objects included.
  std::uint64_t blob_size() const {
    if (num_objects == 0 || object_places == nullptr) return constants_size;
    const ObjectPlace& last = object_places[num_objects - 1];
    return last.offset + last.bytes;
  }

  // Computes a packed constant from those that are not packed; null if none is packed.
  void (*pack)(std::size_t index, const AtenTensorHandle* constants, Tensor& packed) = nullptr;

  // Names of the model's tensors that the program does not need; whoever passes all of the model's
  // tensors passes these too.
  std::size_t num_unread = 0;
  const char* const* unread = nullptr;

  // Ops that are looked up by name and that neither PyTorch nor the runtime brings.
  std::size_t num_ops = 0;
  const OpName* ops = nullptr;

  const FoldingInfo* folding = nullptr;  // null if no constant is folded

  // For a program that does not name the number of its device; null for others. Tables have -1 for
  // tensors there.
  Here* here = nullptr;

  // Frees memory that all states share and nobody uses, and returns its bytes; null if there is none.
  std::size_t (*release_shared)() = nullptr;

  // The index of the program's device in this process; -1: the host alone.
  std::int32_t number() const { return here == nullptr ? device_index : here->index(); }

  // The same for a tensor whose specification has this index; -1: any.
  std::int32_t number(const TensorSpec& spec) const {
    const bool is_here = here != nullptr && spec.device_index < 0 && spec.device_type > 0;
    return is_here ? here->index() : spec.device_index;
  }
};

}  // namespace wir

// Defined by the generated half. Visible, so that whoever opens a library can find its program.
extern "C" __attribute__((visibility("default"))) const wir::ProgramInfo wir_program_info;

// The program that computes its folded constants, if it has any.
extern "C" __attribute__((visibility("hidden"))) const wir::ProgramInfo wir_folding_info;
