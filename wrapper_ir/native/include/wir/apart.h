// Inputs that share memory, for programs that are wrong for some of them. wrapper_ir/runtime/apart.py
// explains the search.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <numeric>
#include <vector>

#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/tensor.h>

namespace wir {

// An input under its name.
struct Named {
  const char* name;
  AtenTensorHandle tensor;
};

namespace apart {

// A tensor's memory: its first byte, the one after its last, and the steps of its dimensions.
struct Memory {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t item = 0;
  std::int64_t rank = 0;
  const std::int64_t* size = nullptr;
  const std::int64_t* stride = nullptr;

  explicit Memory(AtenTensorHandle tensor) {
    std::int32_t dtype = 0;
    check(aoti_torch_get_dtype(tensor, &dtype));
    check(aoti_torch_get_dim(tensor, &rank));
    item = static_cast<std::int64_t>(aoti_torch_dtype_element_size(dtype));
    size = sizes(tensor);
    stride = strides(tensor);
    begin = end = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(data(tensor)));
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (size[d] == 0) return;
      last += (size[d] - 1) * stride[d];
    }
    end += (last + 1) * item;
  }
  bool meets(const Memory& other) const { return begin < other.end && other.begin < end; }
};

struct Factors {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

struct Term {
  std::int64_t step;
  Factors factors;
};

// What the terms from a position on add up to.
struct Reach {
  std::int64_t least = 0;
  std::int64_t greatest = 0;
  std::int64_t divisor = 0;
};

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

class Search {
 public:
  explicit Search(std::vector<Term> terms) : terms_(std::move(terms)), rest_(terms_.size() + 1) {
    for (std::size_t n = terms_.size(); n-- > 0;) {
      const auto& [step, factors] = terms_[n];
      rest_[n] = {rest_[n + 1].least + step * factors.low,
                  rest_[n + 1].greatest + step * factors.high,
                  std::gcd(rest_[n + 1].divisor, step)};
    }
  }

  // True if the terms from `position` on can add up to `wanted`.
  bool finds(std::int64_t wanted, std::size_t position = 0) {
    if (--steps_ < 0) return true;
    const Reach& reach = rest_[position];
    if (wanted < reach.least || wanted > reach.greatest) return false;
    if (reach.divisor != 0 && wanted % reach.divisor != 0) return false;
    if (position == terms_.size()) return true;
    const auto& [step, factors] = terms_[position];
    const Reach& next = rest_[position + 1];
    std::int64_t factor = std::max(factors.low, -floor_div(next.greatest - wanted, step));
    const std::int64_t last = std::min(factors.high, floor_div(wanted - next.least, step));
    for (; factor <= last; ++factor) {
      if (finds(wanted - step * factor, position + 1)) return true;
    }
    return false;
  }

 private:
  std::vector<Term> terms_;
  std::vector<Reach> rest_;
  int steps_ = 1000;
};

inline bool share(const Memory& one, const Memory& other) {
  std::map<std::int64_t, Factors, std::greater<>> steps;
  auto add = [&steps](std::int64_t count, std::int64_t step, bool is_first) {
    if (step == 0) return;
    (is_first ? steps[step].high : steps[step].low) += is_first ? count - 1 : 1 - count;
  };
  for (const Memory* memory : {&one, &other}) {
    const bool is_first = memory == &one;
    add(memory->item, 1, is_first);
    for (std::int64_t d = 0; d < memory->rank; ++d) {
      add(memory->size[d], memory->stride[d] * memory->item, is_first);
    }
  }
  std::vector<Term> terms;
  for (const auto& [step, factors] : steps) terms.push_back({step, factors});
  return Search(std::move(terms)).finds(other.begin - one.begin);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const char* written, const char* other) {
  throw Error("WIR2158",
              "inputs '{written}' and '{other}' share memory, and the program writes to '{written}'",
              {written, other, written},
              "pass a copy of one of them: the program takes them for separate tensors");
}

// True if no tensor begins before another one that begins earlier has ended.
inline bool are_in_a_row(std::vector<Memory> memories) {
  std::sort(memories.begin(), memories.end(),
            [](const Memory& one, const Memory& other) { return one.begin < other.begin; });
  for (std::size_t n = 1; n < memories.size(); ++n) {
    if (memories[n - 1].end > memories[n].begin) return false;
  }
  return true;
}

}  // namespace apart

// Checks that each of the first `written` inputs shares memory with no other one.
inline void check_apart(std::size_t written, std::initializer_list<Named> inputs) {
  std::vector<apart::Memory> memories;
  memories.reserve(inputs.size());
  for (const Named& input : inputs) memories.emplace_back(input.tensor);
  if (apart::are_in_a_row(memories)) return;
  for (std::size_t i = 0; i < written; ++i) {
    for (std::size_t j = i + 1; j < memories.size(); ++j) {
      if (!memories[i].meets(memories[j])) continue;
      if (apart::share(memories[i], memories[j])) {
        apart::refuse(inputs.begin()[i].name, inputs.begin()[j].name);
      }
    }
  }
}

}  // namespace wir
