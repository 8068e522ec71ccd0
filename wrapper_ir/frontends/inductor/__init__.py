"""The Inductor front end: Inductor schedules and writes kernels; the wrapper around them is ours.

``install`` routes every compilation in a block through us, ``record`` collects the programs that
are made, ``explain_call`` tells where the time of a call goes, ``capture`` makes one program of a
model, and ``jit`` those that its calls need. All of them use the slots in which Inductor registers
backends for a device; see ``registration``.

Round an export and ahead-of-time compilation there are five modules:

- ``capture_model`` is ``capture``: it exports a model and makes its program.
- ``aot_compile`` has Inductor lower a graph ahead of time, for that and for libraries and packages.
- ``export_guards`` reads what ``torch.export`` assumed of sizes, and warns of what is lost.
- ``dropped_facts`` keeps what Inductor drops on the way, and gives it back to the program.
- ``output_code`` makes the module text that Inductor expects, stores in caches and executes.

``capture``, ``explain_call``, ``jit`` and the errors of ``mismatches`` are imported on first use
(PEP 562): ``torch.compile`` with a graph from a cache needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.frontends.inductor.errors import (
    CaptureError,
    ContractWarning,
    InstallOrderError,
    JitError,
    NothingCalledError,
    UnsupportedConfigError,
    UnsupportedDeviceError,
    UnsupportedLineError,
    UnsupportedTorchError,
)
from wrapper_ir.frontends.inductor.untried import named
from wrapper_ir.frontends.releases import UntriedTorchWarning
from wrapper_ir.lazy import names_of

with named():
    from wrapper_ir.frontends.inductor.overlaps import OpByOpWarning
    from wrapper_ir.frontends.inductor.registration import Installation, install, uninstall
    from wrapper_ir.frontends.inductor.session import (
        Statistics,
        StockFallbackWarning,
        record,
        statistics,
    )
    from wrapper_ir.frontends.inductor.settings import Settings

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.capture_model import capture
    from wrapper_ir.frontends.inductor.explain import CallReport, GraphTime, Guard, explain_call
    from wrapper_ir.frontends.inductor.export_guards import FixedSizeWarning, LostSizesWarning
    from wrapper_ir.frontends.inductor.jitted import EagerCallWarning, Jitted, jit
    from wrapper_ir.frontends.inductor.mismatches import ContractError, GraphMismatchError

__all__ = [
    "CallReport",
    "CaptureError",
    "ContractError",
    "ContractWarning",
    "EagerCallWarning",
    "FixedSizeWarning",
    "GraphMismatchError",
    "GraphTime",
    "Guard",
    "InstallOrderError",
    "Installation",
    "JitError",
    "Jitted",
    "LostSizesWarning",
    "NothingCalledError",
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
    "explain_call",
    "install",
    "jit",
    "record",
    "statistics",
    "uninstall",
]

if not TYPE_CHECKING:
    _places = {
        ".capture_model": ("capture",),
        ".explain": ("CallReport", "GraphTime", "Guard", "explain_call"),
        ".export_guards": ("FixedSizeWarning", "LostSizesWarning"),
        ".jitted": ("EagerCallWarning", "Jitted", "jit"),
        ".mismatches": ("ContractError", "GraphMismatchError"),
    }
    __getattr__ = names_of(__name__, _places)
