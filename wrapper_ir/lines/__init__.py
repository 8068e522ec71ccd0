"""The IR: typed, immutable wrapper lines and the program that holds them. Does not import torch."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from wrapper_ir.lines.args import Access as Access
from wrapper_ir.lines.args import Arg as Arg
from wrapper_ir.lines.args import BufferArg as BufferArg
from wrapper_ir.lines.args import BufferValue as BufferValue
from wrapper_ir.lines.args import CallResult as CallResult
from wrapper_ir.lines.args import DeviceArg as DeviceArg
from wrapper_ir.lines.args import DTypeArg as DTypeArg
from wrapper_ir.lines.args import EnumArg as EnumArg
from wrapper_ir.lines.args import EnumKind as EnumKind
from wrapper_ir.lines.args import ListArg as ListArg
from wrapper_ir.lines.args import NamedArg as NamedArg
from wrapper_ir.lines.args import NoneArg as NoneArg
from wrapper_ir.lines.args import NoneValue as NoneValue
from wrapper_ir.lines.args import ObjectArg as ObjectArg
from wrapper_ir.lines.args import OpResult as OpResult
from wrapper_ir.lines.args import Relation as Relation
from wrapper_ir.lines.args import ResultBuffer as ResultBuffer
from wrapper_ir.lines.args import ResultObject as ResultObject
from wrapper_ir.lines.args import ResultSymbol as ResultSymbol
from wrapper_ir.lines.args import ScalarArg as ScalarArg
from wrapper_ir.lines.args import ScalarValue as ScalarValue
from wrapper_ir.lines.args import StringArg as StringArg
from wrapper_ir.lines.args import Value as Value
from wrapper_ir.lines.base import Line as Line
from wrapper_ir.lines.base import OriginId as OriginId
from wrapper_ir.lines.base import Role as Role
from wrapper_ir.lines.control import SELECTOR_TYPES as SELECTOR_TYPES
from wrapper_ir.lines.control import BufferInput as BufferInput
from wrapper_ir.lines.control import Cond as Cond
from wrapper_ir.lines.control import Input as Input
from wrapper_ir.lines.control import ObjectInput as ObjectInput
from wrapper_ir.lines.control import Region as Region
from wrapper_ir.lines.control import RegionLine as RegionLine
from wrapper_ir.lines.control import ScalarInput as ScalarInput
from wrapper_ir.lines.control import Switch as Switch
from wrapper_ir.lines.control import While as While
from wrapper_ir.lines.control import passed_to_regions as passed_to_regions
from wrapper_ir.lines.effects import Alias as Alias
from wrapper_ir.lines.effects import Effects as Effects
from wrapper_ir.lines.effects import effects as effects
from wrapper_ir.lines.expr import Dim as Dim
from wrapper_ir.lines.expr import Scalar as Scalar
from wrapper_ir.lines.expr import UnsupportedExprError as UnsupportedExprError
from wrapper_ir.lines.expr import dim as dim
from wrapper_ir.lines.expr import real_symbol as real_symbol
from wrapper_ir.lines.expr import scalar as scalar
from wrapper_ir.lines.expr import symbol as symbol
from wrapper_ir.lines.fields import NotAProgramError as NotAProgramError
from wrapper_ir.lines.kernels import BufferParam as BufferParam
from wrapper_ir.lines.kernels import CppKernel as CppKernel
from wrapper_ir.lines.kernels import DeviceKernel as DeviceKernel
from wrapper_ir.lines.kernels import Event as Event
from wrapper_ir.lines.kernels import ExternKernel as ExternKernel
from wrapper_ir.lines.kernels import KernelCall as KernelCall
from wrapper_ir.lines.kernels import KernelDefinition as KernelDefinition
from wrapper_ir.lines.kernels import KernelSource as KernelSource
from wrapper_ir.lines.kernels import MemoryPool as MemoryPool
from wrapper_ir.lines.kernels import Param as Param
from wrapper_ir.lines.kernels import RecordEvent as RecordEvent
from wrapper_ir.lines.kernels import ScalarParam as ScalarParam
from wrapper_ir.lines.kernels import ScalarType as ScalarType
from wrapper_ir.lines.kernels import Stream as Stream
from wrapper_ir.lines.kernels import Synchronize as Synchronize
from wrapper_ir.lines.kernels import TorchOp as TorchOp
from wrapper_ir.lines.kernels import TritonKernel as TritonKernel
from wrapper_ir.lines.kernels import WaitEvent as WaitEvent
from wrapper_ir.lines.layout import CPU as CPU
from wrapper_ir.lines.layout import DTYPE_BY_SHORT_NAME as DTYPE_BY_SHORT_NAME
from wrapper_ir.lines.layout import Device as Device
from wrapper_ir.lines.layout import DType as DType
from wrapper_ir.lines.layout import Layout as Layout
from wrapper_ir.lines.layout import LayoutKind as LayoutKind
from wrapper_ir.lines.layout import OpaqueKind as OpaqueKind
from wrapper_ir.lines.layout import contiguous_strides as contiguous_strides
from wrapper_ir.lines.memory import USUAL as USUAL
from wrapper_ir.lines.memory import Allocate as Allocate
from wrapper_ir.lines.memory import AllocateFromPool as AllocateFromPool
from wrapper_ir.lines.memory import AllocatePool as AllocatePool
from wrapper_ir.lines.memory import Free as Free
from wrapper_ir.lines.memory import MemoryKind as MemoryKind
from wrapper_ir.lines.memory import Place as Place
from wrapper_ir.lines.memory import Reinterpret as Reinterpret
from wrapper_ir.lines.memory import Reuse as Reuse
from wrapper_ir.lines.program import SCHEMA_VERSION as SCHEMA_VERSION
from wrapper_ir.lines.program import AnyLine as AnyLine
from wrapper_ir.lines.program import Constant as Constant
from wrapper_ir.lines.program import ConstantKind as ConstantKind
from wrapper_ir.lines.program import Frame as Frame
from wrapper_ir.lines.program import FrozenMap as FrozenMap
from wrapper_ir.lines.program import GraphRole as GraphRole
from wrapper_ir.lines.program import ObjectConstant as ObjectConstant
from wrapper_ir.lines.program import Origin as Origin
from wrapper_ir.lines.program import Packing as Packing
from wrapper_ir.lines.program import Program as Program
from wrapper_ir.lines.program import Stage as Stage
from wrapper_ir.lines.program import SymbolInfo as SymbolInfo
from wrapper_ir.lines.program import SymbolKind as SymbolKind
from wrapper_ir.lines.schema import OpSchema as OpSchema
from wrapper_ir.lines.schema import SchemaArg as SchemaArg
from wrapper_ir.lines.schema import SchemaError as SchemaError
from wrapper_ir.lines.schema import SchemaType as SchemaType
from wrapper_ir.lines.schema import parse_schema as parse_schema
from wrapper_ir.lines.symbols import AssertApart as AssertApart
from wrapper_ir.lines.symbols import AssertLayout as AssertLayout
from wrapper_ir.lines.symbols import AssertSymbol as AssertSymbol
from wrapper_ir.lines.symbols import BindSymbol as BindSymbol
from wrapper_ir.lines.symbols import ComputeSymbol as ComputeSymbol
from wrapper_ir.lines.symbols import ItemOf as ItemOf
from wrapper_ir.lines.symbols import SizeOf as SizeOf
from wrapper_ir.lines.symbols import StorageOffsetOf as StorageOffsetOf
from wrapper_ir.lines.symbols import StrideOf as StrideOf
from wrapper_ir.lines.symbols import SymbolSource as SymbolSource
from wrapper_ir.lines.trace import Comment as Comment
from wrapper_ir.lines.trace import Probe as Probe
from wrapper_ir.lines.trace import ProbeLevel as ProbeLevel
from wrapper_ir.lines.trace import When as When
from wrapper_ir.lines.visitor import LineVisitor as LineVisitor
from wrapper_ir.lines.visitor import NotALineError as NotALineError
from wrapper_ir.lines.visitor import PartialLineVisitor as PartialLineVisitor
from wrapper_ir.lines.visitor import UnvisitedLineError as UnvisitedLineError
from wrapper_ir.lines.walk import FOLDING as FOLDING
from wrapper_ir.lines.walk import Path as Path
from wrapper_ir.lines.walk import Step as Step
from wrapper_ir.lines.walk import line_at as line_at
from wrapper_ir.lines.walk import map_regions as map_regions
from wrapper_ir.lines.walk import regions_of as regions_of
from wrapper_ir.lines.walk import rewrite_lines as rewrite_lines
from wrapper_ir.lines.walk import walk as walk
from wrapper_ir.lines.walk import walk_regions as walk_regions

if not TYPE_CHECKING:  # to type checkers, each ``import X as X`` above is public
    __all__ = sorted(
        name
        for name, value in globals().items()
        if not (name.startswith("_") or name in ("annotations", "ModuleType", "TYPE_CHECKING"))
        and not isinstance(value, ModuleType)
    )
