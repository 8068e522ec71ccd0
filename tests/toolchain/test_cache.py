from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from wrapper_ir.errors import OptionValueError
from wrapper_ir.toolchain import processes
from wrapper_ir.toolchain.cache import DiskCache, default_cache, default_dir
from wrapper_ir.toolchain.errors import CacheDirError, CacheDirWarning

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


def test_the_bound_is_kept_whoever_fills_the_rest(tmp_path: Path) -> None:
    """A process looks again once it has filled a quarter of the room that it saw."""
    cache, others = DiskCache(tmp_path, max_bytes=1_000_000), DiskCache(tmp_path)
    cache.put(KEY, "o", b"x" * 100_000)
    fill(others, 15, 100_000)
    cache.put(OTHER, "o", b"x" * 100_000)
    assert cache.stats().total_bytes > 1_000_000
    for kind in ("a", "b"):
        cache.put(OTHER, kind, b"x" * 100_000)
    assert cache.stats().total_bytes <= 1_000_000
    assert cache.get(OTHER, "b") is not None


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


def test_the_default_cache_has_the_bound_that_the_environment_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "12345")
    default_cache().put(KEY, "so", b"x" * 100)
    assert default_cache().stats().max_bytes == 12345
    assert default_cache().stats().libraries == 1
    assert default_cache().trim() == 0
    assert default_cache().clear() > 100


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


@pytest.fixture(params=["bytes", "files"])
def locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of one file are locked, or files, as where a file system has no locks of bytes."""
    if request.param == "files":
        monkeypatch.setattr(processes, "_SET", -1)
        monkeypatch.setattr(processes, "_SET_AND_WAIT", -1)


@pytest.mark.usefixtures("locks")
def test_locks_exclude_threads_on_the_same_key_only(cache: DiskCache) -> None:
    with cache.locked([KEY]):
        with cache.locked([OTHER], wait=False) as other:
            assert other
        with cache.locked([OTHER, KEY], wait=False) as same:
            assert not same
    with cache.locked([KEY], wait=False) as free:
        assert free


@pytest.mark.usefixtures("locks")
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


@pytest.mark.usefixtures("locks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_that_was_forked_meanwhile_keeps_no_lock(cache: DiskCache) -> None:
    end, told = os.pipe()
    with cache.locked([KEY, OTHER]):
        child = os.fork()
        if not child:  # as a worker that loads data does, it stays
            os.close(told)
            os.read(end, 1)
            os._exit(0)
    with cache.locked([KEY, OTHER], wait=False) as free:
        assert free
    os.close(told)
    os.close(end)
    os.waitpid(child, 0)


def test_a_home_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WRAPPER_IR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/proc/nobody")  # nobody can make a directory there, nor can root
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(CacheDirWarning, match="/proc/nobody") as told:
        cache = default_cache()
    assert default_cache() is cache  # and nothing is said again
    assert len(told) == 1
    assert cache.directory.parent == tmp_path
    assert cache.directory.stat().st_mode & 0o077 == 0
    cache.directory.chmod(0o777)
    monkeypatch.setenv("WRAPPER_IR_CACHE_MAX_BYTES", "1000000")  # asks for another cache there
    with pytest.raises(CacheDirError, match="others may write"):
        default_cache()
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", "/proc/nobody/cache")
    with pytest.raises(CacheDirError, match="/proc/nobody/cache"):
        default_cache()


ON_A_FULL_DISK = """
import os, sys, warnings
from wrapper_ir.toolchain import cache, compiler
from wrapper_ir.toolchain.errors import DiskFullError

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    kept = cache.default_cache()
    file = kept.put("ab" * 32, "o", bytes(400_000))
    assert kept.get_bytes("ab" * 32, "o") == bytes(400_000)
    assert kept.get("ab" * 32, "o") == file
    with kept.scratch() as scratch:
        (scratch / "large").write_bytes(bytes(400_000))
    print(len(told), str(told[0].message).partition(":")[0])
    print(file.is_relative_to(os.environ["TMPDIR"]))
small = cache.DiskCache(cache.default_dir().parent / "small")
cache._ROOM = 0  # as if it had been empty when it was looked at
for act in (
    lambda: small.put("ab" * 32, "o", bytes(400_000)),
    lambda: compiler.run(["g++", "-c", os.environ["SOURCE"], "-o", str(small.directory / "o")]),
):
    try:
        act()
    except DiskFullError as error:
        print(len(str(error)) < 500, error.message.partition(":")[0])
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    full, spare, source = tmp_path / "full", tmp_path / "spare", tmp_path / "large.cpp"
    full.mkdir()
    spare.mkdir()
    source.write_text("extern char large[400000]; char large[400000] = {1};\n")
    environment = {
        **{key: os.environ[key] for key in os.environ if not key.startswith("WRAPPER_IR_CACHE")},
        "XDG_CACHE_HOME": str(full),
        "TMPDIR": str(spare),
        "SOURCE": str(source),
    }
    mount = f"mount -t tmpfs -o size=200k tmpfs '{full}' || exit 77"
    words = [sys.executable, "-c", ON_A_FULL_DISK]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{mount}; exec "$0" "$@"', *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("needs a file system of its own")
    where = f"the disk with {full}/small is full"
    assert done.stdout.splitlines() == [
        f"1 the cache directory {full}/wrapper_ir cannot be used",
        "True",
        f"True {where}",
        f"True {where}",
    ], done.stderr
