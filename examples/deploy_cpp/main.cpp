// Loads a package, runs the model once and prints the result. There is no Python in this process.
//
//   deploy MODEL.pt2 SIZE [SIZE...]    runs it on a float32 tensor 0, 1/n, 2/n, ... of these sizes
//   deploy --calls N MODEL.pt2 ...     runs it so many times, and says how many were CUDA graphs
#include <dlfcn.h>
#include <link.h>

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

// What a model that was exported with cuda_graph says of its calls: JSON. Which file the loader made
// of the package is not known, so all libraries of the process are asked.
std::string graph_status() {
  std::vector<std::string> libraries;
  const auto add = [](dl_phdr_info* library, std::size_t, void* all) {
    static_cast<std::vector<std::string>*>(all)->emplace_back(library->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &libraries);
  std::string found = "[]";
  for (const std::string& library : libraries) {
    using Status = int (*)(void* container, const char** status);
    void* opened = dlopen(library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (opened == nullptr) continue;
    const auto status =
        reinterpret_cast<Status>(dlsym(opened, "WrapperIRModelContainerGetCudaGraphStatus"));
    const char* text = nullptr;
    if (status != nullptr && status(nullptr, &text) == 0) found = text;
    dlclose(opened);
  }
  return found;
}

int run(const std::string& package, const std::vector<std::int64_t>& sizes, int calls) {
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader loader(package);
  const at::Device device(loader.get_metadata()["AOTI_DEVICE_KEY"]);  // "cpu" or "cuda"
  const at::Tensor input = ramp(sizes).to(device);
  std::vector<at::Tensor> results;
  for (int call = 0; call < (calls == 0 ? 1 : calls); ++call) results = loader.run({input});
  for (const at::Tensor& result : results) std::cout << result.cpu() << '\n';
  if (calls != 0) std::cout << graph_status() << '\n';
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  int first = 1, calls = 0;
  if (argc > 2 && std::string(argv[1]) == "--calls") {
    calls = std::atoi(argv[2]);
    first = 3;
  }
  if (argc < first + 2) {
    std::cerr << "usage: " << argv[0] << " [--calls N] MODEL.pt2 SIZE [SIZE...]\n";
    return 2;
  }
  std::vector<std::int64_t> sizes;
  for (int i = first + 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  try {
    return run(argv[first], sizes, calls);
  } catch (const c10::Error& error) {  // its what() ends with a backtrace
    std::cerr << error.what_without_backtrace() << '\n';
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
