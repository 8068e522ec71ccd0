"""Views kept from call to call: whatever happens to a weight, the next call sees it."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import pytest
import torch
from torch import Tensor, nn

from wrapper_ir.runtime import KeptViews, MisalignedViewError, reinterpret_as
from wrapper_ir.runtime.views import _PATIENCE

TRANSPOSED = ((3, 4), (1, 3), 0)


def weight() -> nn.Parameter:
    return nn.Parameter(torch.randn(4, 3))


def is_transposed(view: Tensor, source: Tensor) -> bool:
    return view.data_ptr() == source.data_ptr() and torch.equal(view, source.detach().t())


def test_the_same_view_comes_back() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    (first,) = kept.of(w)
    (second,) = kept.of(w)
    assert first is second
    assert is_transposed(first, w)
    assert not first.requires_grad


def test_assigning_data_is_seen() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    (old,) = kept.of(w)
    w.data = torch.randn(4, 3)
    (new,) = kept.of(w)
    assert new is not old
    assert is_transposed(new, w)


def test_writing_in_place_is_seen() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    (view,) = kept.of(w)
    with torch.no_grad():
        w.fill_(3)
    assert (view == 3).all()


@pytest.mark.parametrize("assign", [False, True])
def test_loading_a_state_is_seen(assign: bool) -> None:
    model, kept = nn.Linear(3, 4), KeptViews(TRANSPOSED)
    kept.of(model.weight)
    model.load_state_dict(nn.Linear(3, 4).state_dict(), assign=assign)
    assert is_transposed(kept.of(model.weight)[0], model.weight)


def test_swapping_two_weights_is_seen() -> None:
    a, b, kept = weight(), weight(), KeptViews(TRANSPOSED, TRANSPOSED)
    kept.of(a, b)
    views = kept.of(b, a)
    assert is_transposed(views[0], b)
    assert is_transposed(views[1], a)


def test_one_source_may_have_several_views() -> None:
    w = weight()
    kept = KeptViews(TRANSPOSED, ((4,), (1,), 0), ((4,), (1,), 8))
    for _ in range(3):
        views = kept.of(w, w, w)
        assert is_transposed(views[0], w)
        assert torch.equal(views[1], w.detach().flatten()[:4])
        assert torch.equal(views[2], w.detach().flatten()[8:])


def test_offsets_count_from_the_source() -> None:
    w = torch.arange(24.0)[12:]
    (view,) = KeptViews(((2,), (2,), 3)).of(w)
    assert view.tolist() == [15.0, 17.0]


def test_nothing_is_kept_alive() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    kept.of(w)
    storage = weakref.ref(w.untyped_storage())
    view = weakref.ref(kept.of(w)[0])
    gc.disable()  # it must go by itself
    try:
        del w
        assert view() is None
        assert storage() is None
    finally:
        gc.enable()


def test_a_tensor_that_takes_the_place_of_a_dead_one_is_new() -> None:
    kept = KeptViews(TRANSPOSED)
    for _ in range(50):  # ids and addresses are used again at once
        w = weight()
        assert is_transposed(kept.of(w)[0], w)
        del w


def test_the_keeper_dies_with_its_module() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    kept.of(w)
    dead = weakref.ref(kept)
    gc.disable()
    try:
        del kept
        assert dead() is None
    finally:
        gc.enable()
    del w


def test_sources_that_move_are_not_kept_but_the_others_are() -> None:
    w, kept = torch.randn(4, 3), KeptViews(TRANSPOSED, ((2,), (1,), 1), TRANSPOSED)
    views = kept.of(w, torch.randn(4), w)
    for _ in range(_PATIENCE + 5):
        moving = torch.randn(4)
        views = kept.of(w, moving, w)
        assert is_transposed(views[0], w)
        assert torch.equal(views[1], moving[1:3])
        assert is_transposed(views[2], w)
    assert kept._kept.moving == (1,)
    steady = views[0]
    views = kept.of(w, torch.randn(4), w)
    assert views[0] is steady
    w = torch.randn(4, 3)
    assert is_transposed(kept.of(w, torch.randn(4), w)[0], w)


def test_all_sources_may_move() -> None:
    kept = KeptViews(TRANSPOSED, TRANSPOSED)
    for _ in range(_PATIENCE + 5):
        a, b = torch.randn(4, 3), torch.randn(4, 3)
        views = kept.of(a, b)
        assert is_transposed(views[0], a)
        assert is_transposed(views[1], b)


def test_memory_that_went_to_another_weight_is_seen() -> None:
    """FSDP2 frees what a weight was gathered into, where the next one may be gathered."""
    first, kept = weight(), KeptViews(TRANSPOSED)
    (view,) = kept.of(first)
    storage, size = first.untyped_storage(), 48
    there = (ctypes.c_char * size).from_address(first.data_ptr())
    second = nn.Parameter(torch.frombuffer(there, dtype=torch.float32).view(4, 3))
    storage.resize_(0)
    assert kept.of(second)[0].data_ptr() == second.data_ptr()
    storage.resize_(2 * size)  # which puts it elsewhere
    first.data.fill_(1)  # what lies there may be NaN, which equals nothing
    assert view.data_ptr() == first.data_ptr() != second.data_ptr()
    assert is_transposed(kept.of(first)[0], first)
    assert kept.of(second)[0].data_ptr() == second.data_ptr()


def test_parameters_that_take_turns_move() -> None:
    kept, weights = KeptViews(TRANSPOSED), [weight() for _ in range(3)]
    for n in range(3 * _PATIENCE):
        source = weights[n % 3]
        assert is_transposed(kept.of(source)[0], source)
    assert kept._kept.moving == (0,)


def test_replaced_parameters_do_not_count_as_moving() -> None:
    kept = KeptViews(TRANSPOSED)
    for _ in range(_PATIENCE + 5):
        w = weight()
        kept.of(w)
    assert kept._kept.moving == ()
    assert kept.of(w)[0] is kept.of(w)[0]


def test_views_made_in_inference_mode_are_of_use_outside() -> None:
    w, kept = weight(), KeptViews(TRANSPOSED)
    with torch.inference_mode():
        (view,) = kept.of(w)
    assert not view.is_inference()


def test_empty_sources() -> None:
    kept = KeptViews(((0, 2), (2, 1), 0))
    for _ in range(3):
        assert kept.of(torch.empty(2, 0))[0].shape == (0, 2)


def test_threads() -> None:
    weights = [weight() for _ in range(3)]
    kept = KeptViews(TRANSPOSED, TRANSPOSED)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for n in range(400):
            a, b = weights[(n + seed) % 3], torch.randn(4, 3)
            views = kept.of(a, b)
            if not (is_transposed(views[0], a) and is_transposed(views[1], b)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_reinterpret_as() -> None:
    source = torch.arange(8, dtype=torch.int32)[2:]
    view = reinterpret_as(source, torch.int16, (2, 2), (2, 1), 4)
    assert view.data_ptr() == source.data_ptr() + 4
    assert view.tolist() == [[3, 0], [4, 0]]
    wide = reinterpret_as(source, torch.int64, (1,), (1,), 8)
    assert wide.tolist() == [4 + (5 << 32)]
    with pytest.raises(MisalignedViewError, match="begins 12 bytes into its storage"):
        reinterpret_as(source, torch.int64, (1,), (1,), 4)
