"""Extraction of one call as a program of its own, with its inputs and outputs.

Operands that shared memory share it again: they become views of one input. Symbolic sizes become
the numbers of the recorded run.
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

import wrapper_ir.lines as ir
from wrapper_ir.api import compile as compile_program
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.passes import plan_memory
from wrapper_ir.passes.probed import Call, Operands, calls_of
from wrapper_ir.passes.probes import insert_around, scalars_of
from wrapper_ir.runtime.probes import Hooked, ProbeEvent, private_copy
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class CallNotFoundError(WrapperIRError):
    """A program has no such call. Fields: ``call``, and ``known``, which lists existing calls."""

    code = "WIR1511"
    template = "the program has no call {call!r}; it has {known}"
    default_hint = "name a call by its number, its kernel or op, or its path, such as body[3]"


class CallNotReachedError(WrapperIRError):
    """The given inputs do not reach a call. Field: ``call``."""

    code = "WIR1512"
    template = "these inputs do not reach call '{call}'"
    default_hint = "it is in a branch that was not taken, or in a loop that did not run"


def planned(program: ir.Program) -> ir.Program:
    """Lower a program for its devices and plan its memory, unless it is planned."""
    return program if program.stage is ir.Stage.PLANNED else plan_memory(program)


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Return deep copies of inputs in the same layouts."""
    return [private_copy(v) if isinstance(v, torch.Tensor) else _own(v) for v in inputs]


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, torch.ScriptObject) else value


def with_own_state(program: ir.Program) -> ir.Program:
    """Return the program with its own copies of mutable constants, so that runs are repeatable."""
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
    """A call extracted from its program.

    Attributes:
        call: The call in the original program.
        program: A program of this call alone. Its inputs are the buffers that the call reads, its
            results those that it wrote. All sizes are numbers.
        inputs: The tensors that the call read, in the order of the program's inputs.
        expected: The tensors that the call wrote, in the order of the program's results.
    """

    call: Call
    program: ir.Program
    inputs: tuple[torch.Tensor, ...]
    expected: tuple[torch.Tensor, ...]

    def write(self, folder: str | Path, tolerance: tuple[float, float] = (0.0, 0.0)) -> Path:
        """Write ``call.wir``, ``inputs.pt``, ``expected.pt`` and ``test_call.py`` to a new folder.

        ``pytest folder`` runs the test. The folder is created atomically.

        Args:
            folder: The folder to create. It must not exist.
            tolerance: Relative and absolute tolerance of the test.

        Raises:
            FileExistsError: The folder exists.
            OSError: The folder cannot be written.
        """
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


def find_call(program: ir.Program, call: int | str) -> Call:
    """Return the call with the given number or path, or the first with the given name.

    Raises:
        CallNotFoundError: There is no such call.
    """
    calls = tuple(calls_of(program))
    for each in calls:
        if call in (each.number, each.label, each.name, str(each.path)):
            return each
    known = ", ".join(f"'{each.label}'" for each in calls[:8]) or "none"
    raise CallNotFoundError(call=call, known=known)


def extract(
    program: ir.Program, call: int | str, inputs: Sequence[Any], *, target: str = "python"
) -> ExtractedCall:
    """Run a program and extract one of its calls with the call's inputs and outputs.

    For a call in a loop, that is the call of the first iteration.

    Args:
        program: The program. It is planned first if necessary.
        call: The call's number, name or path (``body[3]``).
        inputs: The program's inputs, which are not modified.
        target: The emitter to run the program with. It must render probes.

    Raises:
        CallNotFoundError: The program has no such call.
        CallNotReachedError: The run did not reach the call.
    """
    program = planned(program)
    selected = find_call(program, call)
    events = _Events()
    probed = insert_around(with_own_state(program), {selected.path: _probes(program, selected)})
    Hooked(compile_program(probed, target, debug="off"), events.note)(*copies(inputs))
    if events.after is None:
        raise CallNotReachedError(call=selected.label)
    operands = Operands(program)
    writes = operands.writes(selected.path, selected.line)
    call_effects = ir.effects(selected.line, program)
    before = dict(zip(_operands(call_effects), events.before, strict=True))
    after = dict(zip(call_effects.written, events.after, strict=True))
    results = {name: seen for name, seen in after.items() if name in writes}
    reads = operands.reads(selected.path, selected.line)
    single, args = alone(program, selected.line, before, results, reads, events.numbers)
    verify(single)
    return ExtractedCall(selected, single, args, tuple(seen.content for seen in results.values()))


def _operands(call_effects: ir.Effects) -> list[str]:
    return list(dict.fromkeys((*call_effects.reads, *call_effects.writes)))


