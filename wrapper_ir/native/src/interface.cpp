// AOTInductor's C interface to containers: handles and error codes on the outside, objects and
// exceptions on the inside.

#include <string>
#include <vector>

#include <wir/error.h>

#include "abi.h"
#include "container.h"
#include "failure.h"
#include "gil.h"
#include "probing.h"

namespace wir::runtime {
namespace {

Container& container_of(AOTInductorModelContainerHandle handle) {
  if (handle == nullptr) throw Error("WIR2163", "there is no container");
  return *reinterpret_cast<Container*>(handle);
}

void check_index(std::size_t index, std::size_t count, const char* what) {
  if (index < count) return;
  throw Error("WIR2163", std::string("there is no ") + what + " number " + std::to_string(index));
}

const ConstantSpec& constant(AOTInductorModelContainerHandle handle, std::size_t index) {
  const ProgramInfo& program = container_of(handle).program();
  check_index(index, program.num_constants, "constant");
  return program.constants[index];
}

template <typename... Values>
AOTIRuntimeError update(AOTInductorModelContainerHandle handle, const UpdateOptions& options,
                        Values... values) {
  return entry([&] {
    Container& container = container_of(handle);
    const std::vector<NewValue> given = values_of(values...);
    const WithoutGil without_gil;
    container.update(given, options);
  });
}

AOTIRuntimeError run(AOTInductorModelContainerHandle handle, AtenTensorHandle* inputs,
                     std::size_t num_inputs, AtenTensorHandle* outputs, std::size_t num_outputs,
                     AOTIProxyExecutorHandle proxy_executor, AOTInductorStreamHandle stream) {
  return entry(
      [&] {
        container_of(handle).run(inputs, num_inputs, outputs, num_outputs, proxy_executor, stream);
      },
      !loader_asks_after_runs());
}

}  // namespace
}  // namespace wir::runtime

using namespace wir::runtime;

