"""One call of a program as a program of its own, with its inputs and what it gave.

Operands that lay in the same memory do so again: their storage is an input, of which they are
views. All sizes are the numbers that they were.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debug_printer.insert import insert_around, scalars_of
from wrapper_ir.debug_printer.select import Call, Operands, calls_of
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.args import BufferValue, ListArg, ScalarArg
from wrapper_ir.lines.base import Line
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.effects import Effects, effects
from wrapper_ir.lines.layout import Device, DType, Layout
from wrapper_ir.lines.memory import Allocate, Reinterpret
from wrapper_ir.lines.program import FrozenMap, Program, Stage
from wrapper_ir.lines.trace import Probe, ProbeLevel, When
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.probes import Hooked, ProbeEvent, private_copy
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wrapper_ir.lines.program import AnyLine


class CallNotFoundError(WrapperIRError):
    """A program has no such call. Fields: ``call``, and ``known``, some that it has."""

    code = "WIR1511"
    template = "the program has no call {call!r}; it has {known}"
    default_hint = "name a call by its number, its kernel or op, or its path, such as body[3]"


class CallNotReachedError(WrapperIRError):
    """A call was not made with the given inputs. Field: ``call``."""

    code = "WIR1512"
    template = "call '{call}' was not made with these inputs"
    default_hint = "it stands in a branch that was not taken, or in a loop that did not run"


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs with contents of their own, in the same layouts."""
    return [
        (
            private_copy(value)
            if isinstance(value, torch.Tensor)
            else copy.deepcopy(value) if isinstance(value, torch.ScriptObject) else value
        )
        for value in inputs
    ]


def with_own_state(program: Program) -> Program:
    """Return the program with copies of the constants that it writes, so that runs are alike."""
    data = dict(program.data)
    for name, constant in program.constants.items():
        if constant.mutable and name in data:
            data[name] = private_copy(data[name])
    for name, constant in program.constants.items():
        if constant.tied_to in data:
            data[name] = data[constant.tied_to]
    for name in program.objects.keys() & data.keys():
        data[name] = copy.deepcopy(data[name])
    return program.replace(data=data)


@dataclass(frozen=True)
class ExtractedCall:
    """A call on its own.

    Attributes:
        call: Where it stands in the program.
        program: A program of this call alone. Its inputs are what the call reads, its results what
            the call wrote; all sizes are the numbers that they were.
        inputs: The tensors that the call read, in the order of the program's inputs.
        expected: What the call wrote, in the order of the program's results.
    """

    call: Call
    program: Program
    inputs: tuple[torch.Tensor, ...]
    expected: tuple[torch.Tensor, ...]

    def write(self, folder: str | Path, tolerance: tuple[float, float] = (0.0, 0.0)) -> Path:
        """Write ``call.wir``, ``inputs.pt``, ``expected.pt`` and ``test_call.py`` to a new folder.

        The test runs by itself (``pytest folder``). The folder is there whole or not at all.

        Args:
            folder: Where; it must not exist.
            tolerance: Relative and absolute, of the test.

        Raises:
            FileExistsError: The folder exists.
            OSError: It cannot be written.
        """
        import torch  # noqa: PLC0415 - only those who write need it here

        target = Path(folder)
        if target.exists():
            raise FileExistsError(f"{target} exists")
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            (unfinished / "call.wir").write_text(str(self.program), encoding="utf-8")
            torch.save(list(self.inputs), unfinished / "inputs.pt")
            torch.save(list(self.expected), unfinished / "expected.pt")
            test = _TEST.replace("rtol=0, atol=0", f"rtol={tolerance[0]}, atol={tolerance[1]}")
            (unfinished / "test_call.py").write_text(test, encoding="utf-8")
            unfinished.chmod(0o755)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        return target


_TEST = '''\
"""One call of a wrapper program, with what it was given and what it gave."""

from pathlib import Path

import torch

import wrapper_ir as wir

HERE = Path(__file__).parent


def test_call():
    program = wir.parse((HERE / "call.wir").read_text())
    inputs = torch.load(HERE / "inputs.pt", weights_only=True)
    expected = torch.load(HERE / "expected.pt", weights_only=True)
    for actual, wanted in zip(wir.compile(program)(*inputs), expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)
'''


def find_call(program: Program, call: int | str) -> Call:
    """Return the call of that number, of that name (the first), or at that path.

    Raises:
        CallNotFoundError: There is none.
    """
    calls = tuple(calls_of(program))
    for each in calls:
        if call in (each.number, each.label, each.name, str(each.path)):
            return each
    known = ", ".join(f"'{each.label}'" for each in calls[:8]) or "none"
    raise CallNotFoundError(call=call, known=known)


