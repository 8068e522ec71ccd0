"""Programs that declare what ops, constants and kernels are not: errors in every emitter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.interpreter import BrokenPromiseError
from wrapper_ir.passes import run_passes
from wrapper_ir.runtime import InputLayoutError, SymbolError
from wrapper_ir.runtime.errors import ResultLayoutError
from wrapper_ir.toolchain.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterator

EMITTERS = ("python", "fx", "cpp")


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    library: Any = torch.library.Library("untrue", "DEF")
    library.define("half(Tensor x) -> Tensor")
    library.impl("half", lambda x: x[: len(x) // 2].clone(), "CompositeExplicitAutograd")
    torch.library.register_fake("untrue::half", torch.empty_like, lib=library)
    library.define("twice(Tensor x, *, Tensor(a!) out) -> ()")
    library.impl("twice", _twice, "CompositeExplicitAutograd")
    library.define("count(Tensor x) -> int")
    library.impl("count", lambda x: int(x[0]), "CompositeExplicitAutograd")
    library.define("counts(Tensor x) -> int[]")
    library.impl("counts", lambda x: [7, int(x[0])], "CompositeExplicitAutograd")
    library.define("ratio(Tensor x) -> float")
    library.impl("ratio", lambda x: 0.5, "CompositeExplicitAutograd")
    library.define("halves(Tensor x) -> Tensor[]")
    library.impl("halves", lambda x: [x[:2].clone()] * int(x[0]), "CompositeExplicitAutograd")
    library.define("both(Tensor x) -> (Tensor, Tensor[])")
    library.impl("both", lambda x: (x + 1, [x + 2] * int(x[0])), "CompositeExplicitAutograd")
    yield
    library._destroy()


def _twice(x: torch.Tensor, *, out: torch.Tensor) -> None:
    out.resize_(x.shape).copy_(2 * x)


PROGRAM = """\
wir 2
program @untrue inference logical

{symbols}input %x : {input} @cpu

extern {schema}

kernel @total(x: in f32, out: out f32, n: i64) cpp
  | extern "C" void kernel(const float* x, float* out, long n) {{
  |   double sum = 0;
  |   for (long i = 0; i < n; ++i) sum += x[i];
  |   out[0] = (float)sum;
  | }}
  |

{body}
  %o = allocate : f32[1] @cpu
  call @total(%a, out %o, {count})
