"""What ranks do, and that our emitters do what stock Inductor does: a program, run once.

Each rank is a fresh interpreter, as ``torchrun`` starts them: a fork of a process whose torch has
threads may lose its thread pool. They meet over the loopback interface, go through all cases in
one process group, and each writes what it found, a line a case and emitter.

    python tests/distributed/ranks.py RANK/COUNT FOLDER cpu|cuda [CASE ...]

On GPUs each rank works on one of its own, and NCCL connects them in place of gloo.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import traceback
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as collectives
from torch.utils import _pytree as pytree

from tests.distributed import parallelisms, sharing, symmetric, whole_models
from tests.distributed.runs import EMITTERS, PATIENCE
from tests.release import TORCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: Compiles a function, as ``torch.compile`` does.
    Compile = Callable[..., Callable[..., Any]]

#: Where everything is.
DEVICE = torch.device("cpu")


# Functional collectives: each takes a float32 tensor of 4 by 6 elements. They add nothing of their
# own: what is compiled here takes the time.


def _gather_coalesced(x: Tensor) -> Any:
    return collectives.all_gather_into_tensor_coalesced([x, x[1:]], dist.group.WORLD)


def _scatter_coalesced(x: Tensor) -> Any:
    given = [x, x[:2]]
    return collectives.reduce_scatter_tensor_coalesced(given, "sum", [0, 1], dist.group.WORLD)


def _to_all_unevenly(x: Tensor) -> Any:
    out, given = ([1, 3], [1, 3]) if dist.get_rank() == 0 else ([3, 1], [3, 1])
    return collectives.all_to_all_single(x, out, given, dist.group.WORLD)


KINDS: dict[str, Callable[[Tensor], Any]] = {
    "all_reduce sum": lambda x: collectives.all_reduce(x, "sum", dist.group.WORLD),
    "all_reduce max": lambda x: collectives.all_reduce(x, "max", dist.group.WORLD),
    "all_reduce avg": lambda x: collectives.all_reduce(x, "avg", dist.group.WORLD),
    "all_gather": lambda x: collectives.all_gather_tensor(x, 0, dist.group.WORLD),
    "all_gather, dim 1": lambda x: collectives.all_gather_tensor(x, 1, dist.group.WORLD),
    "reduce_scatter": lambda x: collectives.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD),
    "reduce_scatter, dim 1": lambda x: collectives.reduce_scatter_tensor(
        x, "sum", 1, dist.group.WORLD
    ),
    "all_to_all": lambda x: collectives.all_to_all_single(x, None, None, dist.group.WORLD),
    "all_to_all, uneven": _to_all_unevenly,
    "broadcast": lambda x: collectives.broadcast(x, 1, dist.group.WORLD),
    "all_reduce coalesced": lambda x: collectives.all_reduce_coalesced(
        [x, x[0]], "sum", dist.group.WORLD
    ),
    "all_gather coalesced": _gather_coalesced,
    "reduce_scatter coalesced": _scatter_coalesced,
}


def kinds(compiled: Compile) -> Any:
    """Every kind, in one program."""

    def each(x: Tensor) -> dict[str, Any]:
        return {name: function(x) for name, function in KINDS.items()}

    return compiled(each)(sample(4, 6))


def dynamic(compiled: Compile) -> Any:
    """Sizes that vary from call to call."""

    def total(v: Tensor) -> Tensor:
        return collectives.all_reduce(v.exp(), "sum", dist.group.WORLD).log()

    run = compiled(total, dynamic=True)
    return [run(sample(size)) for size in (8, 12, 5)]


def dynamic_kinds(compiled: Compile) -> Any:
    """Sizes that vary, of results too."""
    group = dist.group.WORLD

    def each(v: Tensor) -> tuple[Tensor, ...]:
        gathered = collectives.all_gather_tensor(v * 2, 0, group)
        scattered = collectives.reduce_scatter_tensor(gathered + 1, "sum", 0, group)
        swapped = collectives.all_to_all_single(gathered, None, None, group)
        return gathered, scattered, swapped

    run = compiled(each, dynamic=True)
    return [run(sample(size)) for size in (8, 12, 5)]


def dynamic_rows(compiled: Compile) -> Any:
    """Two sizes that vary, so that nobody knows whether memory has gaps."""
    group = dist.group.WORLD

    def each(v: Tensor) -> tuple[Tensor, ...]:
        turned, given, parts = v.t(), v.t(), [v.t(), v[:, ::2], v * 2]
        if (
            DEVICE.type != "cpu"
        ):  # NCCL broadcasts no memory with gaps, nor does it reduce lists of it
            given, parts = v, [each.contiguous() for each in parts]
        return (
            collectives.all_reduce(v * 2, "sum", group) + 1,
            collectives.all_reduce(turned, "max", group) + 1,
            collectives.broadcast(given, 1, group) + 1,
            collectives.reduce_scatter_tensor(turned, "sum", 0, group),
            *collectives.all_reduce_coalesced(parts, "sum", group),
        )

    run = compiled(each, dynamic=True)
    return [run(sample(*size)) for size in ((4, 6), (6, 8))]


def in_place(compiled: Compile) -> Any:
    """The forms that users of ``torch.distributed`` know, which write to what they are given."""

    def each(x: Tensor, gathered: Tensor, scattered: Tensor, swapped: Tensor) -> Tensor:
        dist.all_reduce(x)
        dist.all_gather_into_tensor(gathered, x)
        dist.reduce_scatter_tensor(scattered, gathered)
        dist.all_to_all_single(swapped, gathered)
        return x + 1

    sizes = ((8, 2), (4, 2), (8, 2))
    given = (sample(4, 2), *(torch.zeros(size, device=DEVICE) for size in sizes))
    return compiled(each)(*given), given


def late_wait(compiled: Compile) -> Any:
    """Work between the beginning of a collective and its wait."""
    ops, name = torch.ops._c10d_functional, dist.group.WORLD.group_name

    def each(x: Tensor) -> tuple[Tensor, ...]:
        doubled = x * 2
        gathered = ops.all_gather_into_tensor(doubled, 2, name)
        total = ops.all_reduce(doubled + 1, "sum", name)
        other = (x @ x.t()).relu() @ x
        other = other @ x.t() @ x
        return ops.wait_tensor(gathered) + 1, ops.wait_tensor(total), other

    return compiled(each)(sample(64, 64) / 8)


def bucketed(compiled: Compile) -> Any:
    """What Inductor's passes make of several collectives, and where they put it; sizes vary."""
    import torch._inductor.config as inductor_config

    group = dist.group.WORLD
    kinds = "all_gathers", "all_reduces", "reduce_scatters"
    settings: dict[str, Any] = {f"bucket_{kind}_fx": "all" for kind in kinds}
    settings["reorder_for_compute_comm_overlap"] = True

    def each(v: Tensor) -> Any:
        given, product = (v, v + 1), v @ v.t()
        gathered = [collectives.all_gather_tensor(x, 0, group) for x in given]
        scattered = [collectives.reduce_scatter_tensor(x * 2, "sum", 0, group) for x in given]
        totals = [collectives.all_reduce(x * 3, "sum", group) for x in given]
        return [x.sin() for x in gathered], scattered, totals, product @ product

    with inductor_config.patch(settings):
        run = compiled(each, dynamic=True)
        return [run(sample(size, 6)) for size in (4, 8, 6)]