def extract(
    program: Program, call: int | str, inputs: Sequence[Any], *, target: str = "python"
) -> ExtractedCall:
    """Run a program and take one of its calls out, with its inputs and outputs.

    Of a call in a loop, the first round is taken.

    Args:
        program: The program; memory is planned first where it is not.
        call: Its number, its name or its path (``body[3]``).
        inputs: The program's inputs, which are left as they are.
        target: The emitter to run it with, one that renders probes.

    Raises:
        CallNotFoundError: The program has no such call.
        CallNotReachedError: It was not called with these inputs.
    """
    planned = program if program.stage is Stage.PLANNED else plan_memory(program)
    found = find_call(planned, call)
    events = _Events()
    probed = insert_around(with_own_state(planned), {found.path: _probes(planned, found)})
    Hooked(compile_program(probed, target, debug="off"), events.note)(*copies(inputs))
    if events.after is None:
        raise CallNotReachedError(call=found.label)
    operands = Operands(planned)
    writes = operands.writes(found.path, found.line)
    does = effects(found.line, planned)
    before = dict(zip(_operands(does), events.before, strict=True))
    after = dict(zip(does.written, events.after, strict=True))
    results = {name: seen for name, seen in after.items() if name in writes}
    reads = operands.reads(found.path, found.line)
    program, given = alone(planned, found.line, before, results, reads, events.numbers)
    verify(program)
    return ExtractedCall(found, program, given, tuple(seen.content for seen in results.values()))


def _operands(does: Effects) -> list[str]:
    return list(dict.fromkeys((*does.reads, *does.writes)))


def _probes(program: Program, call: Call) -> tuple[list[Probe], list[Probe]]:
    """Probes of all operands of a call, also of those that hold nothing yet."""
    does = effects(call.line, program)
    scalars = scalars_of(call.line)
    before = Probe(call.label, When.BEFORE, ProbeLevel.HOOK, tuple(_operands(does)), scalars)
    after = Probe(call.label, When.AFTER, ProbeLevel.HOOK, tuple(does.written))
    return [before], [after]


class _Events:
    """The tensors and numbers around the call when it was made first."""

    def __init__(self) -> None:
        self.before: list[Seen] = []
        self.after: list[Seen] | None = None
        self.numbers: list[Any] = []

    def note(self, event: ProbeEvent) -> None:
        if self.after is not None:
            return
        seen = [Seen.of(tensor) for tensor in event.tensors.values()]
        if event.when == "before":
            self.before, self.numbers = seen, [number for _, number in event.scalars]
        else:
            self.after = seen


# The program of one call.

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
        """Return the address behind it."""
        if not self.content.numel():
            return self.address
        steps = zip(self.stride, self.content.shape, strict=True)
        last = sum(step * (size - 1) for step, size in steps)
        return self.address + (last + 1) * self.content.element_size()

    @property
    def is_plain(self) -> bool:
        """Return whether the copy has the layout that the tensor had."""
        return tuple(self.content.stride()) == self.stride

    def layout(self, base: int | None = None) -> Layout:
        """Return its layout, in a storage that starts at an address, or in one of its own."""
        dtype = DType.from_torch_name(str(self.content.dtype))
        offset = 0 if base is None else (self.address - base) // self.content.element_size()
        device = Device.parse(str(self.content.device))
        return Layout(dtype, device, tuple(self.content.shape), self.stride, offset)


def alone(
    program: Program,
    line: AnyLine,
    before: Mapping[str, Seen],
    after: Mapping[str, Seen],
    reads: Iterable[str],
    numbers: Iterable[Any],
) -> tuple[Program, tuple[torch.Tensor, ...]]:
    """Return a program of one call, and its inputs.

    Args:
        program: The program that makes the call.
        line: The call.
        before: Its operands that were there before it.
        after: What it wrote and returned: the results of the program.
        reads: Those of the operands that hold something; the others are new memory.
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
    (called,) = effects(line).calls
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
    """Return the names, those together whose memory overlaps."""
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
    """Return the address and the contents of the memory that tensors lay in."""
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


def _with_numbers(value: Any, numbers: Iterator[Any]) -> Any:
    """Return a line, or a part, with each number that was given in place of the expression."""
    if isinstance(value, ScalarArg):
        return ScalarArg(next(numbers))
    if isinstance(value, tuple):
        return tuple(_with_numbers(item, numbers) for item in value)
    if not isinstance(value, (ListArg, Line)):
        return value
    fields = [field.name for field in dataclasses.fields(value)]
    parts = {name: _with_numbers(getattr(value, name), numbers) for name in fields}
    return dataclasses.replace(value, **parts)