return %o
"""

RELU = "aten::relu(Tensor self) -> Tensor"
FULL = (
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None,"
    " Device? device=None, bool? pin_memory=None) -> Tensor"
)
SUM = (
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor"
)
MAX = "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
CLONE = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
ARGMAX = "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"
NONZERO = "aten::nonzero(Tensor self) -> Tensor"

#: A schema, the body, the number of elements that the kernel reads, the difference.
UNTRUE: dict[str, tuple[str, str, str, str]] = {
    "a size": (RELU, "  %a = aten::relu(%x) : f32[400, 400] @cpu", "160000", "size"),
    "a symbolic size": (
        RELU,
        "  s0 = size %x, 0\n  %a = aten::relu(%x) : f32[400*s0, 4] @cpu",
        "1600*s0",
        "size",
    ),
    "a size that a symbol hides": (
        RELU,
        "  s0 = size %x, 0\n  %a = aten::relu(%x) : f32[Max(s0, 8), 4] @cpu",
        "32",
        "size",
    ),
    "a rank": (SUM, "  %a = aten::sum.dim_IntList(%x, [1]) : f32[2, 4] @cpu", "8", "rank"),
    "a sum": (SUM, "  %a = aten::sum.dim_IntList(%x, [1]) : f32[8] @cpu", "8", "size"),
    "a device": (
        FULL,
        "  %a = aten::full([4, 4], 1.0, dtype=f32, device=@meta) : f32[4, 4] @cpu",
        "16",
        "device",
    ),
    "a type": (ARGMAX, "  %a = aten::argmax(%x, 1) : f32[4] @cpu", "4", "dtype"),
    "strides": (CLONE, "  %a = aten::clone(%x) : f32[4, 4]{1, 4} @cpu", "16", "stride"),
    "one of two results": (
        MAX,
        "  (%a, %at) = aten::max.dim(%x, 1) : (f32[64] @cpu, i64[4] @cpu)",
        "64",
        "size",
    ),
    "a size that depends on data": (
        NONZERO,
        "  %at = aten::nonzero(%x) : i64[64, 2] @cpu\n  %a = reinterpret %at : f32[256] @cpu",
        "256",
        "size",
    ),
    "an op of one's own": (
        "untrue::half(Tensor x) -> Tensor",
        "  %a = untrue::half(%x) : f32[4, 4] @cpu",
        "16",
        "size",
    ),
}


def program(name: str) -> wir.Program:
    schema, body, count, _ = UNTRUE[name]
    is_symbolic = "s0" in body
    text = PROGRAM.format(
        symbols="symbol s0 : int [2, 512]\n" if is_symbolic else "",
        input="f32[s0, 4]" if is_symbolic else "f32[4, 4]",
        schema=schema,
        body=body,
        count=count,
    )
    return wir.parse(text)


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("name", sorted(UNTRUE))
def test_a_result_of_another_layout_than_declared_is_refused(name: str, emitter: str) -> None:
    run = wir.compile(program(name), emitter)
    with pytest.raises(ResultLayoutError, match=f"different {UNTRUE[name][3]}:") as caught:
        run(torch.ones(4, 4))
    assert "register_fake" in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(UNTRUE))
def test_so_does_the_interpreter(name: str) -> None:
    with pytest.raises(BrokenPromiseError, match="does not do what the program says"):
        wir.interpret(program(name), torch.ones(4, 4))


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.relu(torch.ops.untrue.half(x))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_fake_kernel_that_says_something_else_is_named(emitter: str) -> None:
    exported = torch.export.export(Half(), (torch.ones(4, 4),)).run_decompositions()
    run = wir.compile(wir.from_fx(exported), emitter)
    with pytest.raises(ResultLayoutError, match="'untrue::half' returned") as caught:
        run(torch.ones(4, 4))
    assert "fake kernel" in str(caught.value.hint)


IN_A_REGION = """\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu
input %p : bool[] @cpu

extern untrue::half(Tensor x) -> Tensor

  %a = cond %p with (%x) : f32[4] @cpu
    then (%b : f32[4] @cpu) {
      %c = untrue::half(%b) : f32[4] @cpu
      yield %c
    }
    else (%d : f32[4] @cpu) {
      %e = untrue::half(%d) : f32[4] @cpu
      yield %e
    }
