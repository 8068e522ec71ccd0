"""Inductor's tables: taken over for the length of a block, given back as they were."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.utils import run_and_get_code

import wrapper_ir as wir
from tests import warm
from tests.frontends.support import same_objects, snapshot
from tests.release import TORCH
from wrapper_ir.errors import OptionValueError
from wrapper_ir.frontends.inductor import InstallOrderError, install, uninstall
from wrapper_ir.frontends.inductor.compat import codegen_common
from wrapper_ir.frontends.inductor.session import current_session
from wrapper_ir.frontends.inductor.settings import with_cpp_wrapper

FX = {"emitter": "fx"}

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    gc.unfreeze()  # a training step of an installation keeps us registered while it is there
    gc.collect()


def test_tables_are_given_back_with_the_last_step_that_may_need_them() -> None:
    before = snapshot()
    x = torch.ones(3, requires_grad=True)
    with install():
        loss = torch.compile(lambda x: (x.sin() * 2).sum())(x)
    assert not same_objects(before, snapshot())
    loss.backward()
    del loss
    torch._dynamo.reset()
    gc.collect()
    assert same_objects(before, snapshot())


def programs_of(function: Any, *args: Any, backend: str = "inductor") -> int:
    """Compile, run, and count the programs that were made."""
    with wir.record() as programs:
        torch.compile(function, backend=backend)(*args)
    return len(programs)


def test_a_block_sends_compilations_through_us_and_gives_back_what_it_found() -> None:
    before = snapshot()
    with install():
        assert not same_objects(before, snapshot())
        assert programs_of(lambda x: x.sin() + 1, torch.ones(4)) == 1
    assert same_objects(before, snapshot())
    torch._dynamo.reset()
    assert programs_of(lambda x: x.sin() + 1, torch.ones(4)) == 0


def test_calls_without_a_block() -> None:
    before = snapshot()
    install(strategy="none")
    try:
        session = current_session()
        assert session is not None
        assert session.settings.strategy == "none"
    finally:
        uninstall()
    assert same_objects(before, snapshot())
    with pytest.raises(InstallOrderError, match="WIR3006"):
        uninstall()


def test_blocks_nest_and_the_innermost_counts() -> None:
    before = snapshot()
    with install(strategy="reuse") as outer:
        with install(strategy="none") as inner:
            assert current_session() is inner.session
        assert current_session() is outer.session
        assert programs_of(lambda x: x.cos() + 1, torch.ones(4)) == 1
    assert current_session() is None
    assert same_objects(before, snapshot())


def test_ending_an_outer_installation_ends_the_inner_ones() -> None:
    before = snapshot()
    outer = install()
    install(strategy="none")
    outer.uninstall()
    assert current_session() is None
    assert same_objects(before, snapshot())
    outer.uninstall()  # a second time changes nothing
    assert same_objects(before, snapshot())


def test_tables_are_given_back_after_an_exception() -> None:
    before = snapshot()
    with pytest.raises(ZeroDivisionError), install(), install(strategy="none"):
        raise ZeroDivisionError
    assert same_objects(before, snapshot())
    assert current_session() is None


def test_tables_are_given_back_after_a_failed_compilation() -> None:
    before = snapshot()

    def function(x: Tensor) -> Tensor:
        y = x.sin()
        torch.ops.inductor.resize_storage_bytes_(y, 4 * x.numel())
        return y.cos()

    with pytest.raises(Exception, match="WIR3001"):
        torch.compile(function, backend="wrapper_ir", fullgraph=True)(torch.ones(4))
    assert same_objects(before, snapshot())
    assert current_session() is None


def test_the_backend_gives_back_the_tables_too() -> None:
    before = snapshot()
    assert programs_of(lambda x: x.tan() * 3, torch.ones(4), backend="wrapper_ir") == 1
    assert same_objects(before, snapshot())


def test_another_thread_stays_with_inductor() -> None:
    seen: list[Any] = []

    def other() -> None:
        assert current_session() is None
        seen.append(programs_of(lambda x: x.exp() - 1, torch.ones(5)))

    with install():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        torch._dynamo.reset()
        assert programs_of(lambda x: x.exp() - 1, torch.ones(5)) == 1
    assert seen == [0]


@pytest.mark.long
def test_two_threads_at_once() -> None:
    """One compiles through us while the other does not, each several graphs, started together."""
    barrier = threading.Barrier(2)
    counts: dict[str, list[int]] = {"wrapper_ir": [], "inductor": []}
    failures: list[BaseException] = []
    before = snapshot()

    def work(backend: str) -> None:
        try:
            barrier.wait()
            for number in range(3):
                function = _shifted(number)
                counts[backend].append(programs_of(function, torch.ones(6), backend=backend))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(backend,)) for backend in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert counts == {"wrapper_ir": [1, 1, 1], "inductor": [0, 0, 0]}
    assert same_objects(before, snapshot())


def _shifted(number: int) -> Any:
    """Return a function of its own, which Dynamo has not seen, for each call."""
    namespace: dict[str, Any] = {}
    exec(f"def function(x):\n    return (x + {number}).sin() * 2", namespace)
    return namespace["function"]


def test_a_registration_by_others_inside_a_block_is_left_alone() -> None:
    before = snapshot()
    stock = before[0]["cpu"]
    try:
        with install():
            codegen_common.register_backend_for_device(
                "cpu", stock.scheduling, stock.wrapper_codegen, stock.cpp_wrapper_codegen
            )
            theirs = codegen_common.device_codegens["cpu"]
        assert codegen_common.device_codegens["cpu"] is theirs
    finally:
        for table, found in zip(_tables(), before, strict=True):
            table["cpu"] = found["cpu"]
    assert same_objects(before, snapshot())


def _tables() -> tuple[dict[str, Any], ...]:
    return (
        codegen_common.device_codegens,
        codegen_common.custom_backend_passes,
        codegen_common.custom_backend_codegen_configs,
    )


def test_another_kind_of_wrapper_is_refused_by_name() -> None:
    function = torch.compile(lambda x: x.sin() + 5, backend="wrapper_ir", options=FX)
    with (
        torch._inductor.config.patch(cpp_wrapper=True),
        pytest.raises(Exception, match=r"WIR3003.*cpp_wrapper"),
    ):
        function(torch.ones(4))
    with install(), pytest.raises(Exception, match=r"WIR3003.*cpp_wrapper"):
        torch.compile(lambda x: x.sin() + 6, options={"cpp_wrapper": True})(torch.ones(4))


@pytest.mark.parametrize("way", ["option", "setting"])
def test_a_wrapper_in_cpp_is_the_emitter_for_cpp(way: str) -> None:
    """Gradients too: the backward is lowered later, under whatever is set then."""
    torch._dynamo.reset()
    options = {"cpp_wrapper": True} if way == "option" else {}
    chosen = torch.compile(lambda x: (x @ x).sin(), backend="wrapper_ir", options=options)
    plain = torch.compile(lambda x: (x @ x).sin())
    found = []
    with torch._inductor.config.patch(cpp_wrapper=way == "setting"), wir.record() as programs:
        x = torch.linspace(-1, 1, 16).view(4, 4).requires_grad_()
        _, codes = run_and_get_code(lambda: chosen(x).sum().backward())
        found.append(x.grad)
    assert len(programs) == len(codes) == 2
    assert all("wir::ProgramInfo" in code for code in codes)
    x = x.detach().requires_grad_()
    plain(x).sum().backward()
    assert torch.equal(found[0], x.grad)


def test_an_emitter_and_cpp_wrapper_do_not_contradict_each_other() -> None:
    assert with_cpp_wrapper({"cpp_wrapper": True}) == {"emitter": "cpp"}
    assert with_cpp_wrapper({"cpp_wrapper": True, "emitter": "cpp"}) == {"emitter": "cpp"}
    assert with_cpp_wrapper({"cpp_wrapper": False, **FX}) == FX
    assert with_cpp_wrapper(None) == {}
    with torch._inductor.config.patch(cpp_wrapper=True):
        assert with_cpp_wrapper(None) == {"emitter": "cpp"}
        assert with_cpp_wrapper({"cpp_wrapper": False}) == {}
    for wrong in ({"cpp_wrapper": True, **FX}, {"cpp_wrapper": "yes"}):
        with pytest.raises(OptionValueError, match="cpp_wrapper"):
            with_cpp_wrapper(wrong)


#: A device of a vendor's that comes while an installation is open.
VENDOR = """
import torch
from torch._inductor.codegen import common
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from wrapper_ir.frontends.inductor import install


class Module:
    def _inductor_backend_init(self):
        common.register_backend_for_device(
            "vendor", CppScheduling, PythonWrapperCodegen, CppWrapperCpu
        )

    def is_available(self):
        return True

    def current_device(self):
        return 0

    def device_count(self):
        return 1


with install():
    _setup_privateuseone_for_python_backend("vendor", backend_module=Module())
    common.register_device_op_overrides("vendor", CpuDeviceOpOverrides())
    function = torch.compile(lambda x: (x.to("vendor") + 1).sin(), backend="wrapper_ir")
    try:
        function(torch.ones(4))
    except torch._dynamo.exc.BackendCompilerFailed as error:
        print(error.inner_exception.code)
assert type(common.device_codegens["vendor"].wrapper_codegen) is type
"""


@pytest.mark.skipif(TORCH < (2, 15), reason="earlier releases look for devices once a process")
def test_a_device_that_comes_later_is_not_left_to_inductor_s_own_wrapper() -> None:
    done = warm.run(VENDOR)
    assert done.stdout.strip() == "WIR3004", done.stderr
