// Runs a library on the device of examples/device_protected, as the page of its folder says.
// usage: run_protected DEVICE_LIBRARY LIBRARY DIRECTORY, which holds x.pt and wanted.pt
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <fstream>
#include <iostream>
#include <iterator>

namespace {

at::Tensor read(const std::string& file) {
  std::ifstream opened(file, std::ios::binary);
  const std::istreambuf_iterator<char> begin(opened), end;
  return torch::jit::pickle_load(std::vector<char>(begin, end)).toTensor();
}

}  // namespace

int main(int, char** args) {
  if (dlopen(args[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) throw std::runtime_error(dlerror());
  const std::string directory = args[3];
  auto make = torch::inductor::getAOTIModelRunnerRegistry().at("protected");
  auto runner = make(args[2], 1, "protected", "", false);
  const at::Tensor x = read(directory + "/x.pt").to(c10::DeviceType::PrivateUse1);
  const at::Tensor got = runner->run({x}).at(0).cpu();
  std::cout << (got.equal(read(directory + "/wanted.pt")) ? "same" : "other") << std::endl;
}