def gradients(compiled: Compile) -> Any:
    """Collectives in a backward graph."""
    x = sample(4, 3).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        gathered = collectives.all_gather_tensor_autograd(x * 2, 0, dist.group.WORLD)
        mine = collectives.reduce_scatter_tensor_autograd(
            gathered * gathered, "sum", 0, dist.group.WORLD
        )
        return (mine * x).sum()

    found = compiled(loss)(x)
    found.backward()
    return found, x.grad


class Model(nn.Module):
    """Small, the same on each rank, and no Sequential: Dynamo skips that where a graph broke."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.down(self.up(x).relu())
        return found


def trained(step: Callable[[Tensor], Tensor], module: nn.Module) -> Any:
    """Two steps, each with its own input."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    found = []
    for _ in range(2):
        loss = step(sample(4, 6)).square().mean()
        loss.backward()
        found += [loss, *(local(p.grad) for p in module.parameters())]
        optimizer.step()
        optimizer.zero_grad()
    return found, [local(p) for p in module.parameters()]


def local(tensor: Any) -> Tensor:
    """What a rank holds of a tensor."""
    whole: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return whole.detach().clone()


def ddp(compiled: Compile) -> Any:
    module = nn.parallel.DistributedDataParallel(Model().to(DEVICE))
    return trained(compiled(module), module)


