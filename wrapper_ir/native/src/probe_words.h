// The text that probes print, as described in docs/debug-printer.md.
#pragma once

#include <string>

#include "probe_values.h"

namespace wir::runtime {

// "f32[4, 64]", with strides if the tensor is not contiguous.
std::string layout_words(const at::Tensor& tensor);
// A tensor in one line: name, layout, statistics, values.
std::string described(const char* name, const at::Tensor& tensor);
// "x f32[4] in [-1, 2] with 1 NaN".
std::string range_words(const char* name, const at::Tensor& tensor);
// "(0, 5)"; with `as_tuple`, a single index is written like a Python tuple: "(5,)".
std::string index_words(const Index& index, bool as_tuple = false);

// Reals to six digits, integers exactly, truth values as "true" or "false".
std::string brief(const at::Scalar& number);
// As Python writes a float: the shortest text that reads back as the same number.
std::string repr(double value);
// As Python writes a complex number.
std::string repr(c10::complex<double> value);

}  // namespace wir::runtime
