"""Witness programs: they record memory use, addresses, and the order and state of calls.

The results of corpus programs cannot show that memory is freed early, that calls run with autograd
off, or that a launch gets its grid in the right order. These programs do, through kernels and ops
of the kit that record their observations.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.devices import KernelLanguage, accelerators, kind_of, register_device
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from wrapper_ir.lines.program import Program

BYTES: Final = 4 << 20
"""The size of the large buffers in these programs, too large for emitters to keep between calls."""

_KERNELS: Final = """
kernel @fill(out: out f32, n: i64) cpp
  | extern "C" void kernel(float* out, const long n)
  | {
  |     for (long i = 0; i < n; ++i) out[i] = i % 7;
  | }

kernel @in_use(out: inout i64, at: i64) cpp
  | #include <malloc.h>
  | extern "C" void kernel(long* out, const long at)
  | {
  |     const auto found = mallinfo2();
  |     out[at] = found.uordblks + found.hblkhd;
  | }

kernel @address(x: in f32, out: inout i64, at: i64) cpp
  | extern "C" void kernel(const float* x, long* out, const long at)
  | {
  |     out[at] = reinterpret_cast<long>(x);
  | }

kernel @add_one(x: inout i64) cpp
  | extern "C" void kernel(long* x)
  | {
  |     x[0] += 1;
  | }

kernel @less(x: in i64, out: out bool, limit: i64) cpp
  | extern "C" void kernel(const long* x, bool* out, const long limit)
  | {
  |     out[0] = x[0] < limit;
  | }

kernel @keep(out: inout f64, at: i64, a: i64, b: f64, c: f32, d: i32, e: u64, f: bool) cpp
  | extern "C" void kernel(double* out, const long at, const long a, const double b, const float c,
  |                        const int d, const unsigned long e, const bool f)
  | {
  |     double* p = out + at;
  |     p[0] = a, p[1] = b, p[2] = c, p[3] = d, p[4] = e, p[5] = f;
  | }
"""

#: Program bodies by name. Measuring programs take ``%w``, and the kernels write to it.
_PROGRAMS: Final[Mapping[str, str]] = {
    "frees": """
input %w : i64[8] @cpu
{kernels}
  call @in_use(inout %w, 0)
  %a = allocate : f32[1048576] @cpu
  call @fill(out %a, 1048576)
  call @in_use(inout %w, 1)
  call @address(%a, inout %w, 4)
  free %a
  call @in_use(inout %w, 2)
  %b = allocate : f32[1048576] @cpu
  call @fill(out %b, 1048576)
  call @in_use(inout %w, 3)
  free %b
return none
""",
    "donated": """
input %x : f32[1048576] @cpu donated
input %w : i64[4] @cpu
{kernels}
  call @in_use(inout %w, 0)
  call @address(%x, inout %w, 2)
  free %x
  call @in_use(inout %w, 1)
return none
""",
    "reused": """
input %w : i64[8] @cpu
{kernels}
  %a = allocate : f32[1048576] @cpu
  call @fill(out %a, 1048576)
  call @address(%a, inout %w, 0)
  call @in_use(inout %w, 1)
  %b = reuse %a : f32[1024, 512] @cpu
  call @address(%b, inout %w, 2)
  call @in_use(inout %w, 3)
  %c = reinterpret %b : f32[512]+1024 @cpu
  call @address(%c, inout %w, 4)
return %b
""",
    "pooled": """
input %w : i64[8] @cpu
{kernels}
  call @in_use(inout %w, 0)
  %pool = allocate_pool : u8[8388608] @cpu
  %a = allocate_from_pool %pool[0] : f32[1048576] @cpu
  call @fill(out %a, 1048576)
  call @address(%a, inout %w, 1)
  %b = allocate_from_pool %pool[4194304] : f32[1048576] @cpu
  call @fill(out %b, 1048576)
  call @address(%b, inout %w, 2)
  call @in_use(inout %w, 3)
  free %a
  free %b
  free %pool
  call @in_use(inout %w, 4)
return none
""",
    "looped": """
