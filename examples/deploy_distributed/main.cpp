// Runs a model that several ranks share, which meet over gloo. There is no Python in this process.
//
//   deploy_distributed MODEL SIZE [SIZE...]
//
// torchrun --no-python, or whoever starts the ranks, sets RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT. Each rank loads MODEL.rankN.pt2, N being its number, runs it on a float32 tensor
// 0, 1/n, 2/n, ... of these sizes, and prints its number and the result.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ops/arange.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

namespace {

constexpr std::chrono::seconds kPatience{ 100 };

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr)
    throw std::runtime_error(std::string(name) + " is not set: start ranks with torchrun");
  return value;
}

// Meets the other ranks, and registers the group under the name by which the model calls it: "0",
// the name of torch.distributed's default group.
c10::intrusive_ptr<c10d::ProcessGroup> meet(int rank, int size) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(setting("MASTER_PORT")));
  // torchrun keeps the store itself.
  const char* is_kept = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  options.isServer = rank == 0 && (is_kept == nullptr || std::string(is_kept) != "True");
  options.timeout = kPatience;
  auto kept = c10::make_intrusive<c10d::TCPStore>(setting("MASTER_ADDR"), options);
  auto store = c10::make_intrusive<c10d::PrefixStore>("deploy_distributed", kept);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, size, c10d::ProcessGroupGloo::Options::create_default(kPatience));
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setGroupName("0");
  c10d::register_process_group("0", group);
  return group;
}

at::Tensor ramp(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return at::arange(count, at::kFloat).div_(static_cast<double>(count)).reshape(sizes);
}

void run(const std::string& model, const std::vector<std::int64_t>& sizes) {
  const int rank = std::stoi(setting("RANK")), size = std::stoi(setting("WORLD_SIZE"));
  const auto group = meet(rank, size);
  c10::InferenceMode mode;
  torch::inductor::AOTIModelPackageLoader loader(model + ".rank" + std::to_string(rank) + ".pt2");
  std::ostringstream said;
  for (const at::Tensor& result : loader.run({ ramp(sizes) })) {
    const at::Tensor flat = result.reshape(-1).contiguous();
    said << "rank " << rank << ':' << std::fixed << std::setprecision(4);
    for (std::int64_t i = 0; i < flat.numel(); ++i) said << ' ' << flat.const_data_ptr<float>()[i];
    said << '\n';
  }
  std::cout << said.str() << std::flush;  // in one piece, since ranks may write to one file
  group->getBackend(c10::DeviceType::CPU)->barrier()->wait();  // nobody leaves before the others
  c10d::unregister_all_process_groups();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL SIZE [SIZE...]\n";
    return 2;
  }
  std::vector<std::int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  try {
    run(argv[1], sizes);
    return EXIT_SUCCESS;
  } catch (const c10::Error& error) {  // its what() ends with a backtrace
    std::cerr << error.what_without_backtrace() << '\n';
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
