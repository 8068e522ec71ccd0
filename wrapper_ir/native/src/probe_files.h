// A tensor as a file that torch.load(..., weights_only=True) reads, and where files go.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace wir::runtime {

// Each tensor in its own layout and without the rest of its storage; strides of 0 excepted. Throws
// std::runtime_error where it cannot be written.
void save(const at::Tensor& tensor, const std::string& file);

// Appends to a file, in one piece.
void append(const std::string& file, const std::string& text);

// Makes a directory that holds no run yet: `wanted`, else `wanted`.1, `wanted`.2, ... Returns its
// absolute path.
std::string new_directory(const std::string& wanted);

}  // namespace wir::runtime
