"""The kernel languages that the library knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from wrapper_ir.devices.kind import KernelLanguage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CPP: Final = KernelLanguage("C++", "C++ kernels do not run on {device}", suffix=".cpp")
"""C++: functions in this process."""

TRITON: Final = KernelLanguage(
    "Triton",
    "Triton kernels are only launched on GPUs",
    has_grid=True,
    package="triton",
    suffix=".py",
    types={
        "f64": "fp64",
        "f32": "fp32",
        "f16": "fp16",
        "bf16": "bf16",
        "f8e4m3fn": "fp8e4nv",
        "f8e5m2": "fp8e5",
        **{name: name for name in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")},
        "bool": "i1",
    },
)
"""Triton, whose compiler is a Python package."""


class Launcher(Protocol):
    """The kernels of one emitted file in a vendor's language, for one device.

    The file constructs one from the :class:`torch.device`, adds its kernels and loads them all at
    once. It then calls each kernel with its grid, a tuple of up to three integers, and one argument
    for each parameter: a tensor or a number. A launch goes to the device's current stream; if the
    language has ``KernelLanguage.stream``, that stream is passed after the grid.
    """

    def __init__(self, device: Any) -> None: ...  # noqa: ANN401 - a torch.device

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
        """Add one kernel.

        Args:
            name: Its name, for messages.
            params: The types of its parameters in the text form's notation: ``in f32``, ``out f32``
                or ``inout f32`` for tensors, ``i64``, ``f64``, ``bool`` and so on for numbers.
            code: Its source.
            entry: The name of the function in the source.
            group: The work-group size; empty to let the launcher choose.
            options: Further options from the program.
        """

    def load(self) -> tuple[Callable[..., None], ...]:
        """Compile the kernels and return a callable for each, in the order they were added."""
