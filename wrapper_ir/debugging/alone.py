"""One call as a program of its own, from what was seen of its operands when it was made.

Operands that lay in the same memory do so again: their storage is an input, of which they are
views. All sizes are the numbers that they were.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.lines.args import Arg, BufferValue, ListArg, ScalarArg
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.layout import Device, Layout
from wrapper_ir.lines.memory import Allocate, Reinterpret
from wrapper_ir.lines.program import FrozenMap, Program, Stage
from wrapper_ir.runtime.probes import private_copy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wrapper_ir.lines.program import AnyLine

__all__ = ["Seen", "alone"]

#: Storages start at such addresses again, so that operands lie as they did.
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Seen:
    """A tensor as it was: a copy, and where it lay."""

    content: torch.Tensor
    address: int
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Seen:
        """Look at a tensor."""
        return cls(private_copy(tensor), tensor.data_ptr(), tuple(tensor.stride()))

    @property
    def end(self) -> int:
        """The address behind it."""
        if not self.content.numel():
            return self.address
        steps = zip(self.stride, self.content.shape, strict=True)
        last = sum(step * (size - 1) for step, size in steps)
        return self.address + (last + 1) * self.content.element_size()

    @property
    def is_plain(self) -> bool:
        """Whether the copy has the layout that the tensor had."""
        return tuple(self.content.stride()) == self.stride

    def layout(self, base: int | None = None) -> Layout:
        """Its layout, in a storage that starts at an address; by default in one of its own."""
        dtype = DType.from_torch_name(str(self.content.dtype))
        offset = 0 if base is None else (self.address - base) // self.content.element_size()
        device = Device.parse(str(self.content.device))
        return Layout(dtype, device, tuple(self.content.shape), self.stride, offset)


def alone(
    program: Program,
    line: KernelCall | ExternKernel,
    before: Mapping[str, Seen],
    after: Mapping[str, Seen],
    reads: Iterable[str],
    numbers: Iterable[Any],
) -> tuple[Program, tuple[torch.Tensor, ...]]:
    """A program of one call, and its inputs.

    Args:
        program: Where the call stands.
        line: The call.
        before: Its operands that were there before it.
        after: What it wrote and returned: the results of the program.
        reads: Which of the operands hold something; the others are new memory.
        numbers: The numbers that the call was given.
    """
    reads = set(reads)
    layouts = {name: seen.layout() for name, seen in (*after.items(), *before.items())}
    body: list[AnyLine] = []
    inputs: dict[str, torch.Tensor] = {}
    for names in _storages(before):
        if len(names) == 1 and before[names[0]].is_plain:
            (name,) = names
            if name in reads:
                inputs[name] = before[name].content
            else:
                body.append(Allocate(name))
            continue
        storage = _new_name("storage", (*layouts, *inputs))
        base, inputs[storage] = _storage([before[name] for name in names])
        layouts[storage] = Seen.of(inputs[storage]).layout()
        layouts |= {name: before[name].layout(base) for name in names}
        body += [Reinterpret(name, storage) for name in names]
    called = line.kernel if isinstance(line, KernelCall) else line.op
    body.insert(0, dataclasses.replace(program.kernels[called], origin=None))
    body.append(dataclasses.replace(_with_numbers(line, iter(numbers)), origin=None, stream=0))
    made = Program(
        name="call",
        inputs=tuple(map(BufferInput, inputs)),
        results=tuple(map(BufferValue, after)),
        body=tuple(body),
        buffers=FrozenMap(layouts),
        mempools=program.mempools,
        stage=Stage.PLANNED,
    )
    return made, tuple(inputs.values())


def _storages(seen: Mapping[str, Seen]) -> list[list[str]]:
    """The names, those together whose memory overlaps."""
    found: list[list[str]] = []
    end = -1
    for name in sorted(seen, key=lambda name: (seen[name].address, seen[name].end)):
        if found and seen[name].address < end:
            found[-1].append(name)
        else:
            found.append([name])
        end = max(end, seen[name].end)
    order = {name: position for position, name in enumerate(seen)}
    return sorted(found, key=lambda names: min(order[name] for name in names))


def _storage(parts: Sequence[Seen]) -> tuple[int, torch.Tensor]:
    """The address and the contents of the memory that tensors lay in."""
    base = min(part.address for part in parts) // _ALIGNMENT * _ALIGNMENT
    size = max(part.end for part in parts) - base
    dtypes = {part.content.dtype for part in parts}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.uint8
    content = torch.zeros(size, dtype=torch.uint8, device=parts[0].content.device)
    for part in parts:
        layout = part.layout(base)
        bytes_ = content[: size - size % part.content.element_size()]
        view = bytes_.view(part.content.dtype)
        target = torch.as_strided(view, layout.size, layout.stride, layout.offset)
        # Of a dimension whose elements are all one, one is written.
        once = tuple(slice(1) if step == 0 else slice(None) for step in target.stride())
        target[once].copy_(part.content[once])
    return base, content.view(dtype)


def _new_name(stem: str, taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in range(len(names) + 1) if (name := f"{stem}{n}") not in names)


def _with_numbers(
    line: KernelCall | ExternKernel, numbers: Iterator[Any]
) -> KernelCall | ExternKernel:
    """The line with each number that it was given in place of the expression for it."""
    args = tuple(_with_number(arg, numbers) for arg in line.args)
    if isinstance(line, KernelCall):
        return dataclasses.replace(line, args=args)
    kwargs = tuple((name, _with_number(arg, numbers)) for name, arg in line.kwargs)
    return dataclasses.replace(line, args=args, kwargs=kwargs)


def _with_number(arg: Arg, numbers: Iterator[Any]) -> Arg:
    if isinstance(arg, ListArg):
        return ListArg(tuple(_with_number(item, numbers) for item in arg.items))
    return ScalarArg(next(numbers)) if isinstance(arg, ScalarArg) else arg
