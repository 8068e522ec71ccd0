"""The main program of an emitted file: fill its inputs, call it, and time it."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.runtime.constants import load_constants
from wrapper_ir.runtime.errors import ConstantsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.runtime.checks import TensorSpec

__all__ = ["make_constants", "random_tensor", "run_main"]


def random_tensor(
    dtype: torch.dtype,
    size: Sequence[int],
    stride: Sequence[int],
    device: torch.device | str = "cpu",
) -> Tensor:
    """Return a tensor with this layout and random contents.

    Floating-point elements are normally distributed, integers are 0 or 1 (they may be indices),
    truth values either. Elements in the gaps of the layout are not written.
    """
    result = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        work = dtype if dtype.itemsize >= 2 else torch.float32
        return result.copy_(torch.randn(tuple(size), dtype=work, device=device))
    return result.copy_(torch.randint(0, 2, tuple(size), device=device))


def make_constants(module: dict[str, Any], specs: Sequence[TensorSpec]) -> None:
    """Give a module's constants values: those of the file beside it, else random ones.

    The file is called like the module's with ``.safetensors`` behind. Constants that have values
    keep them.

    Args:
        module: The module's ``globals()``.
        specs: Its constants.
    """
    missing = [spec for spec in specs if module.get(spec.name) is None]
    if not missing:
        return
    file = str(module.get("__file__", ""))
    name = f"{file.rpartition('/')[2]}.safetensors"
    try:
        found = load_constants(file, name, missing)
    except ConstantsError as error:
        print(f"constants are random: {error.message}", file=sys.stderr)  # noqa: T201
        found = {s.name: random_tensor(s.dtype, s.size, s.stride, s.device) for s in missing}  # type: ignore[arg-type]
    module.update(found)


def run_main(call: Callable[[list[Any]], tuple[Any, ...]], make: Callable[[], list[Any]]) -> None:
    """Call a program with inputs made up, show what comes out and how long it takes.

    Args:
        call: Takes the list of inputs, which it empties.
        make: Makes a list of inputs.
    """
    parser = argparse.ArgumentParser(description="run this program on random inputs and time it")
    parser.add_argument("--calls", type=int, default=100, help="calls in a batch")
    parser.add_argument("--batches", type=int, default=10, help="batches, the best of which counts")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    with torch.no_grad():
        inputs = make()
        for position, result in enumerate(call(inputs.copy())):
            print(f"result {position}: {_described(result)}")  # noqa: T201
        best = min(_batch(call, inputs, options.calls) for _ in range(options.batches))
    print(f"{best * 1e6:.1f} us a call, best of {options.batches} x {options.calls}")  # noqa: T201


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