input %i : i64[] @cpu
input %w : i64[4] @cpu
{kernels}
  call @in_use(inout %w, 0)
  %x = allocate : f32[1048576] @cpu
  call @fill(out %x, 1048576)
  (%n, %y) = while (%i, %x) : (i64[] @cpu, f32[1048576] @cpu)
    condition (%i0 : i64[] @cpu, %x0 : f32[1048576] @cpu) {
      %more = allocate : bool[] @cpu
      call @less(%i0, out %more, 6)
      yield %more
    }
    body (%i1 : i64[] @cpu, %x1 : f32[1048576] @cpu) {
      %next = aten::add.Scalar(%i1, 1) : i64[] @cpu
      %made = allocate : f32[1048576] @cpu
      call @fill(out %made, 1048576)
      %gone = allocate : f32[1048576] @cpu
      call @fill(out %gone, 1048576)
      free %gone
      yield %next, %made
    }
  free %x
  call @in_use(inout %w, 1)
return %n, %y
""",
    "aligned": """
input %w : i64[8] @cpu
{kernels}
  %a = allocate : f32[3] @cpu
  call @address(%a, inout %w, 0)
  %b = allocate : f32[5] @cpu
  call @address(%b, inout %w, 1)
  %c = allocate : f32[33] @cpu
  call @address(%c, inout %w, 2)
  %pool = allocate_pool : u8[256] @cpu
  %d = allocate_from_pool %pool[64] : f32[3] @cpu
  call @address(%d, inout %w, 3)
  free %d
  free %pool
return %a, %b, %c
""",
    "numbers": """
