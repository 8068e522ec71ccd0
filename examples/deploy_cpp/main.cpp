// Loads a package, runs the model once and prints the result. There is no Python in this process.
//
//   deploy MODEL.pt2 SIZE [SIZE...]    runs it on a float32 tensor 0, 1/n, 2/n, ... of these sizes
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/core/Formatting.h>
#include <ATen/ops/arange.h>
#include <c10/core/Device.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

namespace {

at::Tensor ramp(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return at::arange(count, at::kFloat).div_(static_cast<double>(count)).reshape(sizes);
}

int run(const std::string& package, const std::vector<std::int64_t>& sizes) {
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader loader(package);
  const at::Device device(loader.get_metadata()["AOTI_DEVICE_KEY"]);  // "cpu" or "cuda"
  for (const at::Tensor& result : loader.run({ramp(sizes).to(device)})) {
    std::cout << result.cpu() << '\n';
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL.pt2 SIZE [SIZE...]\n";
    return 2;
  }
  std::vector<std::int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  try {
    return run(argv[1], sizes);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