def fsdp(compiled: Compile) -> Any:
    from torch.distributed.fsdp import fully_shard

    module = Model().to(DEVICE)
    fully_shard(module.up, mesh=mesh())
    fully_shard(module, mesh=mesh())
    return trained(compiled(module), module)


def tensor_parallel(compiled: Compile) -> Any:
    module = split()
    return trained(compiled(module), module)


def split() -> nn.Module:
    """Return a model of which each rank has a part."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    return parallelize_module(Model().to(DEVICE), mesh(), plan)


class Gathering(nn.Module):
    """Gathers its parameter, and adds up what the ranks make of it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.weight = nn.Parameter(torch.randn(3, 6))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = collectives.all_gather_tensor(self.weight, 0, "0")
        total = collectives.all_reduce((x @ weight.t()).relu(), "sum", "0")
        return total * 2, collectives.reduce_scatter_tensor(total, "sum", 0, "0")


def captured(compiled: Compile, emitter: str = "") -> Any:
    """A program that was captured, and read back from its text."""
    import wrapper_ir as wir

    module, x = Gathering().to(DEVICE).eval(), sample(4, 6)
    if not emitter:
        with torch.no_grad():
            return compiled(module)(x)
    wir.capture(module, (x,)).save(path := Path(f"gathering{dist.get_rank()}.wir"))
    return wir.compile(wir.load(path), emitter)(x)


def for_all(program: Any) -> Any:
    """A program that each rank may load, on its own GPU."""
    from wrapper_ir.passes import run_passes

    return run_passes(program, ["current-device"])


def exported(compiled: Compile, emitter: str = "") -> Any:
    """A package, which one rank writes and both load."""
    import wrapper_ir as wir

    module, x = Gathering().to(DEVICE).eval(), sample(4, 6)
    if not emitter:
        with torch.no_grad():
            return compiled(module)(x)
    program = for_all(wir.capture(module, (x,)))
    path = Path("gathering.pt2")
    if dist.get_rank() == 0:
        wir.export(program, path)
    dist.barrier()
    return tuple(torch._inductor.aoti_load_package(str(path))(x))


def captured_split(compiled: Compile, emitter: str = "") -> Any:
    """Distributed tensors as weights: each rank captures its part of the model."""
    import wrapper_ir as wir

    module, x = split().eval(), torch.ones(4, 6, device=DEVICE)
    if not emitter:
        with torch.no_grad():
            return compiled(module)(x)
    wir.capture(module, (x,)).save(path := Path(f"split{dist.get_rank()}.wir"))
    return wir.compile(wir.load(path), emitter)(x)[0]


def jitted_split(compiled: Compile, emitter: str = "") -> Any:
    """Calls without Dynamo: of two sizes, and after weights have changed and been replaced."""
    import wrapper_ir as wir

    module, found = split().eval(), []
    call: Any = wir.jit(module, target=emitter, fallback=False) if emitter else compiled(module)
    with torch.no_grad():
        for rows in (4, 4, 7):
            found.append(call(torch.ones(rows, 6, device=DEVICE)))
            module.up.weight.mul_(2)
        module.down.weight = nn.Parameter(module.down.weight * 3)
        found += [call(torch.ones(rows, 6, device=DEVICE)) for rows in (7, 5)]
    return found


class Spoken(nn.Module):
    """A table of an odd number of rows, and a layer that takes what is looked up."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.words, self.down = nn.Embedding(7, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.down(self.words(x))
        return found


def looked_up(compiled: Compile, emitter: str = "") -> Any:
    """An embedding that is split by rows: each rank looks up the rows that it has."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module

    import wrapper_ir as wir

    found = []
    for layout in Replicate(), Shard(0):
        plan = {"words": RowwiseParallel(input_layouts=Replicate(), output_layouts=layout)}
        module = parallelize_module(Spoken().to(DEVICE).eval(), mesh(), plan)
        call: Any = wir.jit(module, target=emitter, fallback=False) if emitter else compiled(module)
        with torch.no_grad():
            found += [call(torch.arange(n, device=DEVICE).mul(3) % 7) for n in (6, 6, 4)]
    return found


