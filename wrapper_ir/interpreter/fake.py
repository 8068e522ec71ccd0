"""Calls of library ops without data: what torch says that they return.

An op of torch's has a meta function, which computes the layout of its results. If it gives the
declared layouts, the results need no check at run time. Meta functions of other libraries are
written apart from their ops, in Python mostly, and may say something else.

Sizes that vary take several values, chosen apart from each other. Two expressions that agree for
all of them are taken for the same.
"""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import wrapper_ir.lines as ir
from wrapper_ir.analysis.proof import within
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter.calls import find_op, part, value_of
from wrapper_ir.interpreter.frame import KINDS, Buffer, Frame, Number, device_of, dtype_of, evaluate
from wrapper_ir.lines.args import buffers_in
from wrapper_ir.lines.expr import free_symbols
from wrapper_ir.lines.traits import computes
from wrapper_ir.lines.walk import Renaming
from wrapper_ir.runtime._private import no_autocast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor


#: The first symbol's value and the steps to those of the next ones, besides the hints.
_SAMPLES: Final = ((0, 1), (3, 1), (32, 4), (131, 6), (4093, 10))


class FakeCalls:
    """Calls of a program's library ops without data."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._mode = FakeTensorMode(allow_fallback_kernels=False)
        hints = _sample(program, 7, 1, uses_hints=True)
        self._samples = [hints, *(_sample(program, *each) for each in _SAMPLES)]
        self._known: dict[object, bool] = {}

    def fixes(self, line: ir.ExternKernel) -> bool:
        """Return whether an op of torch's returns what a call declares, by its meta function."""
        names: dict[str, str] = {}  # in the order of the line
        numbered = Renaming(lambda n: names.setdefault(n, str(len(names))), str, str)
        form = numbered.value((line.args, line.kwargs, line.results))
        # Objects have no layouts; calls that take one are refused below.
        layouts = tuple(self._program.buffers.get(name) for name in names)
        key = (line.op, form, layouts)
        if key not in self._known:
            symbols = frozenset().union(*(each.symbols for each in layouts if each is not None))
            self._known[key] = self._agrees(line, is_static=not symbols and not _varies(form))
        return self._known[key]

    def _agrees(self, line: ir.ExternKernel, *, is_static: bool) -> bool:
        """Return whether the results are as declared in all samples that the op accepts."""
        hints, *others = self._samples
        if not self._gives(line, hints):
            return False
        if is_static:
            return True
        verdicts = {self._gives(line, sample) for sample in others}
        return False not in verdicts and True in verdicts

    def _gives(self, line: ir.ExternKernel, symbols: Mapping[str, Number]) -> bool | None:
        """Return whether the results are as declared; None if the op refuses its arguments."""
        frame = Frame(self._program, {}, symbols=dict(symbols))
        try:
            with _quiet(), torch.no_grad(), no_autocast(), self._mode:
                for arg in buffers_in([*line.args, *(value for _, value in line.kwargs)]):
                    tensor = self._fake(frame, self._program.layout(arg.buffer))
                    frame.buffers.setdefault(arg.buffer, Buffer(arg.buffer, tensor, ()))
                args = [value_of(frame, arg) for arg in line.args]
                kwargs = {name: value_of(frame, arg) for name, arg in line.kwargs}
                value = find_op(self._program, line.op)(*args, **kwargs)
        except Exception:
            return None
        try:
            for name, buffer in frame.buffers.items():  # an output buffer may be resized
                frame.check(name, buffer.tensor)
            for result in line.results:
                if isinstance(result, ir.ResultBuffer):
                    frame.check(result.out, part(line.op, value, result.path))
        except WrapperIRError:
            return False
        return True

    def _fake(self, frame: Frame, layout: ir.Layout) -> Tensor:
        if layout.kind is not ir.LayoutKind.STRIDED:
            raise NotImplementedError(layout.kind)
        size, stride = frame.dims(layout.size), frame.dims(layout.stride)
        return torch.empty_strided(size, stride, dtype=dtype_of(layout), device=device_of(layout))


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing of what torch warns of or logs: nothing is computed, and ops may refuse."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    was, log.disabled = log.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = was


def _varies(form: object) -> bool:
    """Return whether arguments contain symbols."""
    if isinstance(form, (tuple, ir.ListArg)):
        items = form.items if isinstance(form, ir.ListArg) else form
        return any(map(_varies, items))
    return isinstance(form, ir.ScalarArg) and bool(free_symbols(form.value))


def _sample(
    program: ir.Program, first: int, step: int, *, uses_hints: bool = False
) -> dict[str, Number]:
    """Return values of symbols that differ if their ranges allow it; computed ones follow."""
    found: dict[str, Number] = {}
    for position, (name, info) in enumerate(program.symbols.items()):
        hint = info.hint if uses_hints else None
        found[name] = _within(info, first + step * position) if hint is None else hint
    for _, line in ir.walk(program):
        if computes(line):
            with suppress(WrapperIRError):
                found[line.symbol] = evaluate(line.value, found)
    return found


def _within(info: ir.SymbolInfo, value: int) -> Number:
    """Return a value of a symbol's kind, within its range."""
    if info.kind is ir.SymbolKind.INT:
        return within((info.lower, info.upper), value)
    return KINDS[info.kind](value) if info.kind is not ir.SymbolKind.NONE else 0
