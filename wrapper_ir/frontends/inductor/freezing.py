"""Frozen parameters: how the packed ones were made, so that they can be made again elsewhere.

Under ``freezing`` Inductor computes what depends on parameters alone, the packing of weights by
oneDNN included, and keeps the results. A packed weight has a form that only the libraries of this
torch know. What it was packed of is an ordinary tensor, so that is noted while Inductor folds.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from wrapper_ir.frontends.inductor.compat import ConstantFolder
from wrapper_ir.frontends.inductor.convert.values import tensor_layout
from wrapper_ir.lines.args import Arg, BufferArg, ListArg, NoneArg, ScalarArg
from wrapper_ir.lines.program import (
    PACKING_OPS,
    Constant,
    ConstantKind,
    FrozenMap,
    Packing,
    Program,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class PackedBy(NamedTuple):
    """Origin of a packed tensor: an op and its arguments, some of them tensors."""

    op: str
    args: tuple[Any, ...]
    made: torch.Tensor  # kept, so that its identity stays its own
    position: int | None = None  # of several that the op returns


@contextmanager
def noted_packing() -> Iterator[dict[int, PackedBy]]:
    """Note the packed tensors that Inductor makes meanwhile, by identity."""
    found: dict[int, PackedBy] = {}
    folder: Any = ConstantFolder
    original = folder.run_node

    def run_node(self: Any, node: torch.fx.Node) -> Any:
        is_op = isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
        args, kwargs = self.fetch_args_kwargs_from_env(node) if is_op else ((), {})
        made = original(self, node)
        if is_op and not kwargs:
            name = str(node.target).replace(".", "::", 1).removesuffix(".default")
            several = enumerate(made) if isinstance(made, (list, tuple)) else ((None, made),)
            for position, each in several:
                if isinstance(each, torch.Tensor) and each.is_mkldnn:
                    found[id(each)] = PackedBy(name, args, each, position)
        return made

    folder.run_node = run_node
    try:
        yield found
    finally:
        folder.run_node = original


def with_packing(program: Program, noted: Mapping[int, PackedBy]) -> Program:
    """Return a program whose packed constants are made of plain ones that it has as well."""
    adding = _Adding(program)
    for name, constant in program.constants.items():
        by = noted.get(id(program.data[name]))
        if constant.kind is ConstantKind.PACKED and by is not None:
            adding.add(name, by)
    return adding.program()


class _Adding:
    """Adds the constants that others are packed of."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plain: dict[str, Constant] = {}
        self._packed: dict[str, Constant] = {}
        self._layouts = dict(program.buffers)
        self._data = dict(program.data)

    def program(self) -> Program:
        """The program with them; what is packed comes last."""
        constants = {**self._program.constants, **self._plain}
        for name in self._packed:
            del constants[name]
        constants |= self._packed
        return self._program.replace(
            constants=FrozenMap(constants), buffers=FrozenMap(self._layouts), data=self._data
        )

    def add(self, name: str, by: PackedBy) -> None:
        """Say how a constant is packed, if it is by an op that may be repeated anywhere."""
        tensors = [arg for arg in by.args if isinstance(arg, torch.Tensor)]
        if by.op not in PACKING_OPS or not all(map(_is_storable, tensors)):
            return
        if not all(map(_is_number, (arg for arg in by.args if not isinstance(arg, torch.Tensor)))):
            return
        args = tuple(self._arg(name, arg) for arg in by.args)
        constant = self._program.constants[name]
        self._packed[name] = dataclasses.replace(
            constant,
            qualified_name=f"{constant.qualified_name}.packed",
            packing=Packing(by.op, args, by.position),
        )

    def _arg(self, name: str, value: Any) -> Arg:
        if isinstance(value, torch.Tensor):
            return BufferArg(self._source(name, value))
        if value is None:
            return NoneArg()
        if isinstance(value, (list, tuple)):
            return ListArg(tuple(ScalarArg(int(each)) for each in value))
        return ScalarArg(value)

    def _source(self, name: str, value: torch.Tensor) -> str:
        """The constant that holds a plain tensor: new, unless another is packed of it too."""
        for known in self._plain:
            if self._data[known] is value:
                return known
        made = f"{name}_plain"
        while made in self._layouts or made in self._program.symbols:
            made += "_"
        qualified = self._program.constants[name].qualified_name
        if any(constant.qualified_name == qualified for constant in self._plain.values()):
            qualified = made
        self._plain[made] = Constant(qualified, ConstantKind.TENSOR)
        self._layouts[made] = tensor_layout(value)
        self._data[made] = value.detach()
        return made


def _is_storable(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided


def _is_number(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(type(each) is int for each in value)
    return value is None or type(value) in (bool, int, float)
