"""Made-up functions that write through views: ``python -m tests.fuzz.functions --seconds 600``.

Each is compiled and compared with eager: results, arguments afterwards, and what shares memory. Its
program, and each plan of it, is validated against its graph, and must be found right.
Inductor has compiled most of what they do wrongly: scatters that are written in place, views of
other element types, clones that are left out, ops of the user's that write to an argument, and
arguments that are views of one tensor.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.fuzz.compare import PLANS, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir import Program
    from wrapper_ir.verify.diagnostics import Diagnostic


@torch.library.custom_op("wir_functions::flip", mutates_args=("x",))
def flip(x: Tensor) -> None:
    """Flip the last bit of each integer."""
    x.bitwise_xor_(1)


@flip.register_fake
def _(x: Tensor) -> None:
    return None


@torch.library.custom_op("wir_functions::reverse_into", mutates_args=("out",))
def reverse_into(x: Tensor, out: Tensor) -> None:
    """Write rows to another tensor in reverse order."""
    out.copy_(x.flip(0))


@reverse_into.register_fake
def _(x: Tensor, out: Tensor) -> None:
    return None


#: Statements on 4 x 4 floats: ``r`` is new, ``a`` and ``b`` are there, ``n`` is a small number.
_STATEMENTS = (
    "r = a.clone()",
    "r = a * 2",
    "r = a + b",
    "r = a.relu() - b",
    "r = torch.mm(a, b)",
    "r = a.t()",
    "r = a.view(torch.int32).view(torch.float32)",
    "r = (a.view(torch.int32) + 1).view(torch.float32)",
    "r = a.view(4, 4)",
    "r = a.contiguous()",
    "r = torch.slice_scatter(a, b[:2], 0, 1, 3)",
    "r = torch.select_scatter(a, b[0], 0, n)",
    "r = torch.diagonal_scatter(a, b.diagonal())",
    "r = torch.diagonal_scatter(a, a.diagonal())",
    "r = a.index_put((torch.tensor([0, 2]),), b[:2])",
    "r = a.index_add(0, torch.tensor([n, 0]), b[1:3])",
    "r = a.masked_fill(b > 0, 1.5)",
    "r = torch.where(a > b, a, b)",
    "r = a.sum(0, keepdim=True).expand(4, 4) + 0",
    "a.add_(1)",
    "a.mul_(0.5)",
    "a.zero_()",
    "a.fill_(n)",
    "a.copy_(b)",
    "a.clamp_(-1, 1)",
    "a[1:3] = b[:2]",
    "a[:, 1:3] = n",
    "a[n].add_(b[0])",
    "a.diagonal().copy_(b[n])",
    "a.index_fill_(0, torch.tensor([1]), 5.0)",
    "a.t().add_(b)",
    "r = (a + 1).as_strided((4, 4), (2, 1)) + b",
    "x.as_strided((2, 4), (4, 1), 4).add_(b[:2])",
    "z.as_strided((3, 2), (5, 2), 1).mul_(n)",
    "flip(a.view(torch.int32))",
    "flip(a[1:3].view(torch.int32))",
    "reverse_into(a, b)",
    "b.copy_(torch.diagonal_scatter(a, b.diagonal()))",
)

#: More of them, for seeds from here on: those before keep their functions.
_FROM: Final = 100_000
_STRIDED = (
    "a.as_strided((2, 4), (8, 1)).add_(n)",
    "a[::2].copy_(b[1::2])",
    "a[:, ::2].sub_(b[:, 1::2])",
    "a.view(2, 8)[0].neg_()",
    "a.t()[1:].mul_(0.5)",
    "r = a.as_strided((4, 4), (3, 1)) * 2",
    "r = a.unfold(0, 2, 2).sum(-1).repeat(2, 1)",
    "r = a.reshape(-1).as_strided((4, 4), (1, 4), 0).clone()",
)


def text_of(seed: int) -> str:
    """Return the source of a function ``f(x, y, z)``."""
    rng = random.Random(seed)
    names = ["x", "y", "z"]
    lines = []
    for number in range(rng.randint(2, 8)):
        a, b = rng.choice(names), rng.choice(names)
        statement = rng.choice((*_STATEMENTS, *_STRIDED) if seed >= _FROM else _STATEMENTS)
        if statement.startswith("reverse_into") and a == b:
            continue
        words = {"r": f"t{number}", "a": a, "b": b, "n": str(rng.randrange(4))}
        if statement.startswith("r = "):
            names.append(words["r"])
        lines.append(_filled(statement, words))
    results = rng.sample(names, rng.randint(1, min(3, len(names))))
    results = [f"{each}[1:]" if rng.random() < 0.1 else each for each in results]
    return "\n    ".join(["def f(x, y, z):", *lines, f"return {', '.join(results)},"]) + "\n"


def _filled(statement: str, words: dict[str, str]) -> str:
    out, word = [], ""
    for each in f"{statement} ":
        if each.isalnum() or each == "_" or (each == "." and word):
            word += each
            continue
        head, dot, rest = word.partition(".")
        out.append(words.get(head, head) + dot + rest + each)
        word = ""
    return "".join(out).strip()


def function_of(text: str) -> Callable[..., Any]:
    """Return the function with this source."""
    scope: dict[str, Any] = {"torch": torch, "flip": flip, "reverse_into": reverse_into}
    exec(compile(text, "<made up>", "exec"), scope)
    return scope["f"]


def arguments(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return arguments; in one of four functions two of them are views of one tensor."""
    generator = torch.Generator().manual_seed(seed)
    x, y, z = (torch.randn(4, 4, generator=generator) for _ in range(3))
    if seed % 4 == 3:
        rows = torch.randn(6, 4, generator=generator)
        x, y = rows[:4], rows[2:]
    return x, y, z


