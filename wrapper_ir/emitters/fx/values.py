"""``node.meta["val"]``: fake tensors and symbolic numbers, made from the program's own layouts.

Nothing is propagated: a program says the layout of every buffer, and each symbol becomes one
symbolic number of a ``ShapeEnv``, with its hint and range. So values are there for every node that
has a buffer, whatever op made it.

``FakeTensorMode`` and ``ShapeEnv`` are not promised by torch, and every tool that reads
``meta["val"]`` expects them. Where they are missing, or cannot say something (a device that this
build of torch does not know), nodes have no value and the graph is otherwise the same.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from typing_extensions import override

from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.exprs import lower
from wrapper_ir.lines.program import SymbolKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.lines.expr import Dim
    from wrapper_ir.lines.layout import Layout
    from wrapper_ir.lines.program import Program, SymbolInfo


#: What torch raises where it cannot make a value or work one out.
_FAILURES: Final = (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError)


class NoValues:
    """Leaves nodes without values."""

    def tensor(self, node: fx.Node, layout: Layout) -> None:
        """A node is a tensor of this layout."""

    def symbol(self, node: Any, name: str) -> None:
        """A node is what a symbol stands for."""

    def computed(self, node: fx.Node) -> None:
        """A node is computed from numbers."""


class Values(NoValues):
    """Gives values to the nodes of one program's graphs.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._numbers: dict[str, Any] = {}
        self._shapes = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, allow_non_fake_inputs=True)

    @override
    def tensor(self, node: fx.Node, layout: Layout) -> None:
        with contextlib.suppress(*_FAILURES):
            node.meta["val"] = self._fake(layout)

    @override
    def symbol(self, node: Any, name: str) -> None:
        if isinstance(node, fx.Node):
            with contextlib.suppress(*_FAILURES):
                node.meta["val"] = self._number(name)

    @override
    def computed(self, node: fx.Node) -> None:
        def known(arg: Any) -> Any:
            return arg.meta["val"] if isinstance(arg, fx.Node) else arg

        with contextlib.suppress(KeyError, *_FAILURES):
            assert callable(node.target)
            node.meta["val"] = node.target(*map(known, node.args))

    def _fake(self, layout: Layout) -> Tensor:
        size, stride = self._evaluated(layout.size), self._evaluated(layout.stride)
        (offset,) = self._evaluated((layout.offset,))
        dtype = getattr(torch, layout.dtype.torch_name)
        device = torch.device(str(layout.device))
        with self._mode:
            if type(offset) is int and offset == 0:
                return torch.empty_strided(size, stride, dtype=dtype, device=device)
            (extent,) = self._evaluated((layout.extent,))
            whole = torch.empty_strided((offset + extent,), (1,), dtype=dtype, device=device)
            return whole.as_strided(size, stride, offset)

    def _evaluated(self, values: Iterable[Dim]) -> list[Any]:
        return [lower(v, self._number, lambda function, *args: function(*args)) for v in values]

    def _number(self, name: str) -> Any:
        if name not in self._numbers:
            self._numbers[name] = self._symbolic(self._program.symbols[name])
        return self._numbers[name]

    def _symbolic(self, info: SymbolInfo) -> Any:
        """A new symbolic number; one with a hint where torch can use it."""
        if info.kind is SymbolKind.FLOAT:
            return self._shapes.create_unbacked_symfloat()
        if info.kind is SymbolKind.BOOL:
            return self._shapes.create_unbacked_symbool()
        if info.kind is SymbolKind.NONE:
            return None
        # Torch takes sizes below 2 for fixed ones.
        if info.hint is not None and info.hint >= 2 and not info.unbacked:
            context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
            sample = torch.empty(info.hint, device="meta")
            number: Any = self._mode.from_tensor(sample, symbolic_context=context).shape[0]
            low, high = max(info.lower or 0, 2), info.upper
            if isinstance(number, torch.SymInt):
                limit = sys.maxsize - 1 if high is None else high
                self._shapes.constrain_symbol_range(number.node.expr, low, limit)
            return number
        number = self._shapes.create_unbacked_symint()
        if info.lower is not None:
            library.know(number >= info.lower)
        if info.upper is not None:
            library.know(number <= info.upper)
        return number
