"""Objects of custom classes (torchbind) through Inductor and every way to run a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.torchbind import foo, needs_classes, of_class, queue
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.lines import ExternKernel, ObjectInput, Reuse, effects

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    needs_classes,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    statistics.reset()


def turns(q: Any, f: Any, x: Tensor) -> tuple[Tensor, Tensor, int]:
    """Calls of methods and of ops, whose order shows in the results and in the queue."""
    ops = torch.ops._TorchScriptTesting
    y = x.cos()
    q.push(y)
    ops.queue_push(q, f.add_tensor(x))
    first = q.pop()
    q.push(x + 1)
    return first.sin() * 2, y.sin() + ops.takes_foo(f, first), q.size()


def held(q: Any) -> list[Tensor]:
    return list(q.get_raw_queue())


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
def test_calls_with_objects_happen_in_the_order_of_the_model(emitter: str) -> None:
    x, wanted, given = torch.rand(4), queue(), queue()
    expected = turns(wanted, foo(), x)
    with wir.record() as programs:
        compiled = torch.compile(
            turns, backend="wrapper_ir", fullgraph=True, options={"emitter": emitter}
        )
        found = compiled(given, foo(), x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(held(given), held(wanted))
    assert (statistics.programs, statistics.fallbacks) == (1, 0)

    (program,) = programs
    classes = [item.class_name for item in program.inputs if isinstance(item, ObjectInput)]
    assert sorted(classes) == ["_TorchScriptTesting::_Foo", "_TorchScriptTesting::_TensorQueue"]
    assert wir.parse(str(program)) == program
    calls = [line for line in program.body if effects(line).objects]
    assert [line.op.rpartition(".")[2] for line in calls if isinstance(line, ExternKernel)] == [
        *("push", "add_tensor", "_TorchScriptTesting::queue_push", "pop", "push"),
        *("_TorchScriptTesting::takes_foo", "size"),
    ]
    # The second call finds the queue as the first one left it.
    torch.testing.assert_close(compiled(given, foo(), x), turns(wanted, foo(), x))
    torch.testing.assert_close(held(given), held(wanted))


def keeps(q: Any, x: Tensor) -> Tensor:
    y = x.cos()
    q.push(y)
    return (y.sum() * y.sin().exp()).tanh()


def test_what_an_object_holds_is_not_overwritten() -> None:
    x, wanted, given = torch.rand(64, 64), queue(), queue()
    expected = keeps(wanted, x)
    with wir.record() as programs:
        found = torch.compile(keeps, backend="wrapper_ir", fullgraph=True)(given, x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(held(given), held(wanted))
    for memory in ("none", "reuse", "pool"):
        planned = wir.plan_memory(programs[0], memory)
        kept = {name for line in planned.body for name in effects(line).held}
        assert kept
        assert not any(isinstance(line, Reuse) and line.donor in kept for line in planned.body)
        again = queue()
        inputs = [again if isinstance(item, ObjectInput) else x for item in planned.inputs]
        torch.testing.assert_close(wir.interpret(planned, *inputs), (expected,))
        torch.testing.assert_close(held(again), held(wanted))


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = foo(10, 20)
        self.bias = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale.add_tensor(x + self.bias) + torch.ops._TorchScriptTesting.takes_foo(
            self.scale, x
        )


def test_an_object_of_a_model_is_a_constant_of_its_program(tmp_path: Path) -> None:
    model, x = Model(), torch.rand(2, 3)
    program = wir.capture(model, (x,))
    (name,) = program.objects
    assert program.objects[name].class_name == "_TorchScriptTesting::_Foo"
    assert program.objects[name].qualified_name == "scale"
    assert program.data[name] is model.scale
    assert wir.parse(str(program)) == program
    expected = model(x).detach()
    torch.testing.assert_close(wir.interpret(wir.plan_memory(program), x), (expected,))
    for emitter in ("python", "cpp", "fx"):
        torch.testing.assert_close(wir.compile(program, emitter)(x), (expected,))

    program.save(tmp_path / "m.wir")
    again = wir.load(tmp_path / "m.wir")
    assert again == program
    assert again.data[name] is not model.scale
    torch.testing.assert_close(wir.interpret(wir.plan_memory(again), x), (expected,))
    text = (tmp_path / "m.wir").read_text(encoding="utf-8")
    (tmp_path / "m.wir").write_text(text.replace("::_Foo =", "::_Other ="), encoding="utf-8")
    with pytest.raises(wir.WrapperIRError, match=r"has class .*_Foo, but .* says .*_Other"):
        wir.load(tmp_path / "m.wir")


QUEUE = "_TorchScriptTesting::_TensorQueue"
QUEUE_TYPE = "__torch__.torch.classes._TorchScriptTesting._TensorQueue"
TURN = f"""\
wir 2
program @turn inference planned