extern "C" {

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerCreateWithDevice(
    AOTInductorModelContainerHandle* container_handle, std::size_t num_models,
    const char* device_str, const char* cubin_dir) {
  return entry([&] {
    *container_handle = reinterpret_cast<AOTInductorModelContainerHandle>(
        new Container(wir_program_info, num_models, device_str, cubin_dir));
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerCreate(
    AOTInductorModelContainerHandle* container_handle, std::size_t num_models, bool is_cpu,
    const char* cubin_dir) {
  return AOTInductorModelContainerCreateWithDevice(container_handle, num_models,
                                                   is_cpu ? "cpu" : "cuda", cubin_dir);
}

// The caller provides the constants, and those of the library are not loaded.
WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerCreateWithExternalConstants(
    AOTInductorModelContainerHandle* container_handle, std::size_t num_models,
    const char* device_str, const char* cubin_dir,
    const AOTInductorConstantMapEntry* constant_entries, std::size_t num_constant_entries) {
  return entry([&] {
    const std::vector<NewValue> given = values_of(constant_entries, num_constant_entries);
    *container_handle = reinterpret_cast<AOTInductorModelContainerHandle>(
        new Container(wir_program_info, num_models, device_str, cubin_dir, &given));
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerDidCallLoadConstants(
    AOTInductorModelContainerHandle container_handle, bool* did_call_load_constants) {
  return entry(
      [&] { *did_call_load_constants = container_of(container_handle).has_read_bytes(); });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerSetUseStreamAffinity(
    AOTInductorModelContainerHandle container_handle, bool use_stream_affinity) {
  return entry([&] { container_of(container_handle).set_stream_affinity(use_stream_affinity); },
               false);  // not printed: loaders that call this fetch the message
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetStreamAffinityModelIndexForTesting(
    AOTInductorModelContainerHandle container_handle, AOTInductorStreamHandle stream_handle,
    std::int64_t* model_index) {
  return entry([&] { *model_index = container_of(container_handle).runner_of(stream_handle); });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerDelete(
    AOTInductorModelContainerHandle container_handle) {
  return entry([&] { delete reinterpret_cast<Container*>(container_handle); });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerRun(
    AOTInductorModelContainerHandle container_handle, AtenTensorHandle* input_handles,
    std::size_t num_inputs, AtenTensorHandle* output_handles, std::size_t num_outputs,
    AOTInductorStreamHandle stream_handle, AOTIProxyExecutorHandle proxy_executor_handle) {
  return run(container_handle, input_handles, num_inputs, output_handles, num_outputs,
             proxy_executor_handle, stream_handle);
}

// The same as Run: an uncontended lock is not worth a separate path.
WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerRunSingleThreaded(
    AOTInductorModelContainerHandle container_handle, AtenTensorHandle* input_handles,
    std::size_t num_inputs, AtenTensorHandle* output_handles, std::size_t num_outputs,
    AOTInductorStreamHandle stream_handle, AOTIProxyExecutorHandle proxy_executor_handle) {
  return run(container_handle, input_handles, num_inputs, output_handles, num_outputs,
             proxy_executor_handle, stream_handle);
}

// Counts and sizes of the program.
#define WIR_OF_PROGRAM(What, Type, value)                                               \
  WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGet##What(                       \
      AOTInductorModelContainerHandle container_handle, Type* found) {                  \
    return entry([&] { *found = container_of(container_handle).program().value; });     \
  }
WIR_OF_PROGRAM(NumInputs, std::size_t, num_given())
WIR_OF_PROGRAM(NumOutputs, std::size_t, num_outputs)
WIR_OF_PROGRAM(NumConstants, std::size_t, num_constants)
WIR_OF_PROGRAM(ConstantsBlobSize, std::uint64_t, constants_size)  // bytes of all constants
#undef WIR_OF_PROGRAM

// Properties of one constant.
#define WIR_OF_CONSTANT(What, Type, value)                                              \
  WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstant##What(               \
      AOTInductorModelContainerHandle container_handle, std::size_t idx, Type* found) { \
    return entry([&] { *found = constant(container_handle, idx).value; });              \
  }
WIR_OF_CONSTANT(Name, const char*, name)
WIR_OF_CONSTANT(OriginalFQN, const char*, qualified_name)
WIR_OF_CONSTANT(Type, std::int32_t, type)
WIR_OF_CONSTANT(Dtype, std::int32_t, tensor.dtype)
WIR_OF_CONSTANT(DataSize, std::size_t, data_bytes)
#undef WIR_OF_CONSTANT

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetConstantFromFolded(
    AOTInductorModelContainerHandle container_handle, std::size_t idx, bool* from_folded) {
  return entry([&] {
    constant(container_handle, idx);  // checks the index
    *from_folded = is_folded(container_of(container_handle).program(), idx);
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerExtractConstantsMap(
    AOTInductorModelContainerHandle container_handle,
    AOTInductorConstantMapHandle constant_map_handle, bool use_inactive) {
  return entry([&] {
    Container& container = container_of(container_handle);
    auto& map = *reinterpret_cast<ConstantMap*>(constant_map_handle);
    const auto found = container.lasting_constants(use_inactive);
    for (std::size_t i = 0; found != nullptr && i < container.program().num_constants; ++i) {
      const wir::ConstantSpec& spec = container.program().constants[i];
      if (!spec.derived) map.emplace(spec.qualified_name, (*found)[i]);
    }
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerExtractConstantsMapEntries(
    AOTInductorModelContainerHandle container_handle, const AOTInductorConstantMapEntry** entries,
    std::size_t* num_entries, bool use_inactive) {
  return entry([&] {
    if (entries == nullptr || num_entries == nullptr) {
      throw wir::Error("WIR2163", "there is no place for the entries");
    }
    const WithoutGil without_gil;
    const auto& found = container_of(container_handle).entries(use_inactive);
    *entries = found.empty() ? nullptr : found.data();
    *num_entries = found.size();
  });
}

// Updates, each from a map and from pairs.
#define WIR_UPDATE(Name, ...)                                                                     \
  WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerUpdate##Name(                              \
      AOTInductorModelContainerHandle container_handle,                                           \
      AOTInductorConstantMapHandle constant_map_handle, bool use_inactive,                        \
      bool validate_full_update) {                                                                \
    return update(container_handle, {.full = validate_full_update, __VA_ARGS__},                  \
                  constant_map_handle);                                                           \
  }                                                                                               \
  WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerUpdate##Name##Pairs(                       \
      AOTInductorModelContainerHandle container_handle, const AOTInductorConstantMapEntry* pairs, \
      std::size_t num_pairs, bool use_inactive, bool validate_full_update) {                      \
    return update(container_handle, {.full = validate_full_update, __VA_ARGS__}, pairs,           \
                  num_pairs);                                                                     \
  }
WIR_UPDATE(UserManagedConstantBuffer, .user_managed = true, .inactive = use_inactive)
WIR_UPDATE(ConstantBuffer, .inactive = use_inactive)
WIR_UPDATE(ConstantBufferFromCpu, .from_cpu = true, .inactive = use_inactive)
#undef WIR_UPDATE

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerUpdateInactiveConstantBuffer(
    AOTInductorModelContainerHandle container_handle,
    AOTInductorConstantMapHandle constant_map_handle) {
  return update(container_handle, {.full = true, .inactive = true}, constant_map_handle);
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerUpdateInactiveConstantBufferPairs(
    AOTInductorModelContainerHandle container_handle, const AOTInductorConstantMapEntry* pairs,
    std::size_t num_pairs) {
  return update(container_handle, {.full = true, .inactive = true}, pairs, num_pairs);
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerFreeInactiveConstantBuffer(
    AOTInductorModelContainerHandle container_handle) {
  return entry([&] {
    const WithoutGil without_gil;
    container_of(container_handle).free_inactive();
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerRunConstantFolding(
    AOTInductorModelContainerHandle container_handle, bool use_inactive,
    AOTInductorStreamHandle stream_handle, AOTIProxyExecutorHandle) {
  return entry([&] {
    Container& container = container_of(container_handle);
    const WithoutGil without_gil;
    container.fold(use_inactive, stream_handle);
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerSwapConstantBuffer(
    AOTInductorModelContainerHandle container_handle) {
  return entry([&] {
    const WithoutGil without_gil;
    container_of(container_handle).swap();
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetInputName(
    AOTInductorModelContainerHandle container_handle, std::size_t input_idx,
    const char** ret_input_names) {
  return entry([&] {
    const wir::ProgramInfo& program = container_of(container_handle).program();
    check_index(input_idx, program.num_given(), "input");
    *ret_input_names = program.inputs[input_idx].name;
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetOutputName(
    AOTInductorModelContainerHandle container_handle, std::size_t output_idx,
    const char** ret_output_names) {
  return entry([&] {
    const wir::ProgramInfo& program = container_of(container_handle).program();
    check_index(output_idx, program.num_outputs, "result");
    *ret_output_names = program.outputs[output_idx].name;
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelUpdateConstantsFromBlob(
    AOTInductorModelContainerHandle container_handle, const std::uint8_t* weight_blob_ptr) {
  return entry([&] {
    const WithoutGil without_gil;
    container_of(container_handle).update_from_bytes(weight_blob_ptr);
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelContainerGetCallSpec(
    AOTInductorModelContainerHandle container_handle, const char** in_spec,
    const char** out_spec) {
  return entry([&] {
    *in_spec = container_of(container_handle).in_spec();
    *out_spec = container_of(container_handle).out_spec();
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorGetLastError(const char** error_msg) {
  *error_msg = last_failure();
  return kSuccess;
}

// An extension: turns a container's input checks on or off from the next call on. A null container
// stands for all containers of this library that have no setting of their own.
WIR_EXPORT AOTIRuntimeError WrapperIRModelContainerSetInputChecks(
    AOTInductorModelContainerHandle container_handle, bool on) {
  return entry([&] {
    if (container_handle == nullptr) {
      Container::set_default_input_checks(on);
    } else {
      container_of(container_handle).set_input_checks(on);
    }
  });
}

// An extension: frees the memory that a container keeps between calls; calls in progress free
// theirs when they end. Unless `bytes` is null, it receives the number of bytes freed immediately.
WIR_EXPORT AOTIRuntimeError WrapperIRModelContainerReleaseMemory(
    AOTInductorModelContainerHandle container_handle, std::uint64_t* bytes) {
  return entry([&] {
    const WithoutGil without_gil;
    const std::size_t freed = container_of(container_handle).release();
    if (bytes != nullptr) *bytes = freed;
  });
}

// An extension: the type of the device that this library is bound to from now on, and its number:
// the current one, unless it was bound before. The type is null if the program names the number.
WIR_EXPORT AOTIRuntimeError WrapperIRGetBoundDevice(const char** type, std::int32_t* index) {
  return entry([&] {
    const bool is_bound = wir_program_info.here != nullptr;
    *type = is_bound ? wir_program_info.device : nullptr;
    *index = is_bound ? wir_program_info.number() : -1;
  });
}

// An extension: returns the names of the model's tensors that the program does not need.
WIR_EXPORT AOTIRuntimeError WrapperIRModelContainerGetUnreadNames(
    AOTInductorModelContainerHandle container_handle, const char* const** names,
    std::size_t* num_names) {
  return entry([&] {
    const wir::ProgramInfo& program = container_of(container_handle).program();
    *names = program.unread;
    *num_names = program.num_unread;
  });
}

// An extension: reports on the calls of a container that captures them as CUDA graphs. A null
// container stands for all such containers of this library. The report is JSON: a list with one
// object for each, {"program", "graphs", "captures", "replays", "plain", "reasons", "refused"}. The
// text stays valid until the thread's next request.
WIR_EXPORT AOTIRuntimeError WrapperIRModelContainerGetCudaGraphStatus(
    AOTInductorModelContainerHandle container_handle, const char** status) {
  return entry([&] {
    const wir::runtime::Graphs* graphs = nullptr;
    if (container_handle != nullptr) graphs = container_of(container_handle).graphs();
    // If a program is captured in pieces, its states have the graphs, and its container has none.
    *status = wir_graph_status == nullptr ? "[]" : wir_graph_status(graphs);
  });
}

// An extension: sets the level and the directory of this library's probes from the next call on.
// `level` is one of off, names, print, save, check, check_nan and stats, or null for the level the
// library was built with. A null `directory` leaves the directory as it is.
WIR_EXPORT AOTIRuntimeError WrapperIRSetProbes(const char* level, const char* directory) {
  return entry([&] {
    if (wir_program_info.num_probes == 0) {
      throw wir::Error("WIR2163", "the library was built without probes",
                       "export the program with a level, such as debug='print'");
    }
    set_probes(wir_program_info, level, directory);
  });
}

}  // extern "C"
