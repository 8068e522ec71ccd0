// AOTInductor's C interface to bare models, which have no container. Here they are containers with
// one runner, so that they are just as safe.

#include <string>
#include <vector>

#include <wir/error.h>
#include <wir/tensor.h>

#include "abi.h"
#include "container.h"
#include "failure.h"
#include "gil.h"

namespace wir::runtime {
namespace {

// The handles of constants. Ownership is taken even if the call fails.
struct Taken {
  std::vector<NewValue> values;

  ~Taken() {
    for (const NewValue& value : values) {
      if (value.tensor != nullptr) aoti_torch_delete_tensor_object(value.tensor);
    }
  }
};

struct Model {
  explicit Model(const std::vector<NewValue>& given)
      : container(wir_program_info, 1, wir_program_info.device, nullptr,
                  given.empty() ? nullptr : &given) {}

  Container container;
  // The results of the last call over plain arrays, which point into this memory.
  std::vector<Tensor> shown;
};

Model& model_of(AOTInductorModelHandle handle) {
  if (handle == nullptr) throw Error("WIR2163", "there is no model");
  return *reinterpret_cast<Model*>(handle);
}

template <typename... Given>
AOTIRuntimeError create(AOTInductorModelHandle* handle, Given... given) {
  return entry([&] {
    const Taken taken{values_of(given...)};
    *handle = reinterpret_cast<AOTInductorModelHandle>(new Model(taken.values));
  });
}

template <typename... Given>
AOTIRuntimeError update(AOTInductorModelHandle handle, Given... given) {
  return entry([&] {
    const Taken taken{values_of(given...)};
    const WithoutGil without_gil;
    model_of(handle).container.update(taken.values, {.full = true, .user_managed = true});
  });
}

Tensor tensor_over(const AOTInductorArrayRefTensor& array) {
  AtenTensorHandle made = nullptr;
  check(aoti_torch_create_tensor_from_blob(array.data, array.ndim, array.sizes, array.strides, 0,
                                           array.dtype, array.device_type, array.device_idx,
                                           &made));
  return Tensor(made);
}

AOTInductorArrayRefTensor array_of(AtenTensorHandle tensor) {
  AOTInductorArrayRefTensor array = {};
  std::int64_t rank = 0;
  check(aoti_torch_get_dim(tensor, &rank));
  if (rank > kMaxArrayRefDims) {
    throw Error("WIR2163", "a result has " + std::to_string(rank) + " dimensions, more than the " +
                               std::to_string(kMaxArrayRefDims) + " of a plain array");
  }
  array.data = data(tensor);
  array.ndim = static_cast<std::int32_t>(rank);
  for (std::int64_t i = 0; i < rank; ++i) {
    array.sizes[i] = sizes(tensor)[i];
    array.strides[i] = strides(tensor)[i];
  }
  check(aoti_torch_get_numel(tensor, &array.numel));
  check(aoti_torch_get_dtype(tensor, &array.dtype));
  check(aoti_torch_get_device_type(tensor, &array.device_type));
  check(aoti_torch_get_device_index(tensor, &array.device_idx));
  return array;
}

void run_over_arrays(Model& model, std::int32_t num_inputs,
                     const AOTInductorArrayRefTensor* inputs, std::int32_t num_outputs,
                     AOTInductorArrayRefTensor* outputs) {
  std::vector<AtenTensorHandle> in;
  std::vector<Tensor> made;
  for (std::int32_t i = 0; i < num_inputs; ++i) made.push_back(tensor_over(inputs[i]));
  for (Tensor& tensor : made) in.push_back(tensor.release());
  std::vector<AtenTensorHandle> out(num_outputs);
  model.container.run(in.data(), in.size(), out.data(), out.size(), nullptr);
  std::vector<Tensor> results;
  for (AtenTensorHandle handle : out) results.emplace_back(handle);
  std::vector<AOTInductorArrayRefTensor> arrays;
  for (const Tensor& result : results) {
    if (result == nullptr) throw Error("WIR2163", "a result is no tensor");
    arrays.push_back(array_of(result));
  }
  std::copy(arrays.begin(), arrays.end(), outputs);
  model.shown = std::move(results);
}

}  // namespace
}  // namespace wir::runtime

using namespace wir::runtime;

extern "C" {

WIR_EXPORT AOTIRuntimeError AOTInductorModelCreate(
    AOTInductorModelHandle* model_handle, AOTInductorConstantMapHandle constant_map_handle) {
  return constant_map_handle == nullptr ? create(model_handle, nullptr, 0)
                                        : create(model_handle, constant_map_handle);
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelCreateV2(AOTInductorModelHandle* model_handle,
                                                     const AOTInductorConstantMapEntry* pairs,
                                                     std::size_t num_pairs) {
  return create(model_handle, pairs, num_pairs);
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelRun(AOTInductorModelHandle model_handle,
                                                AtenTensorHandle* input_handles,
                                                AtenTensorHandle* output_handles) {
  return entry([&] {
    Model& model = model_of(model_handle);
    const wir::ProgramInfo& program = model.container.program();
    model.container.run(input_handles, program.num_given(), output_handles, program.num_outputs,
                        nullptr);
  });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelUpdateConstantsMap(
    AOTInductorModelHandle model_handle, AOTInductorConstantMapHandle constant_map_handle) {
  return update(model_handle, constant_map_handle);
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelUpdateConstantsMapV2(
    AOTInductorModelHandle model_handle, const AOTInductorConstantMapEntry* pairs,
    std::int32_t num_pairs) {
  return update(model_handle, pairs, static_cast<std::size_t>(num_pairs < 0 ? 0 : num_pairs));
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelDelete(AOTInductorModelHandle model_handle) {
  return entry([&] { delete reinterpret_cast<Model*>(model_handle); });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelGetNumOutputs(AOTInductorModelHandle model_handle,
                                                          std::size_t* ret_num_outputs) {
  return entry([&] { *ret_num_outputs = model_of(model_handle).container.program().num_outputs; });
}

WIR_EXPORT AOTIRuntimeError AOTInductorModelRunMinimalArrayrefInterfaceV2(
    AOTInductorModelHandle model_handle, std::int32_t num_inputs,
    const AOTInductorArrayRefTensor* inputs, std::int32_t num_outputs,
    AOTInductorArrayRefTensor* outputs) {
  return entry([&] {
    run_over_arrays(model_of(model_handle), num_inputs, inputs, num_outputs, outputs);
  });
}

}  // extern "C"
