"""wrapper_ir: the host-side program around compiled kernels, as a typed value.

    import wrapper_ir as wir

    program = wir.capture(model, (x,))     # Inductor schedules, we keep the wrapper as a Program
    wir.verify(program)                    # every rule, all diagnostics at once
    print(program)                         # the text form; wir.parse reads it back
    call = wir.compile(program)            # plan memory, emit Python, load

Importing this package imports neither torch nor sympy: each public name is looked up in its own
module on first use (PEP 562). The command line therefore starts quickly, and the torch-free
packages work without torch installed.

``wir.verify`` is the *function*, even though a package ``wrapper_ir.verify`` exists; see
``_Package`` below. Import from that package by name: ``from wrapper_ir.verify import ...``.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    # The two tables below, as type checkers see them; a test keeps them in sync.
    from wrapper_ir import build as build
    from wrapper_ir import debug_printer as debug_printer
    from wrapper_ir import debugging as debugging
    from wrapper_ir import devices as devices
    from wrapper_ir import diffing as diffing
    from wrapper_ir import emitters as emitters
    from wrapper_ir import errors as errors
    from wrapper_ir import explorer as explorer
    from wrapper_ir import frontends as frontends
    from wrapper_ir import interpreter as interpreter
    from wrapper_ir import lines as lines
    from wrapper_ir import passes as passes
    from wrapper_ir import planning as planning
    from wrapper_ir import runtime as runtime
    from wrapper_ir import testing as testing
    from wrapper_ir import text as text
    from wrapper_ir.aot.meanwhile import wait_for_builds as wait_for_builds
    from wrapper_ir.aot.package.loader import load_package as load_package
    from wrapper_ir.aot.source.checking import check_folder as check_folder
    from wrapper_ir.api import compile as compile
    from wrapper_ir.api import cuda_graph_status as cuda_graph_status
    from wrapper_ir.api import emit as emit
    from wrapper_ir.api import export as export
    from wrapper_ir.api import lower as lower
    from wrapper_ir.api import prepare as prepare
    from wrapper_ir.api import release_kept_memory as release_kept_memory
    from wrapper_ir.build import Builder as Builder
    from wrapper_ir.debug_printer import DebugPrinter as DebugPrinter
    from wrapper_ir.debug_printer import insert_probes as insert_probes
    from wrapper_ir.debugging.validation import validate as validate
    from wrapper_ir.devices import register_device as register_device
    from wrapper_ir.diffing import ProgramDiff as ProgramDiff
    from wrapper_ir.diffing import canonical as canonical
    from wrapper_ir.diffing import diff as diff
    from wrapper_ir.diffing import structure as structure
    from wrapper_ir.emitters import register_emitter as register_emitter
    from wrapper_ir.errors import OptionError as OptionError
    from wrapper_ir.errors import UnsupportedError as UnsupportedError
    from wrapper_ir.errors import WrapperIRError as WrapperIRError
    from wrapper_ir.explorer import explore as explore
    from wrapper_ir.frontends.aten import from_fx as from_fx
    from wrapper_ir.frontends.inductor.capture_model import capture as capture
    from wrapper_ir.frontends.inductor.explain import explain_call as explain_call
    from wrapper_ir.frontends.inductor.jitted import jit as jit
    from wrapper_ir.frontends.inductor.session import record as record
    from wrapper_ir.interpreter import interpret as interpret
    from wrapper_ir.lines import *  # noqa: F403 - its __all__ is public here as a whole
    from wrapper_ir.options.process import settings as settings
    from wrapper_ir.passes import plan_memory as plan_memory
    from wrapper_ir.runtime.kept import keep_malloc_memory as keep_malloc_memory
    from wrapper_ir.text import load as load
    from wrapper_ir.text import parse as parse
    from wrapper_ir.text import print_program as print_program
    from wrapper_ir.verify import VerificationError as VerificationError
    from wrapper_ir.verify import diagnose as diagnose
    from wrapper_ir.verify import verify as verify
    from wrapper_ir.verify.ranks import verify_ranks as verify_ranks

__version__ = "0.1.0"

#: Module -> the public names that it defines.
_DEFINED_IN = {
    "aot.source.checking": ("check_folder",),
    "aot.meanwhile": ("wait_for_builds",),
    "aot.package.loader": ("load_package",),
    "api": (
        *("compile", "cuda_graph_status", "emit", "export", "lower", "prepare"),
        "release_kept_memory",
    ),
    "build": ("Builder",),
    "debug_printer": ("DebugPrinter", "insert_probes"),
    "debugging.validation": ("validate",),
    "devices": ("register_device",),
    "diffing": ("ProgramDiff", "canonical", "diff", "structure"),
    "emitters": ("register_emitter",),
    "errors": ("OptionError", "UnsupportedError", "WrapperIRError"),
    "explorer": ("explore",),
    "frontends.aten": ("from_fx",),
    "frontends.inductor.capture_model": ("capture",),
    "frontends.inductor.explain": ("explain_call",),
    "frontends.inductor.jitted": ("jit",),
    "frontends.inductor.session": ("record",),
    "interpreter": ("interpret",),
    "options.process": ("settings",),
    "passes": ("plan_memory",),
    "runtime.kept": ("keep_malloc_memory",),
    "text": ("load", "parse", "print_program"),
    "verify": ("VerificationError", "diagnose", "verify"),
    "verify.ranks": ("verify_ranks",),
}

#: Public name -> the module that defines it.
_EXPORTS = {name: f"wrapper_ir.{each}" for each, names in _DEFINED_IN.items() for name in names}

#: Older name -> public name.
_RENAMED = {"keep_freed_memory": "keep_malloc_memory", "release": "release_kept_memory"}

#: Submodules available as attributes without importing them first.
_SUBMODULES = (
    *("build", "debug_printer", "debugging", "devices", "diffing", "emitters", "errors"),
    "explorer",
    *("frontends", "interpreter", "lines", "passes", "planning", "runtime", "testing", "text"),
)

#: The module whose ``__all__`` is also public here: Program, Layout and every line class.
_LINES = "wrapper_ir.lines"

_declared = names_of(
    __name__, {f"wrapper_ir.{each}": names for each, names in _DEFINED_IN.items()}, _SUBMODULES
)


def _look_up(name: str) -> object:
    """Look up a public name in the module that defines it, and cache it here (PEP 562)."""
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"wir.{name} is called wir.{new} now", DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[__name__], new)
    if name in _EXPORTS or name in _SUBMODULES or name.startswith("_") or name not in _line_names():
        return _declared(name)
    found: object = getattr(importlib.import_module(_LINES), name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:
    # Hidden from type checkers: to them, a module with __getattr__ has every possible name.
    __getattr__ = _look_up


def __dir__() -> list[str]:
    """List the module's attributes and every name that ``_look_up`` can resolve."""
    return sorted({*globals(), *_EXPORTS, *_SUBMODULES, *_line_names()})


def _line_names() -> tuple[str, ...]:
    # __all__ may not exist yet while wrapper_ir.lines itself is being imported.
    return tuple(getattr(importlib.import_module(_LINES), "__all__", ()))


class _Package(ModuleType):
    """The type of this module: keeps a submodule from shadowing the function of the same name.

    Importing ``wrapper_ir.verify`` makes the import system assign the module to its parent's
    attribute ``verify``. Ignoring that one assignment keeps the function visible; the module stays
    in ``sys.modules``, where ``from wrapper_ir.verify import x`` finds it.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _EXPORTS and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