def _probes(program: ir.Program, call: Call) -> tuple[list[ir.Probe], list[ir.Probe]]:
    """Return probes of all operands of a call, including uninitialized ones."""
    call_effects = ir.effects(call.line, program)
    reads, scalars = tuple(_operands(call_effects)), scalars_of(call.line)
    before = ir.Probe(call.label, ir.When.BEFORE, ir.ProbeLevel.HOOK, reads, scalars)
    after = ir.Probe(call.label, ir.When.AFTER, ir.ProbeLevel.HOOK, tuple(call_effects.written))
    return [before], [after]


class _Events:
    """The tensors and numbers before and after the first execution of the call."""

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

#: Alignment of rebuilt storages in bytes, so that operands keep theirs.
_ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Seen:
    """A snapshot of a tensor: a copy, its address and its strides."""

    content: torch.Tensor
    address: int
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Seen:
        """Take a snapshot of a tensor."""
        return cls(private_copy(tensor), tensor.data_ptr(), tuple(tensor.stride()))

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + int(self.layout().extent) * self.content.element_size()

    @property
    def is_plain(self) -> bool:
        """True if the copy has the tensor's own strides."""
        return tuple(self.content.stride()) == self.stride

    def layout(self, base: int | None = None) -> ir.Layout:
        """Return its layout, in a storage at address ``base`` or in a storage of its own."""
        dtype = ir.DType.from_torch_name(str(self.content.dtype))
        offset = 0 if base is None else (self.address - base) // self.content.element_size()
        device = ir.Device.parse(str(self.content.device))
        return ir.Layout(dtype, device, tuple(self.content.shape), self.stride, offset)


def alone(
    program: ir.Program,
    line: ir.AnyLine,
    before: Mapping[str, Seen],
    after: Mapping[str, Seen],
    reads: Iterable[str],
    numbers: Iterable[Any],
) -> tuple[ir.Program, tuple[torch.Tensor, ...]]:
    """Return a program of one call, and its inputs.

    Operands that are not among ``reads`` become new allocations. ``numbers`` are the values of the
    call's scalar arguments.
    """
    reads = set(reads)
    layouts = {name: seen.layout() for name, seen in (*after.items(), *before.items())}
    body: list[ir.AnyLine] = []
    inputs: dict[str, torch.Tensor] = {}
    for names in _storages(before):
        if len(names) == 1 and before[names[0]].is_plain:
            (name,) = names
            if name in reads:
                inputs[name] = before[name].content
            else:
                body.append(ir.Allocate(name))
            continue
        storage = _new_name("storage", (*layouts, *inputs))
        base, inputs[storage] = _storage([before[name] for name in names])
        layouts[storage] = Seen.of(inputs[storage]).layout()
        layouts |= {name: before[name].layout(base) for name in names}
        body += [ir.Reinterpret(name, storage) for name in names]
    (called,) = ir.effects(line).calls
    body.insert(0, dataclasses.replace(program.kernels[called], origin=None))
    body.append(dataclasses.replace(_with_numbers(line, iter(numbers)), origin=None, stream=0))
    single = ir.Program(
        name="call",
        inputs=tuple(map(ir.BufferInput, inputs)),
        results=tuple(map(ir.BufferValue, after)),
        body=tuple(body),
        buffers=ir.FrozenMap(layouts),
        mempools=program.mempools,
        stage=ir.Stage.PLANNED,
    )
    return single, tuple(inputs.values())


def _storages(seen: Mapping[str, Seen]) -> list[list[str]]:
    """Return the names, grouped by overlapping memory."""
    groups: list[list[str]] = []
    end = -1
    for name in sorted(seen, key=lambda name: (seen[name].address, seen[name].end)):
        if groups and seen[name].address < end:
            groups[-1].append(name)
        else:
            groups.append([name])
        end = max(end, seen[name].end)
    order = {name: position for position, name in enumerate(seen)}
    return sorted(groups, key=lambda names: min(order[name] for name in names))


def _storage(parts: Sequence[Seen]) -> tuple[int, torch.Tensor]:
    """Return the address and the contents of the memory that holds the given tensors."""
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
        # The elements of an expanded dimension share memory; write one of them.
        once = tuple(slice(1) if step == 0 else slice(None) for step in target.stride())
        target[once].copy_(part.content[once])
    return base, content.view(dtype)


def _new_name(stem: str, taken: Iterable[str]) -> str:
    names = set(taken)
    return next(name for n in range(len(names) + 1) if (name := f"{stem}{n}") not in names)


def _with_numbers(value: Any, numbers: Iterator[Any]) -> Any:
    """Return a line, or part of one, with scalar expressions replaced by their recorded values."""
    if isinstance(value, ir.ScalarArg):
        return ir.ScalarArg(next(numbers))
    if isinstance(value, tuple):
        return tuple(_with_numbers(item, numbers) for item in value)
    if not isinstance(value, (ir.ListArg, ir.Line)):
        return value
    fields = [field.name for field in dataclasses.fields(value)]
    parts = {name: _with_numbers(getattr(value, name), numbers) for name in fields}
    return dataclasses.replace(value, **parts)
