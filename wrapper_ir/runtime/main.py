"""Support for emitted files on their own: their export folder, and running them as programs.

``wrapper_ir.json`` in the folder of an export lists the file's requirements. A machine that does
not meet them gets a clear error message before anything is compiled. Run as a program, the file
makes up inputs, calls itself and prints the time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.outputs import INDEX, PROGRAM_FILE, beside
from wrapper_ir.runtime.constants import load_constants, load_program_constants
from wrapper_ir.runtime.errors import ConstantsError
from wrapper_ir.tensors_file import identity_in
from wrapper_ir.toolchain.errors import IsaError
from wrapper_ir.toolchain.isa import lacking, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wrapper_ir.runtime.checks import TensorSpec


class SourceFolderError(WrapperIRError):
    """The folder of a program cannot be used: it is incomplete, or made for another machine.

    Fields: ``folder``, and the ``reason``.
    """

    code = "WIR2175"
    template = "folder {folder!r}: {reason}"


class SourceFolder:
    """The folder of a module, which passes its ``__file__``.

    Raises:
        SourceFolderError: The program cannot run here: it was made for another release of PyTorch,
            or for a device that is not present.
    """

    def __init__(self, file: str) -> None:
        self._path = Path(file).resolve().parent
        try:
            needs = json.loads(self.text(INDEX))["needs"]
            reason = obstacle(needs)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refusal(f"its {INDEX} is damaged") from error
        if reason is not None:
            hint = f"export it here, or change what its text needs and then {INDEX}"
            raise self._refusal(reason, hint)

    def text(self, name: str) -> str:
        """Return the text of a file.

        Raises:
            SourceFolderError: It cannot be read.
        """
        try:
            return (self._path / name).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise self._refusal(f"{name} cannot be read: {words}") from error

    def fill(
        self,
        module: dict[str, Any],
        specs: Sequence[TensorSpec],
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Set those constants in a module's ``globals()`` that have no value yet.

        ``names`` are those in the program of constants whose variable is named differently.

        Raises:
            ConstantsError: The file is missing or damaged, does not fit, or is not the one that
                was saved with the program.
        """
        missing = [spec for spec in specs if module.get(spec.name) is None]
        if missing:
            file = beside(self._path / PROGRAM_FILE)
            has_program = (self._path / PROGRAM_FILE).exists()
            identity = identity_in(self.text(PROGRAM_FILE)) if has_program else ""
            module.update(load_program_constants(file, missing, names or {}, identity))

    def _refusal(self, reason: str, hint: str | None = None) -> SourceFolderError:
        return SourceFolderError(folder=str(self._path), reason=reason, hint=hint)


def obstacle(needs: Mapping[str, Any], device: str | None = None) -> str | None:
    """Return why an exported program cannot run here, or ``None`` if no obstacle is known.

    The requirements in its index are: the ``torch`` release, and whether it must match ``exactly``;
    ``platform`` and ``machine``; processor ``features``, and instruction sets that ``kernels`` were
    written for; the ``device``, which an argument may replace.
    """
    here, release = torch.__version__.partition("+")[0], needs["torch"]
    if needs.get("exactly") and _release(here) != _release(release):
        return f"it is source for PyTorch {release}, and this is {here}"
    if _release(here) < _release(release):
        return f"it needs PyTorch {release} or later, and this is {here}"
    found = {"platform": sys.platform, "machine": platform.machine()}
    wanted = {key: needs.get(key, value) for key, value in found.items()}
    if wanted != found:
        return f"it is for {' '.join(wanted.values())}, and this is {' '.join(found.values())}"
    if missing := lacking(needs.get("features", ())):
        return f"this processor has no {', '.join(missing)}"
    for name in needs.get("kernels", ()):
        try:
            resolve(name)
        except IsaError as error:
            return f"its kernels were written for {name!r}: {error.fields['reason']}"
    if device is not None and torch.device(device).type != needs["device"]:
        return f"it runs on {needs['device']}, and not on {device}"
    return _absence(needs["device"])


