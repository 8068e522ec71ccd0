"""A node of autograd that computes nothing, in C++: what autograd alone costs a compiled function.

It takes as many arguments with gradients as a function, saves them, and has its results.
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from wrapper_ir.toolchain.compiler import find_compiler, include_flags, library_dirs, plain_flags
from wrapper_ir.toolchain.kernels import load_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor
    from torch.autograd.graph import Node


@cache
def apply() -> Callable[..., tuple[Tensor, ...]]:
    """Return the function of ``autograd_node.cpp``, compiled now."""
    compiler = find_compiler()
    source = Path(__file__).with_suffix(".cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "autograd_node.so"
        command = [*compiler.command, *plain_flags(compiler, "-O2"), *include_flags(), "-shared"]
        links = (f"-L{path}" for path in library_dirs())
        names = ("-ltorch_python", "-ltorch_cpu", "-lc10")
        subprocess.run([*command, str(source), "-o", str(library), *links, *names], check=True)
        found: Callable[..., tuple[Tensor, ...]] = load_module("autograd_node", library).apply
        return found


def leaves_of(node: Node) -> list[Tensor]:
    """Return the tensors whose gradients a node's backward pass sums up, each once."""
    found: dict[int, Tensor] = {}
    seen, waiting = {node}, [node]
    while waiting:
        each = waiting.pop()
        if hasattr(each, "variable"):
            found[id(each.variable)] = each.variable
        following = {one for one, _ in each.next_functions if one is not None} - seen
        seen |= following
        waiting += following
    return [*found.values()]


def node_alone(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> Callable[[], object]:
    """Return a call that stands for a function's, and for the backward pass of its sum."""
    result = function(*args)
    assert result.grad_fn is not None
    inputs = tuple(leaves_of(result.grad_fn))
    gradients, results = tuple(map(torch.ones_like, inputs)), (result.detach(),)
    made = apply()
    return lambda: made(inputs, results, gradients)[0].sum().backward()
