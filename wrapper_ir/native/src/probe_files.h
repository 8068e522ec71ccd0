// Files of probes: tensors that torch.load(..., weights_only=True) reads, and their directory.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace wir::runtime {

// Saves a tensor in its own layout (except for strides of 0), without the rest of its storage.
// Throws std::runtime_error if it cannot be written.
void save(const at::Tensor& tensor, const std::string& file);

// Appends to a file with a single write.
void append(const std::string& file, const std::string& text);

// Creates a directory that holds no run yet: `wanted`, else `wanted`.1, `wanted`.2, ... Returns its
// absolute path.
std::string new_directory(const std::string& wanted);

}  // namespace wir::runtime