return %a
"""


@pytest.mark.parametrize("emitter", EMITTERS)
def test_results_in_regions_are_checked_too(emitter: str) -> None:
    run = wir.compile(wir.parse(IN_A_REGION), emitter)
    with pytest.raises(ResultLayoutError, match="'untrue::half'"):
        run(torch.ones(4), torch.tensor(True))


# Lists: their lengths depend on sizes, and on whatever an op does.

LISTS: dict[str, tuple[str, str, str]] = {
    "an op of one's own": (
        "untrue::halves(Tensor x) -> Tensor[]",
        "(%a, %b) = untrue::halves(%x) : (f32[2] @cpu, f32[2] @cpu)",
        "at least 2, got one of 1",
    ),
    "one part of it": (
        "untrue::halves(Tensor x) -> Tensor[]",
        "%b = untrue::halves(%x) : f32[2] @cpu at [3]",
        "at least 4, got one of 1",
    ),
    "a list beside a tensor": (
        "untrue::both(Tensor x) -> (Tensor, Tensor[])",
        "(%b, %c) = untrue::both(%x) : (f32[4] @cpu at [0], f32[4] @cpu at [1, 2])",
        "at least 3, got one of 1",
    ),
    "pieces of a size": (
        "aten::split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
        "(%a, %b) = aten::split_with_sizes_copy(%x, [4]) : (f32[4] @cpu, f32[0] @cpu)",
        "at least 2, got one of 1",
    ),
    "views": (
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "(%b, %c) = aten::split.Tensor(%x, 4) : (f32[4] @cpu alias(%x), f32[0]+4 @cpu alias(%x))",
        "at least 2, got one of 1",
    ),
    "numbers": (
        "untrue::counts(Tensor x) -> int[]",
        "(u0, u1, u2) = untrue::counts(%x) : (symbol, symbol, symbol)",
        "at least 3, got one of 2",
    ),
}


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("name", sorted(LISTS))
def test_a_list_that_is_too_short_is_refused(name: str, emitter: str) -> None:
    schema, line, words = LISTS[name]
    symbols = "".join(f"symbol u{n} : int unbacked\n" for n in range(3) if "u0" in line)
    head = f"wir 2\nprogram @untrue inference logical\n\n{symbols}input %x : f32[4] @cpu\n"
    returned = "u0" if symbols else "%b"
    text = f"{head}\nextern {schema}\n\n  {line}\nreturn {returned}\n"
    run = wir.compile(wir.parse(text), emitter)
    with pytest.raises(ResultLayoutError, match=f"different length: .* list of {words}") as e:
        run(torch.ones(4))
    assert e.value.fields["op"] == schema.partition("(")[0]


#: A list taken apart in a region: the region's line, with an op of the length of a value of %x.
IN_REGIONS: dict[str, str] = {
    "a branch": """\
  %r = cond %p with (%x) : f32[2] @cpu
    then (%b : f32[4] @cpu) {
      (%c, %d) = untrue::halves(%b) : (f32[2] @cpu, f32[2] @cpu)
      yield %d
    }
    else (%e : f32[4] @cpu) {
      (%f, %g) = untrue::halves(%e) : (f32[2] @cpu, f32[2] @cpu)
      yield %g
    }
""",
    "a case": """\
  %r = switch 1 with (%x) : f32[2] @cpu
    case0 (%b : f32[4] @cpu) {
      %c = untrue::halves(%b) : f32[2] @cpu at [0]
      yield %c
    }
    case1 (%d : f32[4] @cpu) {
      %e = untrue::halves(%d) : f32[2] @cpu at [1]
      yield %e
    }
""",
    "a body": """\
  (u0, %r) = while (0, %x) : (symbol, f32[4] @cpu)
    condition (u1, %a : f32[4] @cpu) {
      yield u1 < 2
    }
    body (u2, %b : f32[4] @cpu) {
      (%c, %d) = untrue::both(%b) : (f32[4] @cpu at [0], f32[4] @cpu at [1, 1])
      yield u2 + 1, %d
    }
""",
    "a body that writes what it carries": """\
  (u0, %r) = while (0, inout %x) : (symbol, f32[4] @cpu may_alias(%x))
    condition (u1, %a : f32[4] @cpu) {
      yield u1 < 2
    }
    body (u2, %b : f32[4] @cpu) {
      (%c, %d) = untrue::halves(%b) : (f32[2] @cpu, f32[2] @cpu)
      aten::add_.Scalar(inout %b, 1)
      yield u2 + 1, %b
    }
""",
    "a condition": """\
  (u0, %r) = while (0, %x) : (symbol, f32[4] @cpu)
    condition (u1, %a : f32[4] @cpu) {
      (u3, u4) = untrue::counts(%a) : (symbol at [0], symbol at [2])
      yield u4 < u3
    }
    body (u2, %b : f32[4] @cpu) {
      %c = aten::relu(%b) : f32[4] @cpu
      yield u2 + 1, %c
    }
