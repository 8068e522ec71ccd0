"""What is known of a program before it is rendered."""

from __future__ import annotations

import pytest

import wrapper_ir as wir
from tests.emitters.corpus import program
from wrapper_ir.analysis.borders import placed_results, random_states
from wrapper_ir.analysis.kept import kept_buffers
from wrapper_ir.analysis.liveness import mutated_inputs

HEAD = "wir 2\nprogram @p inference planned\nsymbol s0 : int [2, 64] hint 8\n"


@pytest.mark.parametrize(
    ("name", "placed"),
    [
        ("extern_out", {"buf1": 0}),
        ("results", {"buf0": 0}),  # twice a result, and a view of it is another
        ("unbacked", {"twice": 1}),
        ("planned", {"buf0": 0}),  # through a reuse
        ("dynamic_shapes", {"buf1": 0}),  # flattened
        ("constants", {}),
        ("input_mutation", {}),
        ("extern_fresh", {}),
    ],
)
def test_results_that_the_program_allocates(name: str, placed: dict[str, int]) -> None:
    assert placed_results(program(name)) == placed


@pytest.mark.parametrize(
    ("allocated", "returned", "is_placed"),
    [
        ("f32[s0, 3]", "f32[3, s0]{1, 3}", True),
        ("f32[4, s0]{1, 4}", "f32[4*s0]", True),
        ("f32[1, 6]{7, 1}", "f32[6, 1]{1, 9}", True),  # strides of single rows are free
        ("f32[s0, 3]", "f32[s0]", False),  # a part
        ("f32[4, 3]", "f32[4, 2]{3, 1}", False),
        ("f32[4, 3]{4, 1}", "f32[4, 3]{4, 1}", False),  # with gaps
        ("f32[3]", "f32[3, 3]{1, 1}", False),  # elements seen more than once
        ("f32[6]", "i32[6]", False),
    ],
)
def test_views_that_are_results(allocated: str, returned: str, *, is_placed: bool) -> None:
    made = wir.parse(f"{HEAD}input %x : f32[s0] @cpu\n  s0 = size %x, 0\n"
                     f"  %a = allocate : {allocated} @cpu\n"
                     f"  %b = reinterpret %a : {returned} @cpu\nreturn %b\n")  # fmt: skip
    assert placed_results(made) == ({"a": 0} if is_placed else {})


def test_what_may_be_one_of_several_inputs_may_be_any_of_them() -> None:
    made = wir.parse(HEAD + """\
input %x : f32[4] @cpu
input %y : f32[4] @cpu
input %z : f32[4] @cpu
input s0
extern aten::neg_(Tensor(a!) self) -> Tensor(a!)
  %r = cond s0 > 3 with (%x, %z) : f32[4] @cpu may_alias(%x, %z)
    then (%a : f32[4] @cpu, %b : f32[4] @cpu) {
      yield %a
    }
    else (%c : f32[4] @cpu, %d : f32[4] @cpu) {
      yield %d
    }
  aten::neg_(inout %r)
return
""")
    wir.verify(made)
    assert mutated_inputs(made) == [0, 2]


def test_states_of_random_numbers_are_known_by_the_op_that_returns_them() -> None:
    made = wir.parse("""\
wir 2
program @states inference planned

input %x : f32[8, 8] @cuda:0

extern aten::attention(Tensor x, float dropout_p=0.0) -> (Tensor, Tensor)
extern aten::count(Tensor x) -> Tensor

  (%y, %state) = aten::attention(%x, 0.5) : (f32[8, 8] @cuda:0, i64[] @cuda:0)
  assert_layout %state, "a word of the user's"
  %n = aten::count(%x) : i64[] @cuda:0
  assert_layout %n, "torch.ops.aten._scaled_dot_product_by_name.default"
  free %n
return %y, %state
""")
    assert random_states(made) == {"state"}
    python = wir.emit(made, "python").source
    assert python.count("device=None") == 1


def test_states_of_random_numbers_are_known_outside_of_a_region_that_makes_them() -> None:
    made = wir.parse("""\
wir 2
program @states inference planned

input %x : f32[8, 8] @cuda:0
input %p : i64[] @cpu

extern aten::attention(Tensor x, float dropout_p=0.0) -> (Tensor, Tensor)

  (%y, %state) = switch %p with (%x) : (f32[8, 8] @cuda:0, i64[] @cuda:0)
    case0 (%a : f32[8, 8] @cuda:0) {
      (%y_1, %state_1) = aten::attention(%a, 0.5) : (f32[8, 8] @cuda:0, i64[] @cuda:0)
      yield %y_1, %state_1
    }
return %y, %state
""")
    assert random_states(made) == {"state", "state_1"}


def test_marked_storage_that_an_op_may_resize_is_not_kept() -> None:
    made = wir.parse("""\
wir 2
program @marked inference planned

input %x : f32[8, 8] @cpu

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)

  %b = allocate kept : f32[8, 8] @cpu
  %c = allocate kept : f32[8, 8] @cpu
  aten::relu.out(%x, out=out %b)
  aten::mm.out(%x, %x, out=out %c)
  free %b
  free %c
return
""")
    wir.verify(made)
    assert kept_buffers(made) == ("c",)
