"""Frozen captures: constants are folded, weights packed, wherever the program goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.lines import AssertLayout
from wrapper_ir.lines.program import ConstantKind
from wrapper_ir.text.errors import ConstantsError, TextError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="nothing packs weights without oneDNN"
)
PACKED = 'constant %w : f32[8, 4] @cpu = packed "w" by mkldnn::_reorder_linear_weight(%plain, 3)'


class Folded(nn.Module):
    """A convolution whose batch norm goes into it, and a layer with a constant beside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.layer = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.norm(self.conv(x))).amax((2, 3))
        out: Tensor = self.layer(hidden) + self.layer.weight.sum()
        return out


@pytest.fixture(scope="module")
def frozen() -> tuple[nn.Module, Tensor, wir.Program]:
    torch.manual_seed(0)
    model, x = Folded(), torch.randn(3, 2, 6, 6)
    model(x)  # the norm has seen something
    model.eval()
    return model, x, wir.capture(model, (x,), freeze=True)


def test_what_depends_on_constants_alone_is_computed(
    frozen: tuple[nn.Module, Tensor, wir.Program],
) -> None:
    model, x, program = frozen
    wir.verify(program)
    packed = [c for c in program.constants.values() if c.kind is ConstantKind.PACKED]
    assert {each.packing.op for each in packed if each.packing} == {
        "mkldnn::_reorder_convolution_weight",
        "mkldnn::_reorder_linear_weight",
    }
    text = str(program)
    assert "batch_norm" not in text
    checks = {line.subject for line in program.body if isinstance(line, AssertLayout)}
    assert "torch.ops.mkldnn._convolution_pointwise.default" in checks
    assert not any(" " in check for check in checks)  # no pattern of Inductor's, with addresses
    assert not {"conv.weight", "norm.weight"} & {
        constant.qualified_name for constant in program.constants.values()
    }
    assert wir.parse(text) == program
    torch.testing.assert_close(wir.compile(program)(x)[0], model(x).detach())
    assert all(each.is_leaf for each in model.parameters())  # the model keeps its own
    assert model.conv.weight.shape == (4, 2, 3, 3)


def test_packed_constants_are_packed_again_where_they_are_read(
    frozen: tuple[nn.Module, Tensor, wir.Program], tmp_path: Path
) -> None:
    _, x, program = frozen
    program.save(tmp_path / "frozen.wir")
    again = wir.load(tmp_path / "frozen.wir")
    assert again == program
    assert again.canonical() == program.canonical()
    assert torch.equal(wir.interpret(again, x)[0], wir.compile(program)(x)[0])
    program.replace(data={}).save(tmp_path / "bare.wir")  # without values there is none to pack
    assert wir.load(tmp_path / "bare.wir", data=False).data == {}


def test_libraries_pack_them_when_they_are_loaded(
    frozen: tuple[nn.Module, Tensor, wir.Program], tmp_path: Path
) -> None:
    model, x, program = frozen
    loaded = torch._inductor.aoti_load_package(str(wir.export(program, tmp_path / "frozen.pt2")))
    expected = wir.compile(program)(x)[0]
    assert torch.equal(loaded(x), expected)
    (name,) = (
        constant.qualified_name
        for made, constant in program.constants.items()
        if constant.kind is not ConstantKind.PACKED and program.layout(made).size == (8, 4)
    )
    loaded.load_constants({name: torch.zeros(8, 4)}, check_full_update=False)
    assert not torch.equal(loaded(x), expected)
    loaded.load_constants({name: model.layer.weight.detach()}, check_full_update=False)
    assert torch.equal(loaded(x), expected)
    with pytest.raises(RuntimeError):
        loaded.load_constants({f"{name}.packed": torch.zeros(8, 4)}, check_full_update=False)


def test_the_setting_of_inductor_counts_unless_something_else_is_said() -> None:
    layer, x = nn.Linear(4, 4).eval(), torch.ones(2, 4)
    with torch._inductor.config.patch({"freezing": True}):
        assert "packed" in str(wir.capture(layer, (x,)))
        assert "packed" not in str(wir.capture(layer, (x,), freeze=False))


@pytest.mark.parametrize(
    "wrong",
    [
        PACKED.replace("mkldnn::_reorder_linear_weight", "aten::relu"),
        PACKED.replace("%plain", "%w"),
        PACKED.replace("%plain", "%nothing"),
        PACKED.replace("%plain", "%changing"),
        PACKED.replace("%plain, 3", "3"),
        PACKED.replace("packed", "tensor"),
        PACKED + "[-1]",
    ],
)
def test_only_ops_that_pack_may_be_named(wrong: str) -> None:
    text = f"""wir 2
program @packed inference planned

constant %plain : f32[8, 4] @cpu = tensor "plain"
constant %changing : f32[8, 4] @cpu = tensor "changing" mutable
{wrong}

return
"""
    with pytest.raises((wir.VerificationError, TextError), match=r"WIR1034|expected"):
        wir.verify(wir.parse(text))


def test_a_file_runs_no_op_that_does_not_pack(tmp_path: Path) -> None:
    good = f"""wir 2
program @packed inference planned

constant %plain : f32[8, 4] @cpu = tensor "plain"
{PACKED}

return
"""
    path = tmp_path / "p.wir"
    wir.parse(good).replace(data={"plain": torch.ones(8, 4)}).save(path)
    assert wir.load(path).data["w"].is_mkldnn
    path.write_text(path.read_text().replace("mkldnn::_reorder_linear_weight", "aten::relu"))
    with pytest.raises(ConstantsError, match="not a packing op"):
        wir.load(path)
