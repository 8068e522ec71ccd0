"""What goes wrong is said in the words of the Python emitter, and nothing is read out of bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.emitters.corpus import program
from tests.release import TORCH

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.lines import Program

CASTS = """
wir 2
program @layouts inference planned

input %x : f32[2, 3, 4, 5] @cpu

extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
  %y = aten::clone(%x, memory_format=memory_format.channels_last) : f32[2, 3, 4, 5] @cpu
  assert_layout %y, "aten::clone"
return %y
"""

ALIGNED = """
wir 2
program @aligned inference planned

input %x : f32[4] @cpu

  assert_layout %x, "input" align 64
return %x
"""

ARITHMETIC = """
wir 2
program @arithmetic inference planned

symbol s0 : int
symbol s1 : int
symbol k0 : int
symbol k1 : int
input s0
input s1

  k0 = compute s0*s0*s0
  k1 = compute s0 // s1
return k0, k1
"""

RELATION = """
wir 2
program @relation inference planned

symbol s0 : int [1, inf] hint 4
symbol s1 : int [1, inf] hint 2
input %x : f32[s0, 2*s1] @cpu
input %y : f32[s1] @cpu

  s0 = size %x, 0
  s1 = size %y, 0
  assert s0 % 2 == 0 && s1 < s0, "an even number"
return %x
"""

CALLS = """
wir 2
program @calls inference planned

symbol s0 : int
input %x : f32[4, 4] @cpu
input s0

extern aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
  %y = aten::select.int(%x, 0, s0) : f32[4] @cpu may_alias(%x)
return %y
"""


NARROW = "narrow(Tensor(a) self, int dim, SymInt start, SymInt length)"


def parsed(text: str) -> Program:
    return wir.parse(text)


def failure(
    function: Callable[..., Any], inputs: list[Any]
) -> tuple[type, str, str, dict[str, object]]:
    with pytest.raises(wir.WrapperIRError) as caught:
        function(*inputs)
    error = caught.value
    return type(error), error.message, error.hint or "", error.fields


SAME: dict[str, tuple[Callable[[], Program], list[Any]]] = {
    "range": (lambda: program("cond_nested"), [torch.randn(65)]),
    "range of a number": (lambda: program("expressions"), [0, 3, 2, 1.5]),
    "kind of a number": (lambda: program("expressions"), [1.5, 3, 2, 1.5]),
    "size": (lambda: program("planned"), [torch.randn(4, 65)]),
    "rank": (lambda: program("planned"), [torch.randn(4)]),
    "dtype": (lambda: program("planned"), [torch.randn(4, 64).double()]),
    "stride": (lambda: program("planned"), [torch.randn(64, 4).t()]),
    "symbolic size": (lambda: program("dynamic_shapes"), [torch.randn(5, 3), torch.randn(4, 5)]),
    "symbolic stride": (
        lambda: program("dynamic_shapes"),
        [torch.randn(3, 5).t(), torch.randn(3, 5)],
    ),
    "relation of sizes": (lambda: parsed(RELATION), [torch.randn(4, 6), torch.randn(2)]),
    "condition": (lambda: parsed(RELATION), [torch.randn(3, 4), torch.randn(2)]),
    "layout of a result": (lambda: parsed(CASTS), [torch.randn(2, 3, 4, 5)]),
    "fewer inputs": (lambda: program("dynamic_shapes"), [torch.randn(5, 3)]),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_words(name: str) -> None:
    make, inputs = SAME[name]
    in_python = failure(wir.compile(make()), inputs)
    assert failure(wir.compile(make(), "cpp"), inputs) == in_python


def test_a_condition_without_a_message_is_its_own() -> None:
    text = RELATION.replace(', "an even number"', "")
    inputs = [torch.randn(3, 4), torch.randn(2)]
    _, message, _, _ = failure(wir.compile(parsed(text), "cpp"), inputs)
    assert message == "the program needs s0 % 2 == 0 && s1 < s0, but s0 is 3, s1 is 2"


def test_alignment() -> None:
    base = torch.empty(64)
    shift = (-base.data_ptr() // 4) % 16
    x = base[shift + 1 : shift + 5]
    kind, message, _, fields = failure(wir.compile(parsed(ALIGNED), "cpp"), [x])
    assert kind.__name__ == "AlignmentError"
    assert message == f"'x' is not aligned to 64 bytes: its data is at {x.data_ptr():#x}"
    assert fields == {"name": "x", "alignment": 64, "address": x.data_ptr()}
    aligned = base[shift : shift + 4]
    assert wir.compile(parsed(ALIGNED), "cpp")(aligned)[0].data_ptr() == aligned.data_ptr()


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ([2**40, 1], "beyond 64 bits"),
        ([2, 0], "divides by zero"),
        ([-(2**63), -1], "beyond 64 bits"),
    ],
)
def test_numbers_do_not_wrap_around(inputs: list[int], why: str) -> None:
    function = wir.compile(parsed(ARITHMETIC), "cpp")
    assert function(-7, 2) == (-343, -4)
    kind, message, _, _ = failure(function, inputs)
    assert why in message
    assert issubclass(kind, ArithmeticError)


def test_a_failed_op_says_which_and_where() -> None:
    function = wir.compile(parsed(CALLS), "cpp")
    x = torch.randn(4, 4)
    assert torch.equal(function(x, -1)[0], x[-1])
    with pytest.raises(RuntimeError, match="out of range") as caught:
        function(x, 4)
    assert "at body[1]" in str(caught.value)


def test_a_failed_function_of_the_c_shim_gives_pytorchs_words() -> None:
    text = CALLS.replace("select.int(Tensor(a) self, int dim, SymInt index)", NARROW)
    text = text.replace(
        "aten::select.int(%x, 0, s0) : f32[4]", "aten::narrow(%x, 0, s0, 1) : f32[1, 4]"
    )
    artifact = wir.emit(parsed(text), "cpp")
    assert "aoti_torch_cpu_narrow" in artifact.source or "aoti_torch_aten_narrow" in artifact.source
    x = torch.randn(4, 4)
    assert torch.equal(artifact.load()(x, 3)[0], x[3:])
    words = "start" if TORCH >= (2, 13) else "PyTorch refused the call"
    with pytest.raises(RuntimeError, match=words):
        artifact.load()(x, 7)


CONJUGATE = """
wir 2
program @conjugate inference planned