Outcome = tuple[list[Tensor], list[int]]
"""Results and arguments, and for each the first that it shares memory with."""


def outcome(function: Callable[..., Any], seed: int) -> Outcome:
    """Return results and arguments, and for each the first that it shares memory with."""
    args = arguments(seed)
    held = [*pytree.tree_leaves(function(*args)), *args]
    owners = [each.untyped_storage().data_ptr() for each in held]
    return held, [owners.index(each) for each in owners]


def difference(seed: int, **how: Any) -> str:
    """Return how a compiled function differs from eager; empty if it does not.

    ``how`` are the arguments of ``torch.compile``. What AOTAutograd alone does otherwise than eager
    is no difference: copies between parts of one tensor that overlap.

    Raises:
        BackendCompilerFailed, InductorError: Inductor does not lower the function, or we refuse it.
    """
    function = function_of(text_of(seed))
    try:
        expected = outcome(function, seed)
    except RuntimeError:
        return ""  # eager refuses it: an overlap, or a type
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, **how)
    with wir.record() as programs:
        calls = [outcome(compiled, seed), outcome(compiled, seed)]
    for number, found in zip(("first", "second"), calls, strict=True):
        told = _apart(found, expected)
        if told and how["backend"] != "aot_eager" and not difference(seed, backend="aot_eager"):
            return f"{number} call: {told}"
        if told:
            return told if how["backend"] == "aot_eager" else ""
    return next(alarms(programs), "")


def _apart(found: Outcome, expected: Outcome) -> str:
    """Return how one outcome differs from another; empty if it does not."""
    pairs = zip(found[0], expected[0], strict=True)
    if not all(torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) for a, b in pairs):
        return "other values"
    return f"memory is shared otherwise, {found[1]}" if found[1] != expected[1] else ""


def alarms(programs: Any) -> Iterator[str]:
    """Yield what ``validate`` says of programs, and of their plans, that give eager's results."""
    for program, graph in zip(programs, programs.graphs, strict=True):
        found = wir.validate(program, graph, run=True)
        yield from map(str, found.faults)
        for plan in PLANS:
            yield from (f"{plan}: {each}" for each in validated(program, graph, plan))


def validated(program: Program, graph: Any, plan: str) -> tuple[Diagnostic, ...]:
    """Return what ``validate`` says of one plan of a program."""
    return wir.validate(planned(program, plan), graph).faults


def main() -> None:
    """Compare functions until the time is over, and print those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="the first function")
    parser.add_argument("--emitter", default="python", help="what is compiled for")
    parser.add_argument("--stock", action="store_true", help="try Inductor's own wrapper instead")
    options = parser.parse_args()
    how: dict[str, Any] = {"backend": "wrapper_ir", "options": {"emitter": options.emitter}}
    how = {"backend": "inductor"} if options.stock else how
    end, seed, found, refused = time.monotonic() + options.seconds, options.seed, 0, 0
    while time.monotonic() < end:
        try:
            told = difference(seed, **how)
        except (BackendCompilerFailed, InductorError) as error:
            told, refused = "", refused + 1
            print(f"seed {seed} is refused: {' '.join(str(error).split())[:200]}")
        except (AssertionError, RuntimeError) as error:  # in a call
            told = f"{type(error).__name__}: {str(error)[:200]}"
        if told:
            found += 1
            print(f"seed {seed}: {told}\n{text_of(seed)}")
        seed += 1
    print(f"{seed - options.seed} functions: {found} differ, {refused} are refused")


if __name__ == "__main__":
    main()
