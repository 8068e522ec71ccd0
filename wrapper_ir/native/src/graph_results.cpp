#include "graph_results.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <wir/dtype.h>
#include <wir/layout.h>

namespace wir::runtime {
namespace {

// Returns the start of a tensor's storage, which is equal for tensors that share memory.
std::uintptr_t storage_of(AtenTensorHandle tensor) {
  const Metadata found(tensor);
  const auto bytes =
      offset_of(tensor) * static_cast<std::int64_t>(aoti_torch_dtype_element_size(found.dtype));
  return reinterpret_cast<std::uintptr_t>(bytes_of(tensor)) - static_cast<std::uintptr_t>(bytes);
}

}  // namespace

std::uint8_t* bytes_of(AtenTensorHandle tensor) { return data<std::uint8_t>(tensor); }

TensorLayout::TensorLayout(AtenTensorHandle tensor) {
  const Metadata found(tensor);
  dtype = found.dtype;
  size.assign(found.size, found.size + found.rank);
  stride.assign(found.stride, found.stride + found.rank);
}

std::int64_t TensorLayout::item_size() const {
  return static_cast<std::int64_t>(aoti_torch_dtype_element_size(dtype));
}

bool TensorLayout::has_elements() const {
  return std::find(size.begin(), size.end(), 0) == size.end();
}

std::int64_t TensorLayout::count() const {
  std::int64_t found = 1;
  for (const std::int64_t each : size) found *= each;
  return found;
}

std::int64_t TensorLayout::extent() const {
  if (!has_elements()) return 0;
  std::int64_t last = 0;
  for (std::size_t n = 0; n < size.size(); ++n) last += (size[n] - 1) * stride[n];
  return (last + 1) * item_size();
}

bool TensorLayout::is_dense() const {
  if (!has_elements()) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t n = 0; n < size.size(); ++n) {
    if (size[n] != 1) steps.emplace_back(stride[n], size[n]);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t expected = 1;
  for (const auto& [step, length] : steps) {
    if (step != expected) return false;
    expected *= length;
  }
  return true;
}

GraphResults::GraphResults(const ProgramInfo& program, Slot* captured, const Slot* inputs,
                           const AtenTensorHandle* constants, const Recorder& recorder)
    : program_(program),
      device_type_(recorder.device_type()),
      device_index_(recorder.device_index()),
      captured_(program.num_outputs) {
  for (std::size_t n = 0; n < program.num_outputs; ++n) {
    if (program.outputs[n].kind == Kind::kTensor) {
      captured_[n] = Tensor(std::exchange(captured[n].tensor, nullptr));
    }
  }
  for (std::size_t n = 0; n < program.num_outputs; ++n) {
    if (program.outputs[n].kind == Kind::kTensor) {
      results_.push_back(plan(n, captured_[n], inputs, constants));
    } else {
      results_.push_back({.way = Way::kSame, .value = captured[n]});
    }
  }
}

GraphResults::Result GraphResults::plan(std::size_t number, AtenTensorHandle result,
                                        const Slot* inputs, const AtenTensorHandle* constants) {
  if (result == nullptr) return {.way = Way::kSame};
  TensorLayout layout(result);
  if (!layout.has_elements()) return {.way = Way::kNew, .layout = std::move(layout)};
  const std::uintptr_t storage = storage_of(result);
  for (std::size_t n = 0; n < program_.num_inputs; ++n) {
    if (program_.inputs[n].kind != Kind::kTensor || storage_of(inputs[n].tensor) != storage) {
      continue;
    }
    const std::int64_t offset = bytes_of(result) - bytes_of(inputs[n].tensor);
    return {.way = Way::kInput, .source = n, .layout = std::move(layout), .offset = offset};
  }
  for (std::size_t n = 0; n < program_.num_constants; ++n) {
    if (constants[n] == nullptr || storage_of(constants[n]) != storage) continue;
    return {.way = Way::kShared, .source = number, .layout = std::move(layout)};
  }
  if (Metadata(result).device_type != device_type_) {
    throw std::runtime_error("result " + std::to_string(number) + " is not on the GPU");
  }
  if (program_.graphs->shares_results || program_.outputs[number].shared) {
    return {.way = Way::kShared, .source = number, .layout = std::move(layout)};
  }
  return copied(result, std::move(layout));
}

GraphResults::Result GraphResults::copied(AtenTensorHandle result, TensorLayout layout) {
  const std::uintptr_t storage = storage_of(result);
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&](const Copy& each) { return each.storage == storage; });
  if (found != copies_.end()) {
    const auto number = static_cast<std::size_t>(found - copies_.begin());
    const std::int64_t offset = bytes_of(result) - found->begin;
    return {.way = Way::kCopy, .source = number, .layout = std::move(layout), .offset = offset};
  }
  std::uintptr_t begin = std::numeric_limits<std::uintptr_t>::max(), end = 0;
  std::size_t sharing = 0;
  for (const Tensor& each : captured_) {
    if (each == nullptr || storage_of(each) != storage) continue;
    const TensorLayout other(each);
    if (!other.has_elements()) continue;
    const auto first = reinterpret_cast<std::uintptr_t>(bytes_of(each));
    begin = std::min(begin, first);
    end = std::max(end, first + static_cast<std::uintptr_t>(other.extent()));
    ++sharing;
  }
  Copy copy{layout, bytes_of(result), storage};
  const bool is_whole = sharing == 1 && layout.is_dense();
  if (!is_whole) {
    // Copy all that they cover. Starting at a multiple of 16 bytes keeps every dtype aligned.
    begin -= begin % 16;
    copy.layout.dtype = dtype::uint8;
    copy.layout.size = {static_cast<std::int64_t>(end - begin)};
    copy.layout.stride = {1};
    copy.begin = reinterpret_cast<const std::uint8_t*>(begin);
  }
  const std::int64_t offset = bytes_of(result) - copy.begin;
  copies_.push_back(std::move(copy));
  return {.way = Way::kCopy,
          .source = copies_.size() - 1,
          .layout = std::move(layout),
          .offset = offset,
          .is_whole = is_whole};
}

