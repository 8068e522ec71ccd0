// Everything at once, without Python: built with sanitizers together with the fixture and the
// runtime part. Eight threads call one container, some of them wrongly, while another exchanges
// its constants. Prints "fine", or what was not.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include "abi.h"

extern "C" {
AOTIRuntimeError AOTInductorModelContainerCreateWithDevice(AOTInductorModelContainerHandle*,
                                                           std::size_t, const char*, const char*);
AOTIRuntimeError AOTInductorModelContainerCreateWithExternalConstants(
    AOTInductorModelContainerHandle*, std::size_t, const char*, const char*,
    const AOTInductorConstantMapEntry*, std::size_t);
AOTIRuntimeError AOTInductorModelContainerDelete(AOTInductorModelContainerHandle);
AOTIRuntimeError AOTInductorModelContainerRun(AOTInductorModelContainerHandle, AtenTensorHandle*,
                                              std::size_t, AtenTensorHandle*, std::size_t,
                                              AOTInductorStreamHandle, AOTIProxyExecutorHandle);
AOTIRuntimeError AOTInductorModelContainerUpdateConstantBuffer(AOTInductorModelContainerHandle,
                                                               AOTInductorConstantMapHandle, bool,
                                                               bool);
AOTIRuntimeError AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(
    AOTInductorModelContainerHandle, const AOTInductorConstantMapEntry*, std::size_t, bool, bool);
AOTIRuntimeError AOTInductorModelContainerSwapConstantBuffer(AOTInductorModelContainerHandle);
AOTIRuntimeError AOTInductorModelContainerFreeInactiveConstantBuffer(
    AOTInductorModelContainerHandle);
AOTIRuntimeError AOTInductorModelContainerExtractConstantsMap(AOTInductorModelContainerHandle,
                                                              AOTInductorConstantMapHandle, bool);
AOTIRuntimeError WrapperIRModelContainerReleaseMemory(AOTInductorModelContainerHandle,
                                                      std::uint64_t*);
AOTIRuntimeError AOTInductorModelCreateV2(AOTInductorModelHandle*,
                                          const AOTInductorConstantMapEntry*, std::size_t);
AOTIRuntimeError AOTInductorModelRunMinimalArrayrefInterfaceV2(AOTInductorModelHandle, std::int32_t,
                                                               const AOTInductorArrayRefTensor*,
                                                               std::int32_t,
                                                               AOTInductorArrayRefTensor*);
AOTIRuntimeError AOTInductorModelDelete(AOTInductorModelHandle);
}

namespace {

using ConstantMap = std::unordered_map<std::string, AtenTensorHandle>;

constexpr std::int64_t kRows = 3;
constexpr int kErrors = 5;  // the fixture's modes 1 to 5 go wrong

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("not fine: %s\n", what);
  std::_Exit(1);
}

AtenTensorHandle filled(std::vector<std::int64_t> size, float value) {
  std::vector<std::int64_t> stride(size.size(), 1);
  std::int64_t count = 1;
  for (std::size_t i = size.size(); i-- > 0; count *= size[i]) stride[i] = count;
  AtenTensorHandle made = nullptr;
  require(aoti_torch_empty_strided(static_cast<std::int64_t>(size.size()), size.data(),
                                   stride.data(), 6, 0, -1, &made) == 0, "no tensor");
  void* data = nullptr;
  aoti_torch_get_data_ptr(made, &data);
  for (std::int64_t i = 0; i < count; ++i) static_cast<float*>(data)[i] = value;
  return made;
}

AtenTensorHandle number(double value) {
  AtenTensorHandle made = nullptr;
  aoti_torch_scalar_to_tensor_float64(value, &made);
  return made;
}

AtenTensorHandle number(std::int64_t value) {
  AtenTensorHandle made = nullptr;
  aoti_torch_scalar_to_tensor_int64(value, &made);
  return made;
}

// One call with scale 0: every element is bias + weight, which always change together.
bool call(AOTInductorModelContainerHandle model, std::int64_t mode, std::int64_t columns = 8) {
  AtenTensorHandle in[] = {filled({kRows, columns}, 1), number(0.0), number(mode)};
  AtenTensorHandle out[5];
  if (AOTInductorModelContainerRun(model, in, 3, out, 5, nullptr, nullptr) != 0) {
    for (const AtenTensorHandle handle : out) require(handle == nullptr, "a result of an error");
    return false;
  }
  void* data = nullptr;
  aoti_torch_get_data_ptr(out[0], &data);
  const auto* y = static_cast<const float*>(data);
  for (int i = 0; i < kRows * 8; ++i) require(y[i] == y[0], "constants of two updates in one call");
  require(static_cast<int>(y[0]) % 3 == 0, "constants of two updates in one call");
  for (const AtenTensorHandle handle : out) {
    if (handle != nullptr) aoti_torch_delete_tensor_object(handle);
  }
  return true;
}