def exported_split(compiled: Compile, emitter: str = "") -> Any:
    """Packages and libraries of each rank, in torch's loaders and in ours."""
    import wrapper_ir as wir

    module, x = split().eval(), torch.ones(4, 6, device=DEVICE)
    if not emitter:
        with torch.no_grad():
            return [compiled(module)(x)] * 4
    program, name = wir.capture(module, (x,)), f"split{dist.get_rank()}"
    for path in (f"{name}.pt2", f"{name}.so"):
        wir.export(program, path)
    runners = torch._C._aoti
    kind = (
        "AOTIModelContainerRunnerCpu" if x.device.type == "cpu" else "AOTIModelContainerRunnerCuda"
    )
    library = getattr(runners, kind)(str(Path(f"{name}.so").resolve()), 1)
    package = torch._inductor.aoti_load_package(f"{name}.pt2")
    given = wir.load_package(f"{name}.pt2", weights=module.state_dict())
    return [package(x), library.run([x])[0], wir.load_package(f"{name}.pt2")(x), given(x)]


def source(compiled: Compile, emitter: str = "") -> Any:
    """Folders of source: one that both ranks load at the same time, and one of each rank."""
    import wrapper_ir as wir

    shared, own = Gathering().to(DEVICE).eval(), split().eval()
    x, y = sample(4, 6), torch.ones(4, 6, device=DEVICE)
    if not emitter:
        with torch.no_grad():
            return [compiled(shared)(x), compiled(own)(y)]
    programs = [for_all(wir.capture(shared, (x,))), wir.capture(own, (y,))]
    names = [f"shared_in_{emitter}", f"own_in_{emitter}_{dist.get_rank()}"]
    if dist.get_rank() == 0:
        wir.export(programs[0], f"{names[0]}/", emitter)
    wir.export(programs[1], f"{names[1]}/", emitter)
    dist.barrier()
    sys.path.insert(0, str(Path.cwd()))
    one, two = map(importlib.import_module, names)
    return [one.run(x), two.run(y)[0]]


def pairs_in_graphs(compiled: Compile) -> Any:
    """Point to point, in programs."""
    with torch._dynamo.config.patch(enable_p2p_compilation=True):
        return pairs(compiled)


def messages(compiled: Compile) -> Any:
    """What comes to tensors that a graph has made, or to a part of them.

    Stock goes on with what was in them before, so eager mode stands for it.
    """

    def passed(x: Tensor) -> tuple[Tensor, Tensor]:
        taken = torch.zeros(2, *x.shape, device=x.device)
        given, row = x * 2, taken[1]
        if dist.get_rank() == 0:
            dist.isend(given, 1).wait()
            dist.irecv(row, 1).wait()
        else:
            dist.irecv(row, 0).wait()
            dist.isend(given, 0).wait()
        return taken + x, row * 2

    call = passed if compiled is torch.compile else compiled(passed)
    with torch._dynamo.config.patch(enable_p2p_compilation=True):
        return [call(sample(rows, 3)) for rows in (4, 4, 5, 6)]