void GraphResults::give(const Slot* inputs, Slot* outputs, Recorder& recorder) const {
  std::vector<Tensor> copies;
  copies.reserve(copies_.size());
  for (const Copy& each : copies_) {
    copies.push_back(empty(each.layout.rank(), each.layout.size.data(), each.layout.stride.data(),
                           {each.layout.dtype, device_type_, device_index_}));
    recorder.copy(data(copies.back()), each.begin,
                  static_cast<std::size_t>(each.layout.extent()));
  }
  std::vector<Tensor> results(results_.size());
  for (std::size_t n = 0; n < results_.size(); ++n) {
    results[n] = made(results_[n], inputs, copies, n);
  }
  for (std::size_t n = 0; n < results_.size(); ++n) {
    outputs[n] = results_[n].value;
    if (results_[n].way != Way::kSame) outputs[n].tensor = results[n].release();
  }
}

Tensor GraphResults::made(const Result& result, const Slot* inputs, std::vector<Tensor>& copies,
                          std::size_t number) const {
  const TensorLayout& layout = result.layout;
  const auto view_of = [&](AtenTensorHandle source, std::int64_t offset) {
    return view_as(source, layout.dtype, layout.rank(), layout.size.data(), layout.stride.data(),
                   offset);
  };
  switch (result.way) {
    case Way::kSame:
      break;
    case Way::kNew:
      return empty(layout.rank(), layout.size.data(), layout.stride.data(),
                   {layout.dtype, device_type_, device_index_});
    case Way::kInput:
      return view_of(inputs[result.source].tensor, result.offset);
    case Way::kShared:
      return view(captured_[number], layout.rank(), layout.size.data(), layout.stride.data(), 0);
    case Way::kCopy:
      if (result.is_whole) return std::move(copies[result.source]);
      return view_of(copies[result.source], result.offset);
  }
  return Tensor();
}

}  // namespace wir::runtime
