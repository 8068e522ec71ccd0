"""The corpus of programs, and what each computes, said again in plain torch."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.case import Case, t
from tests.emitters.more_cases import MORE, MORE_PROBED
from wrapper_ir.lines import Program, Stage
from wrapper_ir.runtime import random_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1] / "programs"
FILES = {path.stem: path for path in sorted(ROOT.rglob("*.wir"))}


def program(name: str) -> Program:
    """A program of the corpus, planned, with random constants."""
    found = _planned(name)
    return found.replace(data=constants(found))


@functools.cache
def _planned(name: str) -> Program:
    found = wir.parse(FILES[name].read_text())
    return wir.plan_memory(found) if found.stage is Stage.LOGICAL else found


def constants(program: Program) -> dict[str, Tensor]:
    torch.manual_seed(7)
    data: dict[str, Tensor] = {}
    for name, constant in program.constants.items():
        layout = program.layout(name)
        dtype = getattr(torch, layout.dtype.torch_name)
        value = random_tensor(dtype, layout.size, layout.stride)
        data[name] = data[constant.tied_to] if constant.tied_to else value
    return data


def add_one_(x: Tensor) -> None:
    x.add_(1)


def _input_mutation(x: Tensor, y: Tensor, z: Tensor) -> Any:
    x.add_(x, alpha=2)
    y.add_(1)
    z[1].add_(1)
    y.view(4, 4).copy_(x)
    return (x,)


def _index_put(x: Tensor, i: Tensor, v: Tensor) -> Any:
    out = x.clone().index_put_((torch.tensor([0, 1, 2, 3])[:, None], i), v, accumulate=True)
    return (out.scatter_(1, i[:, None], 9.0),)


def _reuse(x: Tensor) -> Any:
    return (x + 2).view(2, 3, 4), torch.zeros(12, dtype=torch.int64)


def _constants(x: Tensor, **c: Tensor) -> Any:
    b = x @ c["weight"] @ c["head"]
    c["mean"].lerp_(b.mean(0), 0.1)
    return ((b @ c["tall"])[c["table"]],)


def _views(x: Tensor) -> Any:
    b = torch.arange(24.0)
    row = b[12:18]
    m = b.view(4, 6)
    expanded = b[:6].expand(3, 6)
    windows = b.as_strided((5, 2), (1, 1))
    bits, halves = row.view(torch.int32), row.view(torch.float16)
    return m.t(), row, bits, halves, expanded, windows, x[:, 1], x


def _expressions(s0: int, s1: int, s2: int, z0: float) -> Any:
    k = [
        *(s0 + 2 * s1 - 3, 2 * s1 * (s0 + 1), (s0 + s1) ** 2, -s0 // s1, -s0 % s1),
        *(-(-s0 // s1), max(1, s0, s1 - 2), min(40, s0, 2 * s1), abs(s0 - 10 * s1)),
        *(min(s0, s1), s0 & 6, s0 | 8, s0 ^ s1, s0 << 2, s0 >> 1),
        math.ceil(z0) + math.floor(z0) + round(z0) + math.trunc(z0),
        s0 // (s1 // s2) // 2,
    ]
    z = [
        *(s0 + 0.5, s0 / s1, z0**2.0, math.sqrt(abs(z0)), math.exp(z0), math.log(s0)),
        *(math.log2(s0), math.sin(z0), math.cos(z0), math.tanh(z0)),
    ]
    b = [(s1 <= s2 or s0 > 4) and s0 < s1, s0 >= s1 and s0 != 7, (s0 == 7) == (s1 == 3)]
    return (*k, *z, *b, 2**s2, -(s0**2))


def _cond_nested(x: Tensor) -> Any:
    n = len(x)
    if n < 8:
        return (F.relu(x), 10) if n % 2 == 0 else (2 * x, 20)
    return 2 * x, -n


def _while_number(x: Tensor) -> Any:
    for u in range(3):
        x = 2 * x if u % 2 == 0 else F.relu(x)
    return 3, x


def _while(i: Tensor, total: Tensor, x: Tensor) -> Any:
    i, total = i.clone(), total.clone()
    while i < 5:
        i, total = i + 1, total + x
    return i, total


def _while_stacked(i: Tensor, x: Tensor) -> Any:
    counts, rounds = [i], [x]
    while i < 4:
        i, x = i + 1, 2 * x
        counts.append(i)
        rounds.append(x)
    return torch.stack(counts[1:] or counts), torch.stack(rounds[1:] or rounds)


def _symbols(s0: int, z0: float, x: Tensor, n: Tensor, v: Tensor, c: Tensor) -> Any:
    s1, s2 = x.size(0), x.stride(0)
    u0, z2, b0 = int(n), v.item(), bool(c)
    s4 = x.storage_offset()
    return s0, s1, s2, s0 * s1 + 1, s4, u0, max(s0, u0) // 2, z0, 0.5 * z0 + s0 / 3, z2, b0


def _zeroed(x: Tensor) -> Any:
    out = torch.zeros(4, 4)
    out[2:] = x
    return (out,)


def _results(x: Tensor) -> Any:
    b, n = F.relu(x), len(x)
    view = b.as_strided((4, n), (1, 4))
    return b, b, view, x, None, n, 4 * n, n // 2, n / 2, n > 2


def _unbacked(x: Tensor) -> Any:
    where, some = x.nonzero(), x[x > 0]
    return where, 2 * some, len(where) + len(some)


def _backward(weight: Tensor, saved: Tensor, grad: Tensor) -> Any:
    return grad.t() @ saved, grad.sum(0), grad @ weight, None


def _multi_output(x: Tensor) -> Any:
    values, indices = x.max(1)
    normed, _, rstd = torch.native_layer_norm(x, (6,), None, None, 1e-05)
    only = torch.var_mean(x, (1,), correction=1, keepdim=True)[1]
    return values, indices, normed, rstd, only


def _arguments(x: Tensor, i: Tensor) -> Any:
    full = [torch.full((1,), value) for value in (math.inf, -math.inf, math.nan, -0.0)]
    return (
        *(torch.full((2, 3), 1.5, dtype=torch.float64), *full),
        torch.full((1,), complex(1.5, -0.0)),
        torch.div(x, x, rounding_mode="floor"),
        x.clone(memory_format=torch.channels_last),
        x.clamp(None, 0.5),
        x[..., i],
        F.pad(i, (1, 2), value=7),
    )


def _complex_numbers(x: Tensor) -> Any:
    a = x * x
    return a, torch.view_as_real(a), torch.view_as_real(a).reshape(-1)[3::2][:3]


def _dtypes() -> Any:
    names = (
        "float64 float32 float16 bfloat16 complex64 complex128 int64 int32 int16 int8 uint8 bool"
    )
    return tuple(torch.zeros(2, dtype=getattr(torch, name)) for name in names.split())


def _scalar_types(x: Tensor, z0: float) -> Any:
    n = len(x)
    y = n - 3 + 7 + 0.125 + 1.5 + 0.25
    z = 2 * n - 1 + n + (n + 1) + z0 + 0.5 * z0 + (0.25 if n > 2 else 0)
    return torch.tensor([y]).double(), torch.tensor([z]).double(), None


def _names(args: Tensor, int_: Tensor, none: int) -> Any:
    s = len(args) + none
    return args + 2, int_ + 1, s, max(2, s), max(2, s) + s


def mutating(function: Callable[..., None], result: Any = ()) -> Callable[..., Any]:
    def run(*inputs: Any) -> Any:
        function(*inputs)
        return result

    return run


CASES: dict[str, Case] = {
    "aliases": Case(
        lambda: [t(5, 6)],
        lambda x: (
            *(F.relu(x).flatten(), F.relu(x).t().reshape(5, 6), F.relu(x).t().contiguous()),
        ),
    ),
    "arguments": Case(lambda: [t(2, 3, 4, 5), t(3, dtype=torch.int64)], _arguments),
    "asserts": Case(
        lambda: [torch.randn(8, 8)[:, ::2], t(4, dtype=torch.int64), 0.5], lambda x, y, z: (x, y)
    ),
    "backward": Case(lambda: [t(3, 8), t(4, 8), t(4, 3)], _backward),
    "comments": Case(lambda: [t(4)], lambda x, c: (x, c), ["c"]),
    "complex_numbers": Case(lambda: [t(4, dtype=torch.complex64)], _complex_numbers),
    "cond": Case(
        lambda: [t(2, 2), torch.tensor(False)], lambda x, p: (F.relu(2 * x),)  # else, else
    ),
    "cond_nested": Case(lambda: [t(5)], _cond_nested),
    "constants": Case(lambda: [t(2, 3)], _constants, ["weight", "head", "mean", "table", "tall"]),
    "definitions_between": Case(lambda: [t(4)], lambda x: (1 - F.relu(x),)),
    "dtypes": Case(list, _dtypes),
    "dynamic_shapes": Case(
        lambda: [t(5, 3), t(3, 5)], lambda x, y: (F.relu(x @ y).flatten(), 5, 16)
    ),
    "empty": Case(
        lambda: [t(3)],
        lambda x: (x, None, 3, -2, 2.5, 1e-5, True, False, math.inf, -math.inf),
    ),
    "expressions": Case(lambda: [7, 3, 2, -1.75], _expressions),
    "extern_fresh": Case(lambda: [t(5, 8)], lambda x: (torch.add(x, x, alpha=0.5).cumsum(1),)),
    "extern_out": Case(
        lambda: [t(4, 8)],
        lambda x, weight, bias: (F.relu(torch.addmm(bias, x, weight.t())),),
        ["weight", "bias"],
    ),
    "index_put": Case(lambda: [t(4, 5), torch.tensor([0, 2, 2]), t(4, 3)], _index_put),
    "input_mutation": Case(lambda: [t(4, 4), t(16), t(2, 8)], _input_mutation),
    "item": Case(
        lambda: [torch.tensor([5]), torch.tensor(0.5)], lambda n, v: (torch.arange(5.0), 5, 0.5)
    ),
    "list_results": Case(lambda: [t(6, 4)], lambda x: (x[:2], x[2:4], x[5])),
    "multi_output": Case(lambda: [t(4, 6)], _multi_output),
    "names": Case(lambda: [t(4), t(4), 3], _names),
    "no_inputs": Case(list, lambda: (torch.arange(8) * 0.25,)),
    "no_results": Case(lambda: [t(4)], mutating(add_one_)),
    "planned": Case(lambda: [t(4, 64)], lambda x: (F.relu(x) + 1,)),
    "pools": Case(lambda: [t(16)], lambda x: ((6 * F.relu(x)).view(4, 4),)),
    "pools_symbolic": Case(lambda: [t(5, 4)], lambda x: (2 * F.relu(x),)),
    "relu_twice": Case(lambda: [t(4, 64)], lambda x: (2 * F.relu(x),)),
    "results": Case(lambda: [t(5, 4)], _results),
    "reuse": Case(lambda: [t(4, 6)], _reuse),
    "scalar_types": Case(lambda: [t(4), 1.5], _scalar_types),
    "specs": Case(lambda: [t(4)], lambda x: (F.relu(x),)),
    "symbols": Case(
        lambda: [
            *(6, 0.5, torch.randn(10, 6)[1:5, 2:5]),
            *(torch.tensor(3), torch.tensor([1.5]), torch.tensor(True)),
        ],
        _symbols,
    ),
    "unbacked": Case(lambda: [torch.tensor([1.0, 0.0, -2.0, 3.0])], _unbacked),
    "views": Case(lambda: [t(4, 6)], _views),
    "while": Case(lambda: [torch.tensor(2), t(4), t(4)], _while),
    "while_number": Case(lambda: [t(8)], _while_number),
    "while_stacked": Case(lambda: [torch.tensor(1), t(3)], _while_stacked),
    "while_without_rounds": Case(lambda: [t(0, 4).double()], lambda x: (x,)),
    "zero_sizes": Case(
        lambda: [t(0, 3), t(0), torch.tensor(-1.5)],
        lambda x, y, z: (
            *(t(0, 3), t(2, 0, 4), t(0, 8), torch.tensor(0.0), torch.zeros(1, 1, 1), y),
        ),
    ),
    "zeroed": Case(lambda: [t(2, 4)], _zeroed),
    **MORE,
}
"""What programs compute."""

PROBED: dict[str, Case] = {
    "probes": Case(lambda: [t(4, 4)], lambda x: (x.relu() + 1,)),
    **MORE_PROBED,
}
"""Programs that show values on their way."""

STREAMS = ("devices_and_streams", "streams")
"""Programs on several streams, which only the Python emitter renders."""

PEERS = ("collectives", "peers")
"""Programs with memory that peers address, which the interpreter has only if it runs all ranks."""

TEXT_ONLY = ("branches", "decoder_block", "device_zoo", "triton", *PEERS, *STREAMS)
"""Programs whose devices a test machine has not."""