""",
    "a branch in a body": """\
  (u0, %r) = while (0, %x) with (%p) : (symbol, f32[4] @cpu)
    condition (u1, %a : f32[4] @cpu, %q : bool[] @cpu) {
      yield u1 < 2
    }
    body (u2, %b : f32[4] @cpu, %q1 : bool[] @cpu) {
      %o = cond %q1 with (%b) : f32[4] @cpu
        then (%c : f32[4] @cpu) {
          %d = untrue::both(%c) : f32[4] @cpu at [1, 2]
          yield %d
        }
        else (%e : f32[4] @cpu) {
          %f = aten::relu(%e) : f32[4] @cpu
          yield %f
        }
      yield u2 + 1, %o
    }
""",
}


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("name", sorted(IN_REGIONS))
def test_so_is_one_in_a_region(name: str, emitter: str) -> None:
    body = IN_REGIONS[name]
    if emitter == "fx" and "switch" in body and not hasattr(torch.ops.higher_order, "switch"):
        pytest.skip("this version of torch has no op for switches")
    symbols = "".join(f"symbol u{n} : int unbacked\n" for n in range(5) if f"u{n}" in body)
    text = (
        f"wir 2\nprogram @untrue inference logical\n\n{symbols}"
        "input %x : f32[4] @cpu\ninput %p : bool[] @cpu\n\n"
        "extern untrue::halves(Tensor x) -> Tensor[]\n"
        "extern untrue::both(Tensor x) -> (Tensor, Tensor[])\n"
        "extern untrue::counts(Tensor x) -> int[]\n"
        "extern aten::relu(Tensor self) -> Tensor\n"
        "extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)\n\n"
        f"{body}return %r\n"
    )
    run = wir.compile(wir.parse(text), emitter)
    with pytest.raises(ResultLayoutError, match=r"different length: .* got one of [12]"):
        run(torch.ones(4), torch.tensor(True))


# Output buffers: an op resizes one that its result does not fit, and writes all of it.

OUTS = """\
wir 2
program @untrue inference logical

{symbols}input %x : {input} @cpu

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::neg.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
extern aten::relu(Tensor self) -> Tensor
extern untrue::twice(Tensor x, *, Tensor(a!) out) -> ()

{body}
  %a = aten::relu(%y) : {layout} @cpu
  %b = aten::relu(%z) : f32[8, 8] @cpu
return %a, %b
"""

_Z = "  %z = allocate : f32[8, 8] @cpu\n  aten::fill_.Scalar(inout %z, 5)\n"
_POOL = """\
  %p = allocate_pool : u8[1024] @cpu
  %y = allocate_from_pool %p[0] : f32[4, 4] @cpu
  %z = allocate_from_pool %p[64] : f32[8, 8] @cpu
  aten::fill_.Scalar(inout %z, 5)
