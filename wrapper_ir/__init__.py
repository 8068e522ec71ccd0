"""wrapper_ir: the host-side program around compiled kernels, as a typed value.

    import wrapper_ir as wir

    program = wir.capture(model, (x,))     # Inductor schedules, we keep the wrapper as a Program
    wir.verify(program)                    # every rule, all diagnostics at once
    print(program)                         # the text form; wir.parse reads it back
    call = wir.compile(program)            # plan memory, emit Python, load

Importing this package imports neither torch nor sympy: each public name is looked up in its own
module when it is first used (PEP 562). So the command line starts at once, and the packages that
need no torch can be used where there is none.

``wir.verify`` is the *function*, although a package ``wrapper_ir.verify`` exists too; see
``_Package`` below. From that package import by name: ``from wrapper_ir.verify import ...``.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # What type checkers see of the two tables below; a test keeps them in step.
    from wrapper_ir import build as build
    from wrapper_ir import debug_printer as debug_printer
    from wrapper_ir import debugging as debugging
    from wrapper_ir import devices as devices
    from wrapper_ir import diffing as diffing
    from wrapper_ir import emitters as emitters
    from wrapper_ir import errors as errors
    from wrapper_ir import frontends as frontends
    from wrapper_ir import interpreter as interpreter
    from wrapper_ir import lines as lines
    from wrapper_ir import passes as passes
    from wrapper_ir import planning as planning
    from wrapper_ir import runtime as runtime
    from wrapper_ir import testing as testing
    from wrapper_ir import text as text
    from wrapper_ir.aot.checking import check_folder as check_folder
    from wrapper_ir.aot.packages import load_package as load_package
    from wrapper_ir.api import compile as compile
    from wrapper_ir.api import cuda_graph_status as cuda_graph_status
    from wrapper_ir.api import emit as emit
    from wrapper_ir.api import export as export
    from wrapper_ir.api import release as release
    from wrapper_ir.build import Builder as Builder
    from wrapper_ir.debug_printer import DebugPrinter as DebugPrinter
    from wrapper_ir.debug_printer import insert_probes as insert_probes
    from wrapper_ir.devices import register_device as register_device
    from wrapper_ir.diffing import ProgramDiff as ProgramDiff
    from wrapper_ir.diffing import canonical as canonical
    from wrapper_ir.diffing import diff as diff
    from wrapper_ir.emitters import register_emitter as register_emitter
    from wrapper_ir.errors import OptionError as OptionError
    from wrapper_ir.errors import UnsupportedError as UnsupportedError
    from wrapper_ir.errors import WrapperIRError as WrapperIRError
    from wrapper_ir.frontends.aten import from_fx as from_fx
    from wrapper_ir.frontends.inductor.capture import capture as capture
    from wrapper_ir.frontends.inductor.session import record as record
    from wrapper_ir.interpreter import interpret as interpret
    from wrapper_ir.lines import *  # noqa: F403 - its __all__ is public here as a whole
    from wrapper_ir.options.process import settings as settings
    from wrapper_ir.planning import plan_memory as plan_memory
    from wrapper_ir.runtime.heap import keep_freed_memory as keep_freed_memory
    from wrapper_ir.text import load as load
    from wrapper_ir.text import parse as parse
    from wrapper_ir.text import print_program as print_program
    from wrapper_ir.verify import VerificationError as VerificationError
    from wrapper_ir.verify import diagnose as diagnose
    from wrapper_ir.verify import verify as verify

__version__ = "0.1.0"

#: Public name -> the module that defines it.
_EXPORTS = {
    "Builder": "wrapper_ir.build",
    "DebugPrinter": "wrapper_ir.debug_printer",
    "OptionError": "wrapper_ir.errors",
    "ProgramDiff": "wrapper_ir.diffing",
    "UnsupportedError": "wrapper_ir.errors",
    "VerificationError": "wrapper_ir.verify",
    "WrapperIRError": "wrapper_ir.errors",
    "canonical": "wrapper_ir.diffing",
    "capture": "wrapper_ir.frontends.inductor.capture",
    "check_folder": "wrapper_ir.aot.checking",
    "compile": "wrapper_ir.api",
    "cuda_graph_status": "wrapper_ir.api",
    "diagnose": "wrapper_ir.verify",
    "diff": "wrapper_ir.diffing",
    "emit": "wrapper_ir.api",
    "export": "wrapper_ir.api",
    "from_fx": "wrapper_ir.frontends.aten",
    "insert_probes": "wrapper_ir.debug_printer",
    "interpret": "wrapper_ir.interpreter",
    "keep_freed_memory": "wrapper_ir.runtime.heap",
    "load": "wrapper_ir.text",
    "load_package": "wrapper_ir.aot.packages",
    "parse": "wrapper_ir.text",
    "plan_memory": "wrapper_ir.planning",
    "print_program": "wrapper_ir.text",
    "record": "wrapper_ir.frontends.inductor.session",
    "register_device": "wrapper_ir.devices",
    "register_emitter": "wrapper_ir.emitters",
    "release": "wrapper_ir.api",
    "settings": "wrapper_ir.options.process",
    "verify": "wrapper_ir.verify",
}

#: Packages reachable as attributes without an import of their own.
_SUBMODULES = (
    "build",
    "debug_printer",
    "debugging",
    "devices",
    "diffing",
    "emitters",
    "errors",
    "frontends",
    "interpreter",
    "lines",
    "passes",
    "planning",
    "runtime",
    "testing",
    "text",
)

#: The module whose ``__all__`` is public here as well: Program, Layout and every line class.
_LINES = "wrapper_ir.lines"


def _look_up(name: str) -> object:
    """Look up a public name in the module that defines it, and keep it (PEP 562)."""
    value: object
    if name in _EXPORTS:
        value = getattr(importlib.import_module(_EXPORTS[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif not name.startswith("_") and name in _line_names():
        value = getattr(importlib.import_module(_LINES), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, for whom a module with __getattr__ has every name there is.
    __getattr__ = _look_up


def __dir__() -> list[str]:
    """List what ``_look_up`` would find, besides what is there already."""
    return sorted({*globals(), *_EXPORTS, *_SUBMODULES, *_line_names()})


def _line_names() -> tuple[str, ...]:
    # While wrapper_ir.lines itself is being imported its __all__ may not exist yet.
    return tuple(getattr(importlib.import_module(_LINES), "__all__", ()))


class _Package(ModuleType):
    """The type of this module: keeps a submodule from hiding the public function of its name.

    Importing ``wrapper_ir.verify`` makes the import system assign the module to the attribute
    ``verify`` of its parent. Dropping that one assignment leaves the function visible; the module
    stays in ``sys.modules``, which is where ``from wrapper_ir.verify import x`` finds it.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _EXPORTS and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
