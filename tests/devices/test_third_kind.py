"""A kind of device that the library does not know, registered here: who asks of devices finds it.

There is no such device. What is written for it, and what is refused, can be seen without one.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

import wrapper_ir as wir
from wrapper_ir import devices
from wrapper_ir.analysis.devices import only_accelerator
from wrapper_ir.cli.doctor import gather
from wrapper_ir.lines import AllocateFromPool
from wrapper_ir.planning import insert_frees, pool_storage
from wrapper_ir.planning.sizes import alignment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

NPU = devices.DeviceKind(
    type="npu",
    noun="NPU",
    plural="NPUs",
    memory=devices.Memory(alignment=4096, keeps_arenas=True, keep_factor=2),
    python=devices.PythonSide(guard="on_device"),
    doctor=devices.Doctor(
        driver="NPU driver",
        driver_command=("echo", "7.1"),
        inventory=lambda torch: devices.Inventory("NPU 7", (devices.Unit("unit", "2.0"),)),
        tried=frozenset(("2.0",)),
    ),
)

CPP = devices.CppSide(
    headers={"npu.h": "namespace npu { struct Call; struct Kernel; }\n"},
    library="libnpu.so",
    kernels="npu::Kernel",
    guard=("npu::Call", "on_npu"),
    wait="npu::wait",
)

TEXT = """
wir 2
program @third inference logical

input %x : f32[64] @npu:0

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)

  %a = allocate : f32[64] @npu:0
  aten::relu.out(%x, out=out %a) @npu:0
  %b = allocate : f32[64] @npu:0
  aten::relu.out(%a, out=out %b) @npu:0
  %c = allocate : f32[64] @npu:0
  aten::add.out(%a, %b, out=out %c) @npu:0
return %c
"""

KERNEL = """
wir 2
program @third inference planned

input %x : f32[64] @npu:0

kernel @double(x: in f32, out: out f32) SOURCE
  | text
  |

  %a = allocate : f32[64] @npu:0
  call @double(%x, out %a) @npu:0 GRID
return %a
"""


@pytest.fixture
def npu() -> Iterator[devices.DeviceKind]:
    devices.register_device(NPU)
    try:
        yield NPU
    finally:
        devices.unregister_device(NPU)


@pytest.mark.usefixtures("npu")
def test_places_in_arenas_are_aligned_as_its_memory_asks() -> None:
    assert alignment_of(wir.Device("npu", 0)) == 4096
    planned = pool_storage(insert_frees(wir.parse(TEXT))).program
    offsets = [line.offset for line in planned.body if isinstance(line, AllocateFromPool)]
    assert sorted(offsets) == [0, 4096]


@pytest.mark.usefixtures("npu")
def test_emitted_python_allocates_with_the_device_and_runs_calls_on_it() -> None:
    program = wir.parse(TEXT)
    assert only_accelerator(program) == wir.Device("npu", 0)
    source = wir.emit(program).source
    ast.parse(source)
    assert "@on_device(npu_0)" in source.splitlines()
    assert "torch.empty_strided((64,), (1,), dtype=torch.float32, device=npu_0)" in source
    assert "empty_strided_cuda" not in source


@pytest.mark.usefixtures("npu")
def test_hints_name_every_kind_that_is_known() -> None:
    with pytest.raises(wir.WrapperIRError) as caught:
        wir.Builder(device="no device")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("'cpu', 'cuda:1', 'npu:1'")


def test_types_have_torchs_numbers_with_or_without_a_kind() -> None:
    assert [devices.number_of(each) for each in ("cpu", "cuda", "xpu")] == [0, 1, 12]
    assert devices.number_of("npu") == devices.number_of("privateuseone")


def test_without_a_kind_nothing_is_taken_for_granted() -> None:
    program = wir.parse(TEXT)
    assert only_accelerator(program) is None
    assert "@on_device" not in wir.emit(program).source
    assert not devices.kind_of("npu").memory.keeps_arenas


@pytest.mark.usefixtures("npu")
@pytest.mark.parametrize(
    ("source", "grid", "refusal"),
    [
        ("cpp", "", "C\\+\\+ kernels do not run on npu:0"),
        ('triton entry "double"', "grid [1]", "Triton kernels are only launched on GPUs"),
    ],
)
def test_kernels_in_languages_that_it_does_not_run_are_refused(
    source: str, grid: str, refusal: str
) -> None:
    text = KERNEL.replace("SOURCE", source).replace("GRID", grid)
    with pytest.raises(wir.WrapperIRError, match=refusal):
        wir.emit(wir.parse(text))


@pytest.mark.usefixtures("npu")
def test_without_a_cpp_side_programs_in_cpp_are_refused_by_name() -> None:
    told = "'x' is on npu:0; C\\+\\+ programs run on the CPU and NVIDIA GPUs"
    with pytest.raises(wir.WrapperIRError, match=told):
        wir.emit(wir.parse(TEXT), "cpp")


@pytest.fixture
def in_cpp() -> Iterator[devices.DeviceKind]:
    kind = dataclasses.replace(NPU, languages=(devices.CPP,), cpp=CPP)
    devices.register_device(kind)
    try:
        yield kind
    finally:
        devices.unregister_device(devices.kind_of("npu"))


@pytest.mark.usefixtures("in_cpp")
def test_its_cpp_side_is_what_programs_in_cpp_call() -> None:
    made: Any = wir.emit(wir.parse(TEXT), "cpp")
    assert made.sources["npu.h"] == CPP.headers["npu.h"]
    assert made.manifest.device.type == "npu"
    source = made.source
    assert '#include "npu.h"' in source.splitlines()
    assert "wir::device::privateuseone, 0" in source
    assert "const npu::Call on_npu(call, 0);" in source
    assert '"npu",\n  0,' in source  # by which libraries know what they are loaded for
    assert "npu::wait" not in source  # it has no constants that could be exchanged
    assert "wir::GpuCall" not in source
    assert "aoti_torch_cuda" not in source


CONSTANT = """
wir 2
program @weighed inference logical

