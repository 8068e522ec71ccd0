"""The languages of kernels that the library knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from wrapper_ir.devices.kind import KernelLanguage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CPP: Final = KernelLanguage("C++", "C++ kernels do not run on {device}", suffix=".cpp")
"""Functions of this process, compiled by the C++ compiler."""

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
"""Triton's language; its compiler is a package of Python."""


class Launcher(Protocol):
    """The kernels of one emitted file in a vendor's language, for one device.

    The file makes one of the :class:`torch.device`, adds its kernels and loads them all at once. It
    then calls each with the sizes of its grid, a tuple of up to three integers, and an argument for
    each parameter: a tensor or a number. A launch goes to the device's current stream, which stands
    between them where the language says how it is found (``KernelLanguage.stream``).
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
            params: The types of its parameters as the text form has them: ``in f32``, ``out f32``
                or ``inout f32`` for tensors, ``i64``, ``f64``, ``bool`` and so on for numbers.
            code: Its source.
            entry: The function's name in the source.
            group: The size of a work-group; empty to choose one.
            options: What the program says besides.
        """

    def load(self) -> tuple[Callable[..., None], ...]:
        """Compile the kernels, and return a callable for each, in the order of their adding."""