"""
_MM = "  aten::mm.out(%x, %x, out=out %y)"
_S = "  s0 = size %x, 0\n"

#: The body, the layout of the output.
TOO_SMALL: dict[str, tuple[str, str]] = {
    "too small": ("  %y = allocate : f32[4, 4] @cpu\n" + _Z + _MM, "f32[4, 4]"),
    "too large": ("  %y = allocate : f32[16, 16] @cpu\n" + _Z + _MM, "f32[16, 16]"),
    "another rank": ("  %y = allocate : f32[64] @cpu\n" + _Z + _MM, "f32[64]"),
    "in a pool": (_POOL + _MM, "f32[4, 4]"),
    "an op of each element": (
        "  %y = allocate : f32[4, 8] @cpu\n" + _Z + "  aten::neg.out(%x, out=out %y)",
        "f32[4, 8]",
    ),
    "part of another": (
        "  %w = allocate : f32[8, 8] @cpu\n  %y = reinterpret %w : f32[2, 8] @cpu\n" + _Z + _MM,
        "f32[2, 8]",
    ),
    "a symbolic size": (
        _S + "  %y = allocate : f32[s0, 4] @cpu\n" + _Z + _MM,
        "f32[s0, 4]",
    ),
}


def with_out(name: str) -> wir.Program:
    body, layout = TOO_SMALL[name]
    is_symbolic = "s0" in body
    return wir.parse(
        OUTS.format(
            symbols="symbol s0 : int [2, 512]\n" if is_symbolic else "",
            input="f32[s0, 8]" if is_symbolic else "f32[8, 8]",
            body=body,
            layout=layout,
        )
    )


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("target", [*EMITTERS, "python kept", "cpp kept"])
@pytest.mark.parametrize("name", sorted(TOO_SMALL))
def test_an_output_buffer_that_does_not_fit_is_refused(name: str, target: str) -> None:
    emitter, _, is_kept = target.partition(" ")
    options = {"arena": "kept"} if is_kept else {}
    run = wir.compile(with_out(name), emitter, **options)
    x = torch.ones(8, 8)
    with pytest.raises(ResultLayoutError, match=r"different (size|rank):"):
        run(x)
    assert torch.equal(x, torch.ones(8, 8))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("target", ["python", "cpp", "fx"])
def test_what_lies_beside_an_output_buffer_is_never_written(target: str) -> None:
    """The memory of a result that the caller gave, of which the output buffer is a part."""
    body = "  %y = reinterpret %x : f32[2, 8] @cpu\n" + _Z + _MM.replace("%x, %x", "%z, %z")
    text = OUTS.format(symbols="", input="f32[8, 8]", body=body, layout="f32[2, 8]")
    x = torch.ones(8, 8)
    with pytest.raises(ResultLayoutError, match="different size:"):
        wir.compile(wir.parse(text), target)(x)
    assert torch.equal(x, torch.ones(8, 8))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_an_output_buffer_of_another_type_is_refused(emitter: str) -> None:
    body = "  %y = allocate : i32[8, 8] @cpu\n" + _Z + "  aten::neg.out(%x, out=out %y)"
    text = OUTS.format(symbols="", input="f32[8, 8]", body=body, layout="i32[8, 8]")
    run = wir.compile(wir.parse(text), emitter)
    with pytest.raises(RuntimeError, match="Found dtype Int but expected Float"):
        run(torch.ones(8, 8))


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_an_op_of_ones_own_that_resizes_its_output_is_refused(emitter: str) -> None:
    body = "  %y = allocate : f32[4, 8] @cpu\n" + _Z + "  untrue::twice(%x, out=out %y)"
    text = OUTS.format(symbols="", input="f32[8, 8]", body=body, layout="f32[4, 8]")
    with pytest.raises(ResultLayoutError, match=r"'untrue::twice' returned .* different size:"):
        wir.compile(wir.parse(text), emitter)(torch.ones(8, 8))


def test_output_buffers_that_fit_are_written_without_a_check() -> None:
    body = _S + "  %y = allocate : f32[s0, 8] @cpu\n" + _Z + "  aten::neg.out(%x, out=out %y)"
    symbols, layout = "symbol s0 : int [2, 512]\n", "f32[s0, 8]"
    program = wir.parse(OUTS.format(symbols=symbols, input=layout, body=body, layout=layout))
    assert run_passes(program, ["check-results"]) is program
    again = run_passes(with_out("too small"), ["check-results"])
    assert run_passes(again, ["check-results"]) is again
    planned = wir.plan_memory(again)
    assert run_passes(planned, ["check-results"]) is planned


def test_a_result_that_is_checked_is_not_written_to_a_plans_memory() -> None:
    schema, body, count, _ = UNTRUE["a sum"]
    text = PROGRAM.format(symbols="", input="f32[4, 4]", schema=schema, body=body, count=count)
    checked = run_passes(wir.parse(text), ["check-results"])
    planned = wir.plan_memory(checked, "pool", arena="kept")
    assert "aten::sum.IntList_out" not in str(planned)


# Numbers.

NUMBERS = """\
wir 2
program @untrue inference logical

symbol u0 : int [0, 4] unbacked
symbol u1 : int unbacked
symbol f0 : float unbacked
input %x : f32[4] @cpu