def _absence(device: str) -> str | None:
    """Return why nothing can run on a device type here, or ``None`` if there is a device."""
    try:
        module = torch.get_device_module(device)
    except RuntimeError:
        return f"it runs on {device}, which PyTorch does not know here"
    return None if module.is_available() else f"it runs on {device}, and there is none"


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


# Running a file.


def random_tensor(
    dtype: torch.dtype,
    size: Sequence[int],
    stride: Sequence[int],
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return a tensor with this layout and random contents.

    Floating-point elements are normally distributed; integers, which may be indices, are 0 or 1;
    booleans are random. Gaps in the layout are not written.
    """
    result = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        work = dtype if dtype.itemsize >= 2 else torch.float32
        return result.copy_(torch.randn(tuple(size), dtype=work, device=device))
    return result.copy_(torch.randint(0, 2, tuple(size), device=device))


def make_constants(module: dict[str, Any], specs: Sequence[TensorSpec]) -> None:
    """Set a module's constants from the file beside it; without one, to random values.

    The module passes its ``globals()``. The file's name is the module file's name plus
    ``.safetensors``. Constants that have values keep them.

    Raises:
        ConstantsError: The file does not fit, or has other values than those that the module names.
    """
    missing = [spec for spec in specs if module.get(spec.name) is None]
    if not missing:
        return
    file = str(module.get("__file__", ""))
    name = f"{file.rpartition('/')[2]}.safetensors"
    try:
        found = load_constants(file, name, missing, module.get("CONSTANTS_HASH", ""))
    except ConstantsError as error:
        if beside(Path(file)).exists():
            raise
        print(f"constants are random: {error.message}", file=sys.stderr)  # noqa: T201
        found = {s.name: random_tensor(s.dtype, s.size, s.stride, s.device) for s in missing}  # type: ignore[arg-type]
    module.update(found)


def run_main(call: Callable[[list[Any]], tuple[Any, ...]], make: Callable[[], list[Any]]) -> None:
    """Call a program on lists of inputs that ``make`` returns; print its results and its time.

    Ranks that a launcher such as torchrun has started meet first, in the default process group.
    """
    parser = argparse.ArgumentParser(description="run this program on random inputs and time it")
    parser.add_argument("--calls", type=int, default=100, help="calls in a batch")
    parser.add_argument("--batches", type=int, default=10, help="batches, the best of which counts")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    with torch.no_grad(), _ranks() as who:
        inputs = make()
        for position, result in enumerate(call(inputs.copy())):
            _say(f"{who}result {position}: {_described(result)}")
        best = min(_batch(call, inputs, options.calls) for _ in range(options.batches))
        count = f"{options.batches} x {options.calls}"
        _say(f"{who}{best * 1e6:.1f} us a call, best of {count}")


def _say(text: str) -> None:
    """Print a line in one piece: other ranks may print to the same place."""
    sys.stdout.write(f"{text}\n")


@contextmanager
def _ranks() -> Iterator[str]:
    """Meet the other ranks, if there are any; yield what each line of this one begins with."""
    from wrapper_ir.runtime.probes.ranks import rank  # noqa: PLC0415 - only to run a file

    number = rank()
    if not number or torch.distributed.is_initialized():
        yield ""
        return
    torch.distributed.init_process_group()
    try:
        yield f"rank {number}: "
    finally:
        torch.distributed.destroy_process_group()


def _batch(call: Callable[[list[Any]], Any], inputs: list[Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call(inputs.copy())
    return (time.perf_counter() - start) / max(calls, 1)


def _described(value: object) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    dtype = str(value.dtype).removeprefix("torch.")
    text = f"{dtype}{list(value.shape)}"
    if value.numel() and value.dtype.is_floating_point:
        text += f", mean {value.float().mean().item():.6g}"
    return text