symbol n : int [-inf, inf]
symbol z : float
input n
input z
{kernels}
  %y = allocate : f64[12] @cpu
  call @keep(inout %y, 0, 1099511627776, 0.1, 0.1, -2147483648, 255, true)
  call @keep(inout %y, 6, n - 1, z / 3, z, n // 1000000007, n % 251, n < 0)
return %y
""",
    "copies": """
input %x : f32[8] @cpu
input %y : f32[8] @cpu
extern aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
  %a = allocate : f32[8] @cpu
  aten::copy_(inout %a, %x)
  aten::copy_(inout %a, %y)
  aten::copy_(inout %y, %x)
return %a
""",
    "notes": """
input %x : f32[4] @cpu
extern wrapper_ir_kit::note(Tensor x, int at) -> ()
extern aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
  wrapper_ir_kit::note(%x, 1)
  %y = aten::mul.Tensor(%x, %x) : f32[4] @cpu
  wrapper_ir_kit::note(%y, 2)
  wrapper_ir_kit::note(%x, 3)
return %y
""",
    "lies": """
symbol n : int [1, 8] hint 4
input n
input %x : f32[4, 4] @cpu
extern wrapper_ir_kit::made(Tensor x, int n) -> Tensor
  %y = wrapper_ir_kit::made(%x, n) : f32[4, 4] @cpu
  assert_layout %y, "wrapper_ir_kit.made"
return %y
""",
    "streamed": """
input %x : f32[64] @{accelerator}:0
stream 1 @{accelerator}:0
stream 2 @{accelerator}:0
event 1
event 2
event 3
extern aten::neg_(Tensor(a!) self) -> Tensor(a!)
  record_event 1 @{accelerator}:0
  wait_event 1 @{accelerator}:0 stream 1
  wait_event 1 @{accelerator}:0 stream 2
  aten::neg_(inout %x) @{accelerator}:0 stream 1
  record_event 2 @{accelerator}:0 stream 1
  record_event 3 @{accelerator}:0 stream 2
  wait_event 2 @{accelerator}:0
  wait_event 3 @{accelerator}:0
return none
""",
    "launches": """
symbol n : int [1, 64] hint 5
input n
input %x : f32[8] @cpu
kernel @watched(x: inout f32, n: i64) language "wrapper_ir_kit" entry "watched" group [3, 5, 7]
  | nothing
  call @watched(inout %x, n + 2) grid [n, 11, 13]
return none
""",
}


def witness(name: str) -> Program:
    """Parse one of the programs."""
    body = _PROGRAMS[name].replace("{kernels}", _EXTERNS + _KERNELS)
    body = body.replace("{accelerator}", next(accelerators()).type)
    return parse(f"wir 2\nprogram @{name} inference planned\n{body}")


_EXTERNS: Final = "extern aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor\n"


# Memory of the process.


def in_use() -> int:
    """Return the number of bytes allocated on this process's heap."""
    libc = _libc()
    assert libc is not None
    usage = libc.mallinfo2()
    return int(usage.uordblks) + int(usage.hblkhd)


def can_measure() -> bool:
    """Return whether the C library reports allocated memory and can fill it."""
    return _libc() is not None


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Fill allocated and freed memory with garbage, if the C library supports that.

    Then memory that should be zeroed is not zero by luck, and a use after free reads other values.
    """
    libc = _libc()
    if libc is None:
        yield
        return
    libc.mallopt(_M_PERTURB, 0x5A)
    try:
        yield
    finally:
        libc.mallopt(_M_PERTURB, 0)


_M_PERTURB: Final = -6

_FIELDS: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


@cache
def _libc() -> ctypes.CDLL | None:
    """Return the C library if it is glibc 2.33 or newer."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo
    return libc


# Ops of the kit.


class Notes:
    """Recorded calls of the op ``note``: number, tensor, autograd state, autocast state."""

    found: list[tuple[int, list[float], bool, bool]] = []  # noqa: RUF012 - an op has no state


@cache
def declare_ops() -> object:
    """Register the kit's ops with torch for the rest of the process."""
    made: Any = torch.library.Library  # untyped
    library = made("wrapper_ir_kit", "FRAGMENT")
    library.define("note(Tensor x, int at) -> ()")
    library.define("made(Tensor x, int n) -> Tensor")
    library.impl("note", _note, "CompositeExplicitAutograd")
    library.impl("made", _made, "CompositeExplicitAutograd")
    return library


def _note(x: Tensor, at: int) -> None:
    # This kernel runs below autograd, so the tensor has to tell whether autograd was on.
    autograd = torch.is_grad_enabled() or x.requires_grad
    Notes.found.append((at, x.tolist(), autograd, torch.is_autocast_enabled("cpu")))


#: The result of ``made`` by its number: the declared layout for 4, other layouts otherwise.
LIES: Final[Mapping[int, Callable[[Tensor], Tensor]]] = {
    4: lambda x: x.clone(),
    5: lambda x: x.double(),
    6: lambda x: x.t().clone(memory_format=torch.preserve_format),
    7: lambda x: x.new_zeros((8, 4)),
}


def _made(x: Tensor, n: int) -> Tensor:
    return LIES[n](x)


# Launches of the kit.


class Launches:
    """A launcher for kernels in the kit's own language that only records the launches."""

    found: list[tuple[object, ...]] = []  # noqa: RUF012 - the launcher is made by emitted text

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = []

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
        """Add a kernel."""
        assert (code.strip(), options or {}) == ("nothing", {})
        self._names.append((entry, tuple(params), tuple(group)))

    def load(self) -> tuple[Callable[..., None], ...]:
        """Return a callable for each kernel."""
        return tuple(self._launch(name) for name in self._names)

    def _launch(self, kernel: tuple[object, ...]) -> Callable[..., None]:
        def launch(grid: tuple[int, ...], *args: object) -> None:
            numbers = tuple(arg for arg in args if not isinstance(arg, torch.Tensor))
            Launches.found.append((self._device.type, *kernel, tuple(grid), numbers))

        return launch


@contextlib.contextmanager
def launcher_known() -> Iterator[None]:
    """Register the kit's kernel language for the CPU within a block."""
    language = KernelLanguage("wrapper_ir_kit", has_grid=True, launcher=f"{__name__}:Launches")
    before = kind_of("cpu")
    taught = dataclasses.replace(before, languages=(*before.languages, language))
    register_device(taught, over=before)
    try:
        yield
    finally:
        register_device(before, over=taught)