constant %w : f32[64] @npu:0 = parameter "w"

extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
kernel @double(x: in f32, y: out f32) cpp
  | extern "C" void kernel(const float* x, float* y) {}
  |

  %a = allocate : f32[64] @npu:0
  call @double(%w, out %a) @npu:0
return %a
"""


@pytest.mark.usefixtures("in_cpp")
def test_an_object_of_its_own_stands_around_each_kernel_in_python_and_cpp() -> None:
    program = wir.parse(CONSTANT)
    source = wir.emit(program, "cpp").source
    body = source[source.index("  {\n    const npu") :]
    assert body.startswith("  {\n    const npu::Kernel around{};\n    double_1(")
    assert "  npu::wait,\n" in source
    assert 'kernels = CppKernels(device="npu")' in wir.emit(program).source


def test_a_class_of_its_own_for_kernels_is_pythons_alone(in_cpp: devices.DeviceKind) -> None:
    own = devices.PythonSide(kernels="npu:Kernels")
    cpp = dataclasses.replace(CPP, kernels="")
    devices.register_device(dataclasses.replace(in_cpp, python=own, cpp=cpp), over=in_cpp)
    program = wir.parse(CONSTANT)
    assert "from npu import Kernels" in wir.emit(program).source
    with pytest.raises(wir.WrapperIRError, match="from emitted Python; its DeviceKind has a class"):
        wir.emit(program, "cpp")


@pytest.mark.usefixtures("in_cpp")
def test_a_program_in_cpp_runs_on_one_type_of_device() -> None:
    text = TEXT.replace("%b = allocate : f32[64] @npu:0", "%b = allocate : f32[64] @cuda:0")
    told = "is on npu:0, and others on cuda"
    with pytest.raises(wir.WrapperIRError, match=told):
        wir.emit(wir.parse(text.replace("out=out %b) @npu:0", "out=out %b) @cuda:0")), "cpp")


@pytest.mark.usefixtures("npu")
def test_the_doctor_tells_of_it() -> None:
    built_for, (unit,) = "NPU 7", NPU.doctor.inventory(None).units
    told = {
        "version": "2.15.0",
        "devices": {"npu": (built_for, [(unit.name, unit.capability)])},
    }
    facts = {fact.name: fact for fact in gather(told, None)}
    assert facts["NPU driver"].version == "7.1"
    assert (facts["NPU"].version, facts["NPU"].standing) == ("unit", "tried")
    assert "built for NPU 7" in facts["torch"].note


@pytest.mark.usefixtures("npu")
def test_a_device_type_has_one_kind() -> None:
    devices.register_device(NPU)  # the same once more
    with pytest.raises(devices.DuplicateDeviceError, match="'npu'"):
        devices.register_device(dataclasses.replace(NPU, noun="other"))
    assert devices.kind_of("npu") is NPU
    assert devices.is_registered("npu")
    assert [kind.type for kind in devices.registered()] == ["cpu", "cuda", "npu"]
    assert [kind.type for kind in devices.accelerators()] == ["cuda", "npu"]


def test_inductors_graphs_on_registered_kinds_become_programs() -> None:
    from wrapper_ir.frontends.inductor.errors import UnsupportedDeviceError
    from wrapper_ir.frontends.inductor.registration import _refusal

    assert isinstance(_refusal("npu", None), UnsupportedDeviceError)
    devices.register_device(NPU)
    try:
        assert _refusal("npu", None) is None
    finally:
        devices.unregister_device(NPU)