void exchange(AOTInductorModelContainerHandle model, int step) {
  ConstantMap map = {{"linear.bias", filled({8}, static_cast<float>(step))},
                     {"weight", filled({4, 8}, static_cast<float>(2 * step))}};
  const auto handle = reinterpret_cast<AOTInductorConstantMapHandle>(&map);
  const bool aside = step % 3 == 0;
  require(AOTInductorModelContainerUpdateConstantBuffer(model, handle, aside, true) == 0, "update");
  if (aside) {
    require(AOTInductorModelContainerSwapConstantBuffer(model) == 0, "swap");
    AOTInductorModelContainerFreeInactiveConstantBuffer(model);
  }
  if (step % 5 == 0) {  // of no use: nothing may change
    const AOTInductorConstantMapEntry pair = {"bias", map["weight"]};
    require(AOTInductorModelContainerUpdateUserManagedConstantBufferPairs(model, &pair, 1, false,
                                                                         false) != 0, "refusal");
  }
  for (const auto& [name, tensor] : map) aoti_torch_delete_tensor_object(tensor);
}

void crowd(std::size_t runners) {
  AOTInductorModelContainerHandle model = nullptr;
  require(AOTInductorModelContainerCreateWithDevice(&model, runners, "cpu", nullptr) == 0, "create");
  exchange(model, 1);
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop || i < 100; ++i) {
        const bool wrong = (i + t) % 7 == 0;
        require(call(model, wrong ? 1 + i % kErrors : 0) == !wrong, "a call");
        if (i % 13 == 0) require(WrapperIRModelContainerReleaseMemory(model, nullptr) == 0, "release");
        if (i % 11 == 0) require(!call(model, 0, 7), "a wrong input was taken");
      }
    });
  }
  for (int step = 2; step < 100; ++step) exchange(model, step);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  require(call(model, 0), "a call");
  std::uint64_t bytes = 0;
  require(WrapperIRModelContainerReleaseMemory(model, &bytes) == 0 && bytes % 96 == 0 && bytes != 0,
          "what was released");
  require(WrapperIRModelContainerReleaseMemory(model, &bytes) == 0 && bytes == 0, "it is gone");
  ConstantMap map;
  AOTInductorModelContainerExtractConstantsMap(
      model, reinterpret_cast<AOTInductorConstantMapHandle>(&map), false);
  require(map.size() == 5, "names");
  require(AOTInductorModelContainerDelete(model) == 0, "delete");
}

// Constants in memory of ours: refused if one is missing, else taken until the container goes.
void of_the_caller() {
  const std::int64_t size[] = {8, 4}, stride[] = {1, 8};
  AOTInductorConstantMapEntry all[] = {
      {"weight", filled({4, 8}, 2)}, {"head", nullptr}, {"bias", filled({8}, 1)}};
  aoti_torch__reinterpret_tensor(all[0].handle, 2, size, stride, 0, &all[1].handle);
  AOTInductorModelContainerHandle model = nullptr;
  const auto create = [&](std::size_t count) {
    return AOTInductorModelContainerCreateWithExternalConstants(&model, 2, "cpu", nullptr, all,
                                                                count);
  };
  require(create(2) != 0 && model == nullptr, "constants that are missing");
  require(create(3) == 0, "constants of the caller");
  for (const auto& [name, tensor] : all) aoti_torch_delete_tensor_object(tensor);
  require(call(model, 0), "a call");
  exchange(model, 3);
  require(call(model, 0), "a call");
  require(AOTInductorModelContainerDelete(model) == 0, "delete");
}

// The last results are None, which plain arrays cannot say; so this is refused, and leaks nothing.
void bare_model() {
  AOTInductorModelHandle model = nullptr;
  require(AOTInductorModelCreateV2(&model, nullptr, 0) == 0, "create a model");
  float x[kRows * 8] = {};
  double scale = 1;
  std::int64_t mode = 0;
  AOTInductorArrayRefTensor in[3] = {};
  in[0] = {x, kRows * 8, {kRows, 8}, {8, 1}, 2, 6, 0, -1, {}};
  in[1] = {&scale, 1, {}, {}, 0, 7, 0, -1, {}};
  in[2] = {&mode, 1, {}, {}, 0, 4, 0, -1, {}};
  AOTInductorArrayRefTensor out[5] = {};
  require(AOTInductorModelRunMinimalArrayrefInterfaceV2(model, 3, in, 5, out) != 0, "arrays");
  require(AOTInductorModelDelete(model) == 0, "delete a model");
}

}  // namespace

int main() {
  crowd(1);
  crowd(4);
  of_the_caller();
  bare_model();
  std::printf("fine\n");
}
