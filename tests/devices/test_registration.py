"""Kinds of devices that packages bring, and emitters that a process registers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.emitters import (
    DuplicateEmitterError,
    NotAnEmitterError,
    emitter_names,
    unregister_emitter,
)
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.errors import OptionValueError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wrapper_ir.emitters import Problems
    from wrapper_ir.emitters.python import PythonArtifact

KIND = """
from wrapper_ir.devices import DeviceKind, Memory
KIND = DeviceKind(type="npu", noun="NPU", plural="NPUs", memory=Memory(alignment=4096))
OTHER = 3
"""

ASK = """
import sys
sys.path.insert(0, {room!r})
import wrapper_ir as wir
from wrapper_ir import devices
from wrapper_ir.errors import WrapperIRError

assert "vendor" not in sys.modules
assert wir.Device("cpu").kind is devices.CPU
assert "vendor" not in sys.modules  # nothing asked for its device
try:
    print(wir.Device("npu", 0).kind.memory.alignment, devices.is_registered("npu"))
    print([kind.type for kind in devices.registered()])
except WrapperIRError as error:
    print(error)
"""


def package(room: Path, name: str, value: str) -> None:
    """Install a package with one entry point, as pip would."""
    (room / "vendor.py").write_text(KIND)
    info = room / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[wrapper_ir.devices]\nnpu = {value}\n")


def asked(room: Path) -> str:
    file = room / "ask.py"
    file.write_text(ASK.format(room=str(room)))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_package_brings_a_kind_which_is_imported_when_asked_for(tmp_path: Path) -> None:
    package(tmp_path, "vendor", "vendor:KIND")
    assert asked(tmp_path) == "4096 True\n['cpu', 'cuda', 'npu']\n"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("vendor:OTHER", "it is not a wrapper_ir.devices.DeviceKind"),
        ("vendor:NONE", "AttributeError: module 'vendor' has no attribute 'NONE'"),
        ("absent:KIND", "ModuleNotFoundError: No module named 'absent'"),
    ],
)
def test_a_fault_of_a_package_is_named_as_its_own(tmp_path: Path, value: str, reason: str) -> None:
    package(tmp_path, "vendor", value)
    said = asked(tmp_path)
    assert f"WIR0062: the device 'npu' ({value}, of vendor 1.0) cannot be loaded: {reason}" in said


def test_two_packages_with_a_kind_for_one_type_are_a_fault(tmp_path: Path) -> None:
    package(tmp_path, "vendor", "vendor:KIND")
    package(tmp_path, "rival", "vendor:OTHER")
    assert "several packages provide one: vendor:KIND, vendor:OTHER" in asked(tmp_path)


@dataclass(frozen=True)
class Loud(PythonEmitter):
    """Python, as ours is."""


@dataclass(frozen=True)
class Quiet(PythonEmitter):
    """Another one."""


@pytest.fixture
def loud() -> Iterator[None]:
    wir.register_emitter("loud", Loud)
    try:
        yield
    finally:
        unregister_emitter("loud")


TEXT = "wir 2\nprogram @same inference planned\n\ninput %x : f32[4] @cpu\n\nreturn %x\n"


@pytest.mark.usefixtures("loud")
def test_a_registered_emitter_is_a_target_like_others() -> None:
    program = wir.parse(TEXT)
    assert "loud" in emitter_names()
    assert wir.emit(program, "loud").source == wir.emit(program, "python").source


@pytest.mark.usefixtures("loud")
def test_a_name_is_one_emitters() -> None:
    wir.register_emitter("loud", Loud)  # the same once more
    with pytest.raises(DuplicateEmitterError, match="'loud' is registered more than once"):
        wir.register_emitter("loud", Quiet)
    with pytest.raises(DuplicateEmitterError, match="'python' is registered more than once"):
        wir.register_emitter("python", Loud)


def test_what_is_no_emitter_is_refused() -> None:
    with pytest.raises(NotAnEmitterError, match="'three' cannot be registered: it is not a sub"):
        wir.register_emitter("three", int)


@dataclass(frozen=True)
class Nameless(PythonEmitter):
    name: ClassVar[str] = ""


def test_an_emitter_has_a_name() -> None:
    with pytest.raises(NotAnEmitterError, match="'quiet' cannot be registered: it has no name"):
        wir.register_emitter("quiet", Nameless)
    assert "quiet" not in emitter_names()


@dataclass(frozen=True)
class Preparing(PythonEmitter):
    """Prepares what loads its programs, with a fault if it is told to."""

    name: ClassVar[str] = "preparing"
    calls: ClassVar[list[str]] = []
    fault: str = ""

    def prepare_loading(self) -> None:
        self.calls.append("prepare")
        if self.fault:
            refused = OptionValueError(option="fault", value=self.fault, expected="a known one")
            raise refused if self.fault == "known" else KeyError(self.fault)

    def render(self, program: wir.Program, problems: Problems) -> PythonArtifact:
        self.calls.append("render")
        return super().render(program, problems)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("", ""),
        ("odd", "emitter 'preparing' of the module .* failed while preparing to load its programs"),
        ("known", "expected a known one"),
    ],
)
def test_emitters_prepare_to_load_before_they_render(fault: str, said: str) -> None:
    torch.compiler.reset()
    Preparing.calls.clear()
    wir.register_emitter("preparing", Preparing)
    options = {"emitter": "preparing", "fault": fault}
    function = torch.compile(lambda x: x.sin() + 1, backend="wrapper_ir", options=options)
    try:
        if not said:
            assert torch.equal(function(torch.zeros(4)), torch.ones(4))
            assert Preparing.calls == ["prepare", "render"]
        else:
            with pytest.raises(Exception, match=said):  # Dynamo puts it into one of its own
                function(torch.zeros(4))
            assert Preparing.calls == ["prepare"]
    finally:
        unregister_emitter("preparing")
