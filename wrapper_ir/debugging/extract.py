"""One call of a program as a program of its own, with its inputs and what it gave."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.debug_printer import Call, DebugPrinter, Operands, calls_of, insert_probes
from wrapper_ir.debugging.errors import CallNotFoundError, CallNotReachedError
from wrapper_ir.lines.args import Arg, BufferValue, ListArg, ScalarArg
from wrapper_ir.lines.control import BufferInput
from wrapper_ir.lines.dtype import DType
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.layout import Device, Layout
from wrapper_ir.lines.memory import Allocate
from wrapper_ir.lines.program import FrozenMap, Program, Stage
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.probes import debug_session
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.lines.program import AnyLine

__all__ = ["ExtractedCall", "extract", "find_call"]


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

    def write(self, folder: str | Path) -> Path:
        """Write ``call.wir``, ``inputs.pt``, ``expected.pt`` and ``test_call.py`` to a new folder.

        The test runs by itself (``pytest folder``). The folder is there whole or not at all.

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
            (unfinished / "test_call.py").write_text(_TEST, encoding="utf-8")
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
    """The call of that number, of that name (the first), or at that path.

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
        inputs: The program's inputs.
        target: The emitter to run it with, one that renders probes.

    Raises:
        CallNotFoundError: The program has no such call.
        CallNotReachedError: It was not called with these inputs.
    """
    planned = program if program.stage is Stage.PLANNED else plan_memory(program)
    found = find_call(planned, call)
    printer = DebugPrinter("save", calls=str(found.number))
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-extract-") as folder:
        with debug_session(Path(folder) / "run", limit=0) as session:
            compile_program(insert_probes(planned, printer), target, debug="off")(*inputs)
        before, after, numbers = _read(session.directory)
    if not (before or after):
        raise CallNotReachedError(call=found.label)
    operands = Operands(planned)
    reads, writes = operands.reads(found.path, found.line), operands.writes(found.path, found.line)
    first_before, first_after = before[: len(reads)], after[: len(writes)]
    taken, given = (
        dict(zip(names, tensors, strict=True))
        for names, tensors in ((reads, first_before), (writes, first_after))
    )
    alone = _alone(planned, found, taken, given, numbers)
    verify(alone)
    return ExtractedCall(found, alone, tuple(first_before), tuple(first_after))


def _read(folder: Path) -> tuple[list[torch.Tensor], list[torch.Tensor], list[Any]]:
    """What was saved before and after the call, and the numbers that it was given."""
    saved: dict[str, list[torch.Tensor]] = {"before": [], "after": []}
    numbers: list[Any] = []
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "file" in entry:
            tensor = torch.load(folder / entry["file"], weights_only=True)
            saved[entry["when"]].append(tensor)
        elif not numbers:
            numbers = list(entry["scalars"])
    return saved["before"], saved["after"], numbers


def _alone(
    program: Program,
    call: Call,
    reads: dict[str, torch.Tensor],
    writes: dict[str, torch.Tensor],
    numbers: Sequence[Any],
) -> Program:
    line = _with_numbers(call.line, iter(numbers))
    made = effects(line, program).defines
    fresh = [name for name in writes if name not in reads and name not in made]
    layouts = {name: _layout(tensor) for name, tensor in (*writes.items(), *reads.items())}
    body: list[AnyLine] = [program.kernels[call.name]]
    body += [Allocate(name) for name in fresh]
    body.append(dataclasses.replace(line, origin=None))
    return Program(
        name="call",
        inputs=tuple(BufferInput(name) for name in reads),
        results=tuple(BufferValue(name) for name in writes),
        body=tuple(body),
        buffers=FrozenMap(layouts),
        stage=Stage.PLANNED,
    )


def _layout(tensor: torch.Tensor) -> Layout:
    dtype = DType.from_torch_name(str(tensor.dtype))
    device = Device.parse(str(tensor.device))
    return Layout(dtype, device, tuple(tensor.shape), tuple(tensor.stride()))


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
    if isinstance(arg, ScalarArg):
        value = next(numbers)
        return ScalarArg(_number(value) if isinstance(value, str) else value)
    return arg


def _number(text: str) -> complex:
    """A number that JSON has no form for."""
    try:
        return float(text)
    except ValueError:
        return complex(text)