def pairs(compiled: Compile) -> Any:
    """Point to point."""
    peer = 1 - dist.get_rank()

    def swap(x: Tensor) -> Tensor:
        given, taken = x * 2, torch.empty_like(x)
        ops = [dist.P2POp(dist.isend, given, peer), dist.P2POp(dist.irecv, taken, peer)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return taken + 1

    return compiled(swap)(sample(5))


def on_one_rank(compiled: Compile) -> Any:
    """Torch's setting that hides from a graph which rank compiles it: groups come as objects."""
    with torch.compiler.config.patch(compile_on_one_rank=True):  # type: ignore[attr-defined]
        return [_grouped(compiled), tensor_parallel(compiled), in_place(compiled)]


def _grouped(compiled: Compile) -> Any:
    """One function, which a caller gives a mesh, and groups with different members."""
    one = [dist.new_group([rank]) for rank in (0, 1)][dist.get_rank()]

    def of_mesh(x: Tensor, given: Any) -> Tensor:
        return collectives.all_gather_tensor(x * 2, 0, given) + 1

    def of_group(x: Tensor, group: Any) -> Tensor:
        return collectives.all_reduce(x * 2, "sum", group) + 1

    over_mesh, over_group = compiled(of_mesh), compiled(of_group)
    found = over_mesh(sample(3), mesh()), over_group(sample(3), dist.group.WORLD)
    # Stock calls the group that it has compiled for, without a word.
    over_other = of_group if compiled is torch.compile else over_group
    return found, over_other(sample(3), one)


#: Every case: what it does, a collective that its programs have to call (none where hooks do it
#: between programs), and the emitters it is for.
CASES: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "kinds": (kinds, "all_to_all_single", EMITTERS),
    "dynamic": (dynamic, "all_reduce_", EMITTERS),
    "dynamic kinds": (dynamic_kinds, "reduce_scatter_tensor", EMITTERS),
    "dynamic rows": (dynamic_rows, "all_reduce_", EMITTERS),
    "in place": (in_place, "all_reduce_", EMITTERS),
    "late wait": (late_wait, "all_gather_into_tensor", EMITTERS),
    "bucketed": (bucketed, "all_gather_into_tensor_out", EMITTERS),
    "gradients": (gradients, "reduce_scatter_tensor", EMITTERS),
    "ddp": (ddp, "", EMITTERS),
    "fsdp": (fsdp, "", EMITTERS),
    "tensor parallel": (tensor_parallel, "all_reduce_", EMITTERS),
    "captured": (captured, "all_gather_into_tensor", EMITTERS),
    "exported": (exported, "all_gather_into_tensor", ("cpp",)),
    "captured split": (captured_split, "all_reduce_", EMITTERS),
    "jitted split": (jitted_split, "all_reduce_", EMITTERS),
    "looked up": (looked_up, "all_reduce_", EMITTERS),
    "exported split": (exported_split, "all_reduce_", ("cpp",)),
    "source": (source, "all_reduce_", ("python", "cpp")),
    "on one rank": (on_one_rank, "all_gather_into_tensor", EMITTERS),
    "pairs": (pairs, "", EMITTERS),
    "pairs in graphs": (pairs_in_graphs, "batch_p2p_ops", EMITTERS),
    "messages": (messages, "irecv", EMITTERS),
}

#: The ways to spread a model, by the number of ranks. What is tried on CPUs alone.
SPREAD = {
    count: {name: (*case, EMITTERS) for name, case in cases.items()}
    for count, cases in (
        (2, {**parallelisms.TWO, **parallelisms.MORE}),
        (4, parallelisms.FOUR),
    )
}
#: Kinds of programs that are tried with these. Torch 2.15 brought messages in graphs.
_ALSO = ("captured split", *(("messages",) if TORCH >= (2, 15) else ()))
#: Each way over two ranks, with one emitter in turn; the rest of emitters and cases is long.
IN_TURN = {
    f"{name} in {emitter}": (*case, (emitter,))
    for (name, case), emitter in zip(
        {**parallelisms.TWO, **{name: CASES[name][:2] for name in _ALSO}}.items(),
        itertools.cycle(EMITTERS),
    )
}
#: Those in which one rank compiles for the other.
SHARED = {
    f"{name} in {emitter}": (*case, (emitter,))
    for (name, case), emitter in zip(sharing.CASES.items(), ("cpp", "python"), strict=True)
}

#: Those in lower precision, or with gradients near zero.
LOOSE = ("sequence parallel", "fsdp in lower precision", "gathered in graphs", *whole_models.MODELS)
LOOSE += ("fused in symmetric memory",)

#: Whole models.
MODELS = {name: (*case, EMITTERS) for name, case in whole_models.MODELS.items()}

#: Those with memory that peers address, on GPUs.
SYMMETRIC = {name: (*case, EMITTERS) for name, case in symmetric.CASES.items()}

ALL = {**CASES, **SPREAD[2], **SPREAD[4], **IN_TURN, **SHARED, **MODELS, **SYMMETRIC}


def sample(*size: int) -> Tensor:
    """Numbers that differ from rank to rank."""
    count = torch.Size(size).numel()
    numbers = torch.arange(count, dtype=torch.float32, device=DEVICE).reshape(size)
    return (numbers + 1) / (7 + dist.get_rank())


def mesh() -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(DEVICE.type, (dist.get_world_size(),))


def findings(name: str) -> Iterator[tuple[str, str]]:
    """What is wrong with a case, by emitter: nothing, in words."""
    run, _, emitters = ALL[name]
    wanted = tried(run, torch.compile)
    yield "stock", wanted if isinstance(wanted, str) else unlike_eager(name, run, wanted)
    for emitter in emitters:
        yield emitter, (shared if name in SHARED else ours)(name, emitter, wanted)


