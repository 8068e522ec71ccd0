from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from wrapper_ir.errors import OptionValueError
from wrapper_ir.toolchain import cache as cache_module
from wrapper_ir.toolchain import locks
from wrapper_ir.toolchain.cache import DiskCache, default_cache, default_dir
from wrapper_ir.toolchain.errors import CacheDirError

KEY = "ab" * 32
OTHER = "cd" * 32


def test_an_entry_comes_back(cache: DiskCache) -> None:
    assert cache.get_bytes(KEY, "json") is None
    cache.put(KEY, "json", b"payload")
    assert cache.get_bytes(KEY, "json") == b"payload"
    assert cache.get_bytes(KEY, "so") is None
    cache.remove(KEY, "json")
    assert cache.get(KEY, "json") is None


def test_an_empty_entry_comes_back(cache: DiskCache) -> None:
    cache.put(KEY, "txt", b"")
    assert cache.get_bytes(KEY, "txt") == b""


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "append"])
def test_a_damaged_entry_is_removed_and_absent(cache: DiskCache, damage: str) -> None:
    file = cache.put(KEY, "so", b"payload" * 100)
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[10] ^= 1
    file.write_bytes(
        {"flip": bytes(content), "truncate": content[:50], "empty": b"", "append": content + b"x"}[
            damage
        ]
    )
    assert cache.get(KEY, "so") is None
    assert not file.exists()


def test_nothing_unfinished_is_left(cache: DiskCache) -> None:
    cache.put(KEY, "so", b"x")
    assert not list((cache.directory / "tmp").iterdir())


def fill(cache: DiskCache, count: int, size: int) -> list[str]:
    keys = [f"{index:064x}" for index in range(count)]
    for index, key in enumerate(keys):
        file = cache.put(key, "so", b"x" * size)
        used = time.time() - 1000 + index
        os.utime(file, (used, used))
    return keys


def test_the_longest_unused_goes_first(cache: DiskCache) -> None:
    keys = fill(cache, 5, 1000)
    assert cache.get(keys[0], "so") is not None  # used now
    removed = cache.trim(max_bytes=3 * 1100)
    assert removed > 2000
    assert [cache.get(key, "so") is not None for key in keys] == [True, False, False, True, True]


def test_the_bound_is_kept_while_storing(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=100_000)
    fill(cache, 10, 30_000)
    assert cache.stats().total_bytes <= 100_000
    assert cache.stats().entries == 3


def test_a_new_entry_survives_a_bound_that_is_too_small(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=10)
    cache.put(KEY, "so", b"x" * 50_000)
    assert cache.get(KEY, "so") is not None


def test_stats_and_clear(cache: DiskCache) -> None:
    fill(cache, 3, 100)
    cache.put(OTHER, "json", b"{}")
    stats = cache.stats()
    assert (stats.entries, stats.libraries, stats.directory) == (4, 3, cache.directory)
    assert cache.clear() == stats.total_bytes
    assert cache.stats().entries == 0


def test_the_module_functions_work_on_the_default_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "12345")
    default_cache().put(KEY, "so", b"x" * 100)
    assert cache_module.stats().max_bytes == 12345
    assert cache_module.stats().libraries == 1
    assert cache_module.trim() == 0
    assert cache_module.clear() > 100


def test_where_the_default_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WRAPPER_IR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_dir() == Path("/xdg/wrapper_ir")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_dir() == Path.home() / ".cache" / "wrapper_ir"


def test_a_bound_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "2G")
    with pytest.raises(OptionValueError, match="a number of bytes"):
        default_cache()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheDirError) as caught:
        DiskCache(tmp_path / "file" / "cache")
    assert "WRAPPER_IR_CACHE_DIR" in str(caught.value.hint)


def test_the_directory_is_private(cache: DiskCache) -> None:
    assert cache.directory.stat().st_mode & 0o077 == 0


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, 12345, -1) if os.getuid() == 0 else pytest.skip("needs root")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(CacheDirError, match="another user"):
        DiskCache(tmp_path)


def test_a_cache_that_was_deleted_meanwhile_starts_anew(cache: DiskCache) -> None:
    import shutil

    shutil.rmtree(cache.directory)
    with cache.locked([KEY]):
        cache.put(KEY, "so", b"x")
    assert cache.get(KEY, "so") is not None


def test_locks_exclude_threads_on_the_same_key_only(cache: DiskCache) -> None:
    with cache.locked([KEY]):
        with cache.locked([OTHER], wait=False) as other:
            assert other
        with cache.locked([OTHER, KEY], wait=False) as same:
            assert not same
    with cache.locked([KEY], wait=False) as free:
        assert free


def test_a_lock_is_waited_for(cache: DiskCache) -> None:
    order: list[str] = []

    def second() -> None:
        with cache.locked([OTHER, KEY]):
            order.append("second")

    with cache.locked([KEY]):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_without_byte_locks_the_whole_file_is_locked(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_SET", None)
    monkeypatch.setattr(locks, "_SET_AND_WAIT", None)
    with cache.locked([KEY]), cache.locked([OTHER], wait=False) as other:
        assert not other
    with cache.locked([OTHER], wait=False) as free:
        assert free
