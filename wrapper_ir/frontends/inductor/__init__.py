"""The Inductor front end: Inductor schedules and writes kernels; the wrapper around them is ours.

``install`` routes every compilation in a block through us, ``record`` collects the programs that
are made, and ``capture`` makes one program from a model. All of them use the slots in which
Inductor registers backends for a device; see ``registration``.
"""

from __future__ import annotations

from wrapper_ir.frontends.inductor.capture import capture
from wrapper_ir.frontends.inductor.errors import (
    CaptureError,
    InstallOrderError,
    UnsupportedConfigError,
    UnsupportedDeviceError,
    UnsupportedLineError,
    UnsupportedTorchError,
)
from wrapper_ir.frontends.inductor.exported import FixedSizeWarning
from wrapper_ir.frontends.inductor.install import Installation, install, uninstall
from wrapper_ir.frontends.inductor.session import (
    Statistics,
    StockFallbackWarning,
    record,
    statistics,
)
from wrapper_ir.frontends.inductor.settings import Settings
from wrapper_ir.frontends.releases import UntriedTorchWarning

__all__ = [
    "CaptureError",
    "FixedSizeWarning",
    "InstallOrderError",
    "Installation",
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