def shared(name: str, emitter: str, wanted: Any) -> str:
    """How a case is unlike stock, or how many programs were made; none are recorded."""
    from wrapper_ir.frontends.inductor import statistics

    run, count, _ = SHARED[name]
    statistics.reset()
    with sharing.on_one_rank(emitter):
        found = tried(
            run, partial(torch.compile, backend="wrapper_ir", options={"emitter": emitter})
        )
    if isinstance(found, str):
        return found
    made = sharing.made_by_all(statistics.programs)
    if made != count or statistics.fallbacks:
        return f"ranks made {made} programs together, {statistics.fallbacks} were left to stock"
    return unlike(found, wanted)


def unlike_eager(name: str, run: Callable[..., Any], wanted: Any) -> str:
    """How stock is unlike eager, whose kernels may round otherwise."""
    if name in whole_models.RANDOM:
        return ""
    eager = tried(run, lambda function, **_: function)
    return unlike(wanted, eager, exact=False, loose=name.startswith(LOOSE))


def ours(name: str, emitter: str, wanted: Any) -> str:
    """How what we make of a case is unlike what stock Inductor does. Programs are left behind."""
    import wrapper_ir as wir
    from wrapper_ir.frontends.inductor import statistics

    run, op, _ = ALL[name]
    statistics.reset()
    given = {"emitter": emitter} if "emitter" in signature(run).parameters else {}
    compiled = partial(torch.compile, backend="wrapper_ir", options={"emitter": emitter})
    with wir.record() as programs:
        found = tried(partial(run, **given), compiled)
    if isinstance(found, str):
        return found
    for number, program in enumerate(programs):
        program.save(f"{name}-{emitter}-{number}.rank{dist.get_rank()}.wir")
    called = {getattr(line, "op", "") for program in programs for line in program.body}
    op = op if "::" in op or not op else f"_c10d_functional::{op}"
    if not programs or statistics.fallbacks or (op and op not in called):
        return f"{len(programs)} programs that call {called}, {statistics.fallbacks} left to stock"
    return unlike(found, wanted)


def tried(run: Callable[..., Any], compiled: Compile) -> Any:
    """What a case gives, or how it fails."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    try:
        return pytree.tree_map(lambda leaf: local(leaf), run(compiled))
    except Exception:  # to be read by whoever asked for the case
        return traceback.format_exc()


def unlike(found: Any, wanted: Any, *, exact: bool = True, loose: bool = False) -> str:
    """Where two results differ, in words."""
    if isinstance(wanted, str):
        return wanted
    (left, spec), (right, other) = map(pytree.tree_flatten_with_path, (found, wanted))
    if [path for path, _ in left] != [path for path, _ in right]:
        return f"results are {spec}, not {other}"
    for (path, a), (_, b) in zip(left, right, strict=True):
        # In lower precision, eager rounds between ops that stock Inductor has fused.
        near = {"rtol": 1e-2, "atol": 1e-3} if loose else {}
        same = torch.equal(a, b) if exact else a.shape == b.shape and torch.allclose(a, b, **near)
        if not same:
            return f"{pytree.keystr(path)} is {a}, not {b}"
    return ""


def choose_by_rule() -> None:
    """Have all sides and ranks choose kernels' configurations by rule: sums depend on them."""
    import torch._inductor.config as inductor_config

    settings: Any = inductor_config  # whose attributes are made when it is imported
    settings.deterministic = True
    settings.test_configs.force_filter_reduction_configs = True


def join(rank: int, folder: Path, device: torch.device, count: int = 2) -> None:
    """Meet the other ranks."""
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(rank)
        choose_by_rule()
        backend = "nccl"
    store = dist.FileStore(str(folder / "store"), count)
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=PATIENCE)


def work(rank: int, count: int, folder: Path, names: list[str]) -> None:
    """Go through the cases, as one of the ranks."""
    join(rank, folder, DEVICE, count)
    with (folder / f"rank{rank}").open("w", encoding="utf-8", buffering=1) as found:
        for name in names:
            for emitter, wrong in findings(name):
                print(json.dumps([name, emitter, wrong]), file=found)
                # A rank that failed alone has left the other waiting: both end here, then.
                dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    who, folder, where, *names = sys.argv[1:]
    rank, count = map(int, who.split("/"))
    DEVICE = torch.device(where)
    os.chdir(folder)
    work(rank, count, Path(folder), names or list(CASES))
