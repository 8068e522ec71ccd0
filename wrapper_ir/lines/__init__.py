"""The IR: typed, immutable wrapper lines and the program that holds them. Does not import torch."""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from wrapper_ir.lines.args import *
from wrapper_ir.lines.base import *
from wrapper_ir.lines.control import *
from wrapper_ir.lines.effects import *
from wrapper_ir.lines.expr import Dim as Dim
from wrapper_ir.lines.expr import Scalar as Scalar
from wrapper_ir.lines.expr import UnsupportedExprError as UnsupportedExprError
from wrapper_ir.lines.expr import dim as dim
from wrapper_ir.lines.expr import real_symbol as real_symbol
from wrapper_ir.lines.expr import scalar as scalar
from wrapper_ir.lines.expr import symbol as symbol
from wrapper_ir.lines.fields import NotAProgramError as NotAProgramError
from wrapper_ir.lines.kernels import *
from wrapper_ir.lines.layout import *
from wrapper_ir.lines.memory import *
from wrapper_ir.lines.program import *
from wrapper_ir.lines.schema import *
from wrapper_ir.lines.symbols import *
from wrapper_ir.lines.trace import *
from wrapper_ir.lines.traits import regions_of as regions_of
from wrapper_ir.lines.visitor import *
from wrapper_ir.lines.walk import *

if not TYPE_CHECKING:  # to type checkers, all that is imported above is public
    __all__ = sorted(
        name
        for name, value in globals().items()
        if not (name.startswith("_") or name in ("annotations", "ModuleType", "TYPE_CHECKING"))
        and not isinstance(value, ModuleType)
    )