input %x : c64[4] @cpu

extern aten::_conj(Tensor(a) self) -> Tensor(a)
extern aten::mul.Tensor(Tensor self, Tensor other) -> Tensor
  %y = aten::_conj(%x) : c64[4] @cpu alias(%x)
  %z = aten::mul.Tensor(%y, %y) : c64[4] @cpu
return %z
"""


def test_lazy_conjugation_is_made_good_on() -> None:
    x = torch.randn(4, dtype=torch.complex64)
    expected = wir.compile(parsed(CONJUGATE))(x)[0]
    assert torch.equal(wir.compile(parsed(CONJUGATE), "cpp")(x)[0], expected)
    torch.testing.assert_close(expected, x.conj() * x.conj())


def test_a_number_that_nothing_depends_on_may_be_none() -> None:
    text = CALLS.replace("symbol s0 : int", "symbol s0 : int\nsymbol s1 : int [1, 5]")
    text = text.replace("input s0", "input s0\ninput s1")
    x = torch.randn(4, 4)
    for target in ("python", "cpp"):
        assert torch.equal(wir.compile(parsed(text), target)(x, 1, None)[0], x[1])


def test_an_op_that_is_not_there() -> None:
    text = CALLS.replace("aten::select.int", "nowhere::select_it")
    with pytest.raises(RuntimeError, match="nowhere::select_it"):
        wir.compile(parsed(text), "cpp")(torch.randn(4, 4), 1)


def test_a_failed_call_gives_back_what_it_took() -> None:
    function = wir.compile(parsed(CALLS), "cpp")
    x = torch.randn(4, 4)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            function(x, 9)
    assert torch.equal(function(x, 2)[0], x[2])
