"""What keeps memory between calls, by itself: sizes, views, huge pages, who is asked to release."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from pathlib import Path

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.runtime import KeptArena, PeerMemory, Scratch
from wrapper_ir.runtime.kept import advise_huge_pages

MIB = 1024 * 1024


def test_views_are_made_once_each_in_its_place() -> None:
    kept = KeptArena(128, (torch.float32, (4, 4), (4, 1), 0), (torch.int64, (2, 2), (1, 2), 64))
    arena = kept.take()
    assert [view.data_ptr() - arena.memory.data_ptr() for view in arena] == [0, 64]
    assert arena[1].stride() == (1, 2)
    assert arena.of(torch.float64) is arena.of(torch.float64)
    assert arena.of(torch.uint8) is arena.memory
    kept.give(arena)
    assert kept.take() is arena


def test_each_taker_has_its_own() -> None:
    kept = KeptArena(64)
    one, two = kept.take(), kept.take()
    assert one.memory.data_ptr() != two.memory.data_ptr()
    kept.give(one)
    kept.give(two)
    assert kept.release() == 128
    assert kept.release() == 0


def test_what_was_taken_before_a_release_is_not_kept() -> None:
    for kept in (KeptArena(64, (torch.uint8, (8,), (1,), 0)), Scratch(((8,), (1,), torch.uint8))):
        held = kept.take()
        gone = weakref.ref(held[0].untyped_storage())
        assert kept.release() == 0
        kept.give(held)
        del held
        assert gone() is None
        assert kept.release() == 0


def test_what_varies_grows_and_lets_go_of_the_smaller_one_first() -> None:
    kept = KeptArena()
    kept.give(kept.take(64))
    arena = kept.take(32)
    assert arena.memory.numel() == 64
    kept.give(arena)
    gone = weakref.ref(arena.memory.untyped_storage())
    del arena
    arena = kept.take(96)
    assert arena.memory.numel() == 96
    assert gone() is None


def test_nothing_is_kept_for_an_owner_that_is_gone() -> None:
    kept = KeptArena(64)
    arena = kept.take()
    gone = weakref.ref(arena.memory.untyped_storage())
    kept.give(arena)
    del arena
    wir.release_kept_memory()
    kept.give(kept.take())
    gc.disable()
    try:
        del kept
        assert gone() is None
    finally:
        gc.enable()


def test_arenas_are_no_inference_tensors() -> None:
    kept = KeptArena(64, (torch.float32, (4,), (1,), 0))
    with torch.inference_mode():
        arena = kept.take()
        tensors = [arena.memory, *arena, arena.of(torch.float64)]
    assert not any(tensor.is_inference() for tensor in tensors)
    assert arena.of(torch.float64).dtype is torch.float64


def advised(address: int) -> bool:
    """Whether the mapping that holds an address is advised for huge pages."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "VmFlags:":
            return "hg" in line.split()
    return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="madvise is Linux's")
def test_large_arenas_are_advised_for_huge_pages() -> None:
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this system has no huge pages")
    large = KeptArena(8 * MIB).take()
    assert advised(large.memory.data_ptr() + 4 * MIB)


def test_advice_is_for_whole_huge_pages_and_never_fails() -> None:
    for nbytes in (0, 1, 3 * MIB, 5 * MIB):
        advise_huge_pages(torch.empty(nbytes, dtype=torch.uint8))


def test_a_copy_of_memory_for_peers_is_on_the_current_device() -> None:
    """A program that names no number is loaded by other ranks as well."""
    memory = PeerMemory("cuda")
    assert memory.__reduce__() == (PeerMemory, (torch.device("cuda"),))
    assert isinstance(pickle.loads(pickle.dumps(memory)), PeerMemory)
    assert isinstance(copy.deepcopy(memory), PeerMemory)
