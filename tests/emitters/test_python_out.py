"""Memory that callers give for results: what is written where, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.emitters.test_python_kept import DYNAMIC, STATIC, expected, made_input, same
from tests.models.memory import peak_bytes
from wrapper_ir.runtime import (
    NoOutError,
    OutCountError,
    OutLayoutError,
    OutOverlapError,
)


def memory_for(result: Any) -> Tensor | None:
    """Memory like a result's, filled with rubbish."""
    if not isinstance(result, Tensor):
        return None
    made = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)
    made.untyped_storage().copy_(
        torch.full((made.untyped_storage().nbytes(),), 0x55).byte().untyped_storage()
    )
    return made


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("arena", ["call", "kept"])
@pytest.mark.parametrize("name", CASES)
def test_the_corpus_writes_to_what_it_is_given(name: str, arena: str) -> None:
    made = program(name)
    data = {key: value.clone() for key, value in made.data.items()}
    torch.manual_seed(0)
    theirs = wir.compile(made)(*CASES[name].make())
    out = [memory_for(result) for result in theirs]
    if name in OVERLAPPING:
        out = [None for _ in theirs]
    for key, value in made.data.items():  # some programs change constants
        value.copy_(data[key])
    torch.manual_seed(0)
    ours = wir.compile(made, arena=arena, out=True)(*CASES[name].make(), out=out)
    assert isinstance(ours, tuple)
    for result, given, other in zip(ours, out, theirs, strict=True):
        assert given is None or result is given
        same(result, other)


OVERLAPPING = ("views",)
"""Programs with results whose elements share memory: nobody can give memory like that."""


@pytest.mark.parametrize("text", [STATIC, DYNAMIC])
def test_nothing_is_allocated_with_arenas_kept_and_memory_given(text: str) -> None:
    function: Any = wir.compile(wir.parse(text), arena="kept", out=True)
    out, x = torch.empty(16, 16), made_input()
    (result,) = function(x, out=[out])
    assert result is out
    assert torch.equal(out, expected(x))
    assert peak_bytes(lambda: function(x, out=[out])) == 0
    assert torch.equal(function(x)[0], out)


def test_given_none_is_fresh() -> None:
    function: Any = wir.compile(wir.parse(STATIC), out=True)
    x = made_input()
    first, second = function(x, out=[None])[0], function(x, out=None)[0]
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)


def test_boxed() -> None:
    boxed: Any = wir.emit(wir.parse(STATIC), out=True).load_boxed()
    out, x = torch.empty(16, 16), made_input()
    args = [x]
    (result,) = boxed(args, out=[out])
    assert args == []
    assert result is out
    assert torch.equal(boxed([x])[0], out)


def test_part_of_a_larger_tensor() -> None:
    function: Any = wir.compile(wir.parse(DYNAMIC), out=True)
    large, x = torch.full((3, 16, 16), 7.0), made_input()
    function(x, out=[large[1]])
    assert torch.equal(large[1], expected(x))
    assert (large[::2] == 7).all()


def test_results_that_share_memory_are_apart_where_memory_is_given() -> None:
    function: Any = wir.compile(program("results"), out=True)
    x = torch.randn(5, 4)
    plain = function(x)
    assert plain[0] is plain[1]
    assert plain[3] is x
    out = [memory_for(result) for result in plain]
    given = function(x, out=out)
    same(given, plain)
    assert len({t.data_ptr() for t in given if isinstance(t, Tensor)}) == 4
    # Only some: what is not given is as it is otherwise.
    out = [None, torch.empty(5, 4), *[None] * 8]
    mixed = function(x, out=out)
    same(mixed, plain)
    assert mixed[1] is out[1]
    assert mixed[3] is x


def wrong(*given: Any) -> Any:
    return wir.compile(wir.parse(STATIC), out=True)(made_input(), out=list(given))