extern untrue::count(Tensor x) -> int
extern untrue::counts(Tensor x) -> int[]
extern untrue::ratio(Tensor x) -> float

  {line}
return u0
"""


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize(
    "line", ["u0 = untrue::count(%x) : symbol", "(u1, u0) = untrue::counts(%x) : (symbol, symbol)"]
)
@pytest.mark.parametrize("number", [3, 5, -1])
def test_a_number_outside_its_range_is_refused(line: str, emitter: str, number: int) -> None:
    run = wir.compile(wir.parse(NUMBERS.format(line=line)), emitter)
    x = torch.full((4,), float(number))
    if number == 3:
        assert run(x) == (3,)
        return
    with pytest.raises(SymbolError, match=f"0 <= u0 <= 4, but u0 is {number}"):
        run(x)


def test_a_number_that_the_program_checks_is_checked_once() -> None:
    line = "u0 = untrue::count(%x) : symbol\n  assert u0 >= 0\n  assert 4 >= u0"
    program = wir.parse(NUMBERS.format(line=line))
    assert run_passes(program, ["check-results"]) is program


def test_an_integer_is_no_name_for_a_float() -> None:
    program = wir.parse(NUMBERS.format(line="u0 = untrue::ratio(%x) : symbol"))
    with pytest.raises(wir.WrapperIRError, match="WIR1086"):
        wir.verify(program)


# Constants.

CONSTANT = wir.parse("""\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu
constant %c : f32[4] @cpu = buffer "c"

extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

  %a = aten::add.Tensor(%x, %c) : f32[4] @cpu
return %a
""")

VALUES: dict[str, torch.Tensor] = {
    "device": torch.ones(4, device="meta"),
    "dtype": torch.ones(4, dtype=torch.int64),
    "size": torch.ones(1),
    "rank": torch.ones(400, 400),
    "stride": torch.ones(8)[::2],
    "storage layout": torch.ones(4).to_sparse(),
}


def run(program: wir.Program, target: str) -> Any:
    if target == "interpreter":
        return wir.interpret(program, torch.ones(4))
    return wir.compile(program, target)(torch.ones(4))


@pytest.mark.parametrize("target", [*EMITTERS, "interpreter"])
@pytest.mark.parametrize("difference", sorted(VALUES))
def test_a_constant_unlike_its_layout_is_refused(difference: str, target: str) -> None:
    program = CONSTANT.replace(data={"c": VALUES[difference]})
    with pytest.raises(InputLayoutError, match=f"'c' has the wrong {difference}"):
        run(program, target)


# Kernels.

KERNEL = """\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu

kernel @plus(x: in f32, out: out f32, n: {declared}) cpp
  | extern "C" void kernel(const float* x, float* out, {taken} n) {{
  |   for (int i = 0; i < 4; ++i) out[i] = x[i] + n;
  | }}
  |

  %a = allocate : f32[4] @cpu
  call @plus(%x, out %a, {value})
return %a
"""


@pytest.mark.parametrize(
    ("declared", "taken", "value"),
    [
        ("i64", "const long&", "3"),
        ("f64", "const double&", "3.5"),
        ("f64", "float", "3.5"),
        ("i32", "long", "3"),
    ],
)
def test_cpp_refuses_a_kernel_that_takes_a_number_in_another_way(
    declared: str, taken: str, value: str
) -> None:
    program = wir.parse(KERNEL.format(declared=declared, taken=taken, value=value))
    with pytest.raises(CompileError, match="'plus' takes other parameters than the program"):
        wir.compile(program, "cpp")


@pytest.mark.parametrize(("declared", "taken"), [("i64", "const long"), ("i64", "int")])
def test_cpp_takes_numbers_by_value(declared: str, taken: str) -> None:
    program = wir.parse(KERNEL.format(declared=declared, taken=taken, value="3"))
    (result,) = wir.compile(program, "cpp")(torch.ones(4))
    assert torch.equal(result, torch.full((4,), 4.0))