input &queue : {QUEUE}
input %x : f32[3] @cpu

method {QUEUE}.push({QUEUE_TYPE} _0, Tensor _1) -> NoneType
method {QUEUE}.pop({QUEUE_TYPE} _0) -> Tensor
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

  {QUEUE}.push(&queue, %x)
  %y = {QUEUE}.pop(&queue) : f32[3] @cpu held
  %z = aten::add.Tensor(%y, %x) : f32[3] @cpu
  free %y
return %z
"""


def test_an_object_of_another_class_is_refused() -> None:
    program, x = wir.parse(TURN), torch.rand(3)
    runs = [wir.compile(program, emitter) for emitter in ("python", "cpp", "fx")]
    for run in (*runs, lambda *inputs: wir.interpret(program, *inputs)):
        assert torch.equal(run(queue(), x)[0], x + x)
        for wrong, said in ((foo(), "class _TorchScriptTesting::_Foo"), (3, "type int")):
            with pytest.raises(wir.WrapperIRError, match=f"_TensorQueue.*{said}"):
                run(wrong, x)


WORDS = "_TorchScriptTesting::_StackString"
WORDS_TYPE = "__torch__.torch.classes._TorchScriptTesting._StackString"
PACKED = "quantized::LinearPackedParamsBase"
PACKED_TYPE = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
MADE = f"""\
wir 2
program @made inference logical

input &words : {WORDS}
input %x : f32[5, 3] @cpu
input %w : f32[4, 3] @cpu

method {WORDS}.clone({WORDS_TYPE} _0) -> {WORDS_TYPE}
method {WORDS}.push({WORDS_TYPE} _0, str _1) -> NoneType
method {WORDS}.merge({WORDS_TYPE} _0, {WORDS_TYPE} _1) -> NoneType
extern aten::neg(Tensor self) -> Tensor
extern quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> {PACKED_TYPE} W_prepack
extern quantized::linear_dynamic_fp16(Tensor X, {PACKED_TYPE} W_prepack) -> Tensor Y

  &copy = {WORDS}.clone(&words) : {WORDS}
  {WORDS}.push(&copy, "more")
  {WORDS}.merge(&words, &copy)
  %minus = aten::neg(%w) : f32[4, 3] @cpu
  &packed = quantized::linear_prepack_fp16(%minus) : {PACKED}
  %other = allocate zeroed : f32[4, 3] @cpu
  %y = quantized::linear_dynamic_fp16(%x, &packed) : f32[5, 4] @cpu held
return %y, %other
"""


def test_an_op_may_return_an_object() -> None:
    program = wir.parse(MADE)
    assert str(program) == MADE
    planned = wir.plan_memory(program)
    assert not any(isinstance(line, Reuse) for line in planned.body)  # %minus may be held
    x, w = torch.randn(5, 3), torch.randn(4, 3)
    ops = torch.ops.quantized
    expected = ops.linear_dynamic_fp16(x, ops.linear_prepack_fp16(-w))
    runs = [wir.compile(program, emitter) for emitter in ("python", "cpp", "fx")]
    for run in (*runs, lambda *inputs: wir.interpret(planned, *inputs)):
        for _ in range(2):
            words = of_class("_StackString", ["a", "b"])
            assert torch.equal(run(words, x, w)[0], expected)
            assert [words.pop() for _ in range(5)] == ["more", "b", "a", "b", "a"]
    renamed = wir.parse(MADE.replace("&copy", "&twin"))
    assert wir.canonical(renamed) == wir.canonical(program)
    assert not wir.diff(program, renamed)
    assert "less" in str(wir.diff(program, wir.parse(MADE.replace('"more"', '"less"'))))


def test_an_object_of_another_class_than_promised_is_noticed() -> None:
    wrong = MADE.replace(PACKED_TYPE + " W_prepack", WORDS_TYPE + " W_prepack")
    wrong = wrong.replace(f": {PACKED}", f": {WORDS}")
    x, w = torch.randn(5, 3), torch.randn(4, 3)
    with pytest.raises(
        wir.WrapperIRError, match=r"result 0 is of type .*_StackString, registered .*quantized"
    ):
        wir.interpret(wir.parse(wrong), of_class("_StackString", ["a"]), x, w)


def test_a_region_gives_no_objects() -> None:
    text = MADE.replace("  %minus =", "  (&a, &b) = cond true : (ns::A, ns::B)\n  %minus =")
    with pytest.raises(wir.WrapperIRError, match="regions cannot return objects"):
        wir.parse(text)
