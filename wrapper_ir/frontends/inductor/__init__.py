"""The Inductor front end: Inductor schedules and writes kernels; the wrapper around them is ours.

``install`` routes every compilation in a block through us, ``record`` collects the programs that
are made, and ``capture`` makes one program from a model. All of them use the slots in which
Inductor registers backends for a device; see ``registration``.

``capture`` is imported on first use (PEP 562): ``torch.compile`` does not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.frontends.inductor.errors import (
    CaptureError,
    InstallOrderError,
    UnsupportedConfigError,
    UnsupportedDeviceError,
    UnsupportedLineError,
    UnsupportedTorchError,
)
from wrapper_ir.frontends.inductor.install import Installation, install, uninstall
from wrapper_ir.frontends.inductor.overlaps import OpByOpWarning
from wrapper_ir.frontends.inductor.session import (
    Statistics,
    StockFallbackWarning,
    record,
    statistics,
)
from wrapper_ir.frontends.inductor.settings import Settings
from wrapper_ir.frontends.releases import UntriedTorchWarning
from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.capturing import capture
    from wrapper_ir.frontends.inductor.exported import FixedSizeWarning, LostSizesWarning

__all__ = [
    "CaptureError",
    "FixedSizeWarning",
    "InstallOrderError",
    "Installation",
    "LostSizesWarning",
    "OpByOpWarning",
    "Settings",
    "Statistics",
    "StockFallbackWarning",
    "UnsupportedConfigError",
    "UnsupportedDeviceError",
    "UnsupportedLineError",
    "UnsupportedTorchError",
    "UntriedTorchWarning",
    "capture",
    "install",
    "record",
    "statistics",
    "uninstall",
]

if not TYPE_CHECKING:
    __getattr__ = names_of(
        __name__,
        {".exported": ("FixedSizeWarning", "LostSizesWarning"), ".capturing": ("capture",)},
    )
