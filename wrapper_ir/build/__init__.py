"""The builder: the front end for programs written by hand. Needs no torch."""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.build import values
from wrapper_ir.build.builder import Builder
from wrapper_ir.build.values import *

__all__ = ["Builder"]
__all__ += values.__all__
