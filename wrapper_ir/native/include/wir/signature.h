// Whether a kernel takes the parameters with which other files declare it. C has no types that a
// linker could compare: a number for a parameter that is a reference would be taken for an address.
#pragma once

#include <cstdint>
#include <type_traits>

namespace wir_signatures {

struct Pointer {};

// Whether a parameter takes an argument that is passed as another type, in the same register.
template <class Given, class Taken>
constexpr bool takes =
    std::is_same_v<Given, Pointer> ? std::is_pointer_v<Taken>
    : std::is_integral_v<Given>    ? std::is_integral_v<Taken> && sizeof(Taken) <= sizeof(Given)
                                   : std::is_same_v<Given, Taken>;

template <class... Given, class Result, class... Taken>
constexpr bool fits(Result (*)(Taken...)) {
  if constexpr (sizeof...(Given) != sizeof...(Taken)) {
    return false;
  } else {
    return (takes<Given, Taken> && ...);
  }
}

}  // namespace wir_signatures
