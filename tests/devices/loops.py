"""A language of kernels that no emitter knows: C functions for one work-item, run in loops."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wrapper_ir.devices import CPU, KernelLanguage, register_device
from wrapper_ir.runtime import CppKernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch

    from wrapper_ir.devices import DeviceKind

LOOPS = KernelLanguage("loops", has_grid=True, launcher="tests.devices.loops:Loops")

IN_CPP = replace(LOOPS, cpp_launcher="loops::Kernel")

HEADER = """\
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include <wir/error.h>
#include <wir/launch.h>

namespace loops {

template <class... Params>
class Kernel {
 public:
  explicit Kernel(const wir::KernelText& text) : text_(text) {}

  void load(std::int32_t) {
    const std::lock_guard lock(mutex_);
    if (function_ != nullptr) return;
    char stem[] = "/tmp/loops-XXXXXX";
    close(mkstemp(stem));
    const std::string source = std::string(stem) + ".c";
    {
      std::ofstream file(source);
      for (std::size_t n = 0; n < text_.num_options; ++n) {
        file << "#define " << text_.options[n].name << ' ' << text_.options[n].value << '\\n';
      }
      file << "#include <stdint.h>\\n" << text_.code;
    }
    const bool failed = std::system(("cc -w -shared -fPIC " + source + " -o " + stem).c_str()) != 0;
    void* library = failed ? nullptr : dlopen(stem, RTLD_NOW);
    unlink(stem);
    unlink(source.c_str());
    if (library == nullptr) {
      throw wir::Error("LOOPS1", std::string("kernel '") + text_.name + "' does not compile");
    }
    function_ = reinterpret_cast<Function>(dlsym(library, text_.entry));
  }

  void operator()(wir::Call&, const wir::Grid& grid, Params... params) const {
    const std::int64_t group = text_.group[0] == 0 ? 1 : text_.group[0];
    for (std::int64_t at = 0; at < grid.x * group; ++at) function_(at, params...);
  }

 private:
  using Function = void (*)(std::int64_t, Params...);

  const wir::KernelText& text_;
  std::mutex mutex_;
  Function function_ = nullptr;
};

}  // namespace loops
"""


@contextmanager
def cpu_with(**changes: Any) -> Iterator[DeviceKind]:
    """A CPU whose kind is another in some fields, for the length of a block."""
    taught = replace(CPU, **changes)
    register_device(taught, over=CPU)
    try:
        yield taught
    finally:
        register_device(CPU, over=taught)


_NUMBERS = {"i64": "int64_t", "f64": "double"}

# The function gets where in the grid it is before its own arguments.
_LOOPED = """{prelude}#include <cstdint>
{code}
extern "C" void kernel(int64_t count, {declared}) {{
    for (int64_t at = 0; at < count * {group}; ++at) {entry}(at, {passed});
}}
"""


class Loops:
    """Launches kernels over grids of one size."""

    def __init__(self, device: torch.device) -> None:
        assert device.type == "cpu"
        self._kernels = CppKernels()

    def add(
        self,
        name: str,
        params: Sequence[str],
        code: str,
        *,
        entry: str,
        group: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        types = [_NUMBERS.get(type_) or _pointer(type_) for type_ in params]
        names = [f"p{n}" for n in range(len(types))]
        text = _LOOPED.format(
            prelude="".join(f"#define {key} {value}\n" for key, value in (options or {}).items()),
            code=code,
            declared=", ".join(f"{type_} {name}" for type_, name in zip(types, names, strict=True)),
            group=group[0] if group else 1,
            entry=entry,
            passed=", ".join(names),
        )
        self._kernels.add(name, ("int64_t", *types), text)

    def load(self) -> tuple[Callable[..., None], ...]:
        return tuple(_launch(each) for each in self._kernels.load())


def _launch(kernel: Callable[..., None]) -> Callable[..., None]:
    def launch(grid: tuple[int, ...], *args: Any) -> None:
        (count,) = grid
        kernel(count, *args)

    return launch


def _pointer(type_: str) -> str:
    access, dtype = type_.split()
    element = {"f32": "float", "i64": "int64_t"}[dtype]
    return f"const {element}*" if access == "in" else f"{element}*"