def test_what_is_not_like_the_result_is_refused() -> None:
    with pytest.raises(OutCountError, match="each of the 1 results, not one of 2 entries"):
        wrong(None, None)
    with pytest.raises(OutCountError, match="not a value of type Tensor"):
        wir.compile(wir.parse(STATIC), out=True)(made_input(), out=made_input())
    with pytest.raises(OutLayoutError, match=r"out\[0\] has the wrong size"):
        wrong(torch.empty(16, 17))
    with pytest.raises(OutLayoutError, match="wrong dtype"):
        wrong(torch.empty(16, 16).double())
    with pytest.raises(OutLayoutError, match="wrong stride"):
        wrong(torch.empty(16, 16).t())
    with pytest.raises(OutLayoutError, match="wrong device"):
        wrong(torch.empty(16, 16, device="meta"))
    with pytest.raises(OutLayoutError, match="wrong type"):
        wrong(3)


def test_sizes_that_depend_on_symbols_are_compared_before_anything_is_done() -> None:
    function: Any = wir.compile(wir.parse(DYNAMIC), out=True)
    out = torch.full((16, 16), 7.0)
    with pytest.raises(OutLayoutError, match=r"out\[0\] has the wrong size.*\[8, 8\]"):
        function(made_input(8), out=[out])
    assert (out == 7).all()


def test_sizes_known_at_the_end_are_compared_there() -> None:
    function: Any = wir.compile(program("unbacked"), out=True)
    x = torch.tensor([1.0, 0.0, -2.0, 3.0])
    plain = function(x)
    out = [torch.empty(3, 1, dtype=torch.int64).t().contiguous().t(), torch.empty(2), None]
    out[0] = memory_for(plain[0])
    same(function(x, out=out), plain)
    with pytest.raises(OutLayoutError, match=r"out\[0\] has the wrong"):
        function(x, out=[torch.empty(4, 1, dtype=torch.int64), None, None])
    with pytest.raises(OutLayoutError, match=r"out\[1\] has the wrong size"):
        function(x, out=[None, torch.empty(3), None])
    with pytest.raises(OutLayoutError, match=r"out\[2\] has the wrong type.*no tensor"):
        function(x, out=[None, None, torch.empty(1)])


def test_shared_memory_is_refused() -> None:
    function: Any = wir.compile(wir.parse(DYNAMIC), out=True)
    large = torch.zeros(40, 16)
    with pytest.raises(OutOverlapError, match=r"out\[0\] shares memory with an input"):
        function(large[:16], out=[large[8:24]])
    function(large[:16], out=[large[16:32]])
    two: Any = wir.compile(program("results"), out=True)
    with pytest.raises(OutOverlapError, match=r"out\[1\] shares memory with out\[0\]"):
        two(torch.randn(5, 4), out=[large[:5, :4].contiguous().view(5, 4)] * 2 + [None] * 8)
    made = program("extern_out")
    weight_sized: Any = wir.compile(made, out=True)
    room = made.data["weight"].view(-1)[:12].view(4, 3)
    with pytest.raises(OutOverlapError, match="constant"):
        weight_sized(torch.randn(4, 8), out=[room])


def test_programs_not_made_for_it_say_so() -> None:
    function: Any = wir.compile(wir.parse(STATIC))
    with pytest.raises(NoOutError, match="was not made to take out=") as caught:
        function(made_input(), out=[None])
    assert "out=True" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert torch.equal(function(x := made_input(), out=None)[0], expected(x))


def test_autograd_learns_of_what_was_written() -> None:
    function: Any = wir.compile(program("relu_twice"), out=True)
    out = torch.ones(4, 64)
    weight = nn.Parameter(torch.ones(4, 64))
    loss = (weight * out).sum()
    function(torch.randn(4, 64), out=[out])  # written by a kernel, which tells nobody
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_threads() -> None:
    function: Any = wir.compile(wir.parse(DYNAMIC), arena="kept", out=True)
    bad: list[int] = []

    def work(seed: int) -> None:
        out = torch.empty(16, 16)
        for _ in range(60):
            x = made_input()
            function(x, out=[out])
            if not torch.equal(out, expected(x)):
                bad.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad
