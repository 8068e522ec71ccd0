"""Programs whose process group is missing, or is made by the launcher of a folder of source."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

import wrapper_ir as wir
from wrapper_ir.runtime import MissingGroupError, main

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo"
)

TEXT = """
wir 2
program @total inference logical
input %x : f32[2, 8] @cpu
extern aten::neg(Tensor self) -> Tensor
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
  %n = aten::neg(%x) : f32[2, 8] @cpu
  %y = _c10d_functional::all_reduce(%n, "sum", "0") : f32[2, 8] @cpu
  _c10d_functional::wait_tensor(%y)
  %z = _c10d_functional::all_reduce(%y, "sum", "GROUP") : f32[2, 8] @cpu
  _c10d_functional::wait_tensor(%z)
return %z
"""


def total(group: str = "0") -> wir.Program:
    return wir.parse(TEXT.replace("GROUP", group))


@pytest.fixture
def world() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("target", ["python", "fx", "cpp"])
def test_a_program_says_which_group_is_missing(target: str) -> None:
    words = (
        r"WIR2162: '_c10d_functional::all_reduce' calls the process group '0', which this process "
        r"does not have\n  at body\[\d+\]\n  hint: call torch.distributed.init_process_group "
    )
    with pytest.raises(MissingGroupError, match=words) as caught:
        wir.compile(total(), target)(torch.ones(2, 8))
    assert isinstance(caught.value, RuntimeError)
    assert "register" in str(caught.value.__cause__)
    with pytest.raises(TypeError) as other:
        wir.compile(total(), target)(torch.ones(2, 8), 3)
    assert not isinstance(other.value, MissingGroupError)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("target", ["python", "fx", "cpp"])
def test_the_group_that_is_there_is_not_named(target: str) -> None:
    with pytest.raises(MissingGroupError, match="process group 'tp'"):
        wir.compile(total("tp"), target)(torch.ones(2, 8))
    run = wir.compile(total(), target)
    assert torch.equal(run(torch.ones(2, 8))[0], -torch.ones(2, 8))


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_a_folder_says_it_too(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"total_in_{target}"
    wir.export(total(), f"{tmp_path / name}/", target)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingGroupError, match=r"process group '0'.*\n  at body\["):
        import_module(name).run(torch.ones(2, 8))


FORWARD = """\
wir 2
program @total forward logical
input %x : f32[8] @cpu
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
  %y = _c10d_functional::all_reduce(%x, "sum", "GROUP") : f32[8] @cpu
  _c10d_functional::wait_tensor(%y)
return %y
"""

BACKWARD = """\
wir 2
program @total backward logical
tangents [0]
input %dy : f32[8] @cpu
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
  %dx = _c10d_functional::all_reduce(%dy, "sum", "GROUP") : f32[8] @cpu
  _c10d_functional::wait_tensor(%dx)
return %dx
"""


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("target", ["python", "cpp"])
def test_a_folder_of_a_forward_and_its_backward_says_it_in_both(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    pairs = {"both": ("tp", "tp"), "one": ("0", "tp")}
    for name, (of_forward, of_backward) in pairs.items():
        programs = {
            "forward": wir.parse(FORWARD.replace("GROUP", of_forward)),
            "backward": wir.parse(BACKWARD.replace("GROUP", of_backward)),
        }
        wir.export(programs, f"{tmp_path}/{name}_in_{target}/", target)
    x = torch.ones(8, requires_grad=True)
    with pytest.raises(MissingGroupError, match=r"process group 'tp'.*\n  at body\["):
        import_module(f"both_in_{target}").run(x)
    (y,) = import_module(f"one_in_{target}").run(x)
    with pytest.raises(MissingGroupError, match=r"process group 'tp'.*\n  at body\["):
        y.sum().backward()


def test_a_script_ends_the_group_that_it_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    begin = partial(dist.init_process_group, "fake", store=FakeStore(), rank=0, world_size=2)
    monkeypatch.setattr(dist, "init_process_group", begin)
    seen: list[object] = []

    def failing() -> None:
        with main._ranks() as who:
            seen.extend((who, dist.is_initialized()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert seen == ["rank 0: ", True]
    assert not dist.is_initialized()


@pytest.mark.parametrize("target", ["python", "cpp"])
def test_torchrun_runs_a_folder_on_two_ranks(target: str, tmp_path: Path) -> None:
    wir.export(total(), f"{tmp_path}/total/", target)
    changes = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    changes["PYTHONPATH"] = os.pathsep.join([str(Path.cwd()), *sys.path])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "total/wrapper.py", "--calls", "2"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    mean = f"{(-4 * x).mean().item():.6g}"
    lines = sorted(line for line in done.stdout.splitlines() if "result" in line)
    assert lines == [f"rank {n}: result 0: float32[2, 8], mean {mean}" for n in (0, 1)]
