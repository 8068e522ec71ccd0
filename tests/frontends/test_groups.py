"""Process groups that reach a graph as objects: torch 2.15's ``compile_on_one_rank``."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.compiler.config as compiler_config
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

import wrapper_ir as wir
from wrapper_ir.analysis.collectives import call_of
from wrapper_ir.frontends.inductor import OpByOpWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this torch has no process groups"),
    pytest.mark.skipif(
        not hasattr(compiler_config, "compile_on_one_rank"), reason="torch 2.15 brings the setting"
    ),
]


@contextlib.contextmanager
def _as_rank(rank: int) -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch._dynamo.reset()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)
    try:
        with compiler_config.patch(compile_on_one_rank=True):
            yield
    finally:
        dist.destroy_process_group()


def _groups(program: wir.Program) -> list[object]:
    calls = [call_of(program, line) for line in program.body]
    return [call.group for call in calls if call is not None]


def _step(x: Tensor, mesh: Any) -> Tensor:
    rows = collectives.all_gather_tensor(x * 2, 0, (mesh, 1))
    return collectives.all_reduce(rows + 1, "sum", (mesh, 0))


def _programs_of_a_mesh() -> tuple[list[wir.Program], dict[str, list[int]]]:
    from torch.distributed.device_mesh import init_device_mesh

    programs: list[wir.Program] = []
    members: dict[str, list[int]] = {}
    for rank in range(4):
        with _as_rank(rank):
            mesh = init_device_mesh("cpu", (2, 2))
            with wir.record() as found:
                torch.compile(_step, backend="wrapper_ir")(torch.ones(4, 6), mesh)
            (program,) = found
            programs.append(program)
            across, along = mesh.get_group(0), mesh.get_group(1)
            assert _groups(program) == [along.group_name, across.group_name]
            for group in (across, along):
                members[group.group_name] = dist.get_process_group_ranks(group)
    return programs, members


def test_groups_of_a_mesh_go_by_name_and_are_compared() -> None:
    programs, members = _programs_of_a_mesh()
    report = wir.verify_ranks(programs, groups=members)
    assert report.proved, report

    # A rank that has nothing to wait for in its row leaves the other one waiting.
    fault = next(i for i, line in enumerate(programs[3].body) if call_of(programs[3], line))
    line = programs[3].body[fault]
    again = programs[3].replace(body=(*programs[3].body[:fault], line, *programs[3].body[fault:]))
    assert not wir.verify_ranks([*programs[:3], again], groups=members).ok


def test_a_call_with_another_group_does_not_use_the_first() -> None:
    def total(x: Tensor, group: Any) -> Tensor:
        return collectives.all_gather_tensor(x * 2, 0, group) + 1

    x = torch.ones(3)
    with _as_rank(0):
        row, column = dist.new_group([0, 1]), dist.new_group([0, 2])
        with wir.record() as programs:
            compiled = torch.compile(total, backend="wrapper_ir")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                compiled(x, row)
                compiled(x, row)
            with pytest.warns(OpByOpWarning, match="other process groups"):
                compiled(x, column)
        assert [_groups(program) for program in programs] == [[row.group_name]]
