"""What every test can rely on: caches of its own, and GPU tests only where there is a GPU."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import random
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

#: Where compiled code is kept. A run must never find what another run or the user's own programs
#: left there, or it would test yesterday's code; set the variable to keep a directory all the same.
_CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "WRAPPER_IR_CACHE_DIR")


def _use_own_caches() -> None:
    """Point the caches into a directory that goes when the run ends.

    At import, not in a fixture: Inductor decides for good when a test module first imports it.
    """
    missing = [name for name in _CACHE_VARIABLES if name not in os.environ]
    if missing:
        root = tempfile.mkdtemp(prefix="wrapper_ir-tests-")
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        for name in missing:
            os.environ[name] = os.path.join(root, name.lower())


_use_own_caches()

# Whether the compiler knows this processor's vector instructions: Inductor finds that out by trial
# in every process. Our toolchain relies on it in any case, and a test compares what the two choose.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# Tests of C++ are to run C++, from the first call on; those of what runs meanwhile ask for it.
os.environ.setdefault("WRAPPER_IR_BUILD", "wait")

# What a test compiles does what its graph says, or the test fails.
os.environ.setdefault("WRAPPER_IR_VALIDATE", "error")

#: A verdict must depend on the code alone. So examples follow from each test's source, and neither
#: a slow machine nor an unlucky draw of a wide strategy counts as a failure.
_UNHURRIED = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.large_base_example,
    ],
)
settings.register_profile("ci", _UNHURRIED)
#: New examples each time (``--hypothesis-profile=explore``, with ``--hypothesis-seed`` to repeat
#: them): for whoever works on what a property is about.
settings.register_profile("explore", _UNHURRIED, derandomize=False, max_examples=200)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def corpus_kernels() -> None:
    """The kernels of the corpus are compiled, all at once: that takes the time of two."""
    import wrapper_ir as wir
    from tests.emitters.fx import support
    from wrapper_ir.emitters.fx import declare_kernels, kernels

    sets = [declare_kernels(wir.prepare(support.program(name), "fx")) for name in support.NAMES]
    kernels.build(list(dict.fromkeys(name for each in sets for name in each.names)))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, which has what all tests share, without its files being copied.

    That is the module that C++ is called through, above all, whose compilation takes half a minute.
    """
    from wrapper_ir.aot.load import make_module

    make_module()
    shared, own = os.environ["WRAPPER_IR_CACHE_DIR"], tmp_path / "ours"
    skipped = shutil.ignore_patterns("tmp", "lock", "unfinished*")
    shutil.copytree(shared, own, copy_function=os.link, ignore=skipped)
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(own))
    return own


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have each test draw the same numbers, whichever tests its process ran before."""
    _spare_the_collector(item)
    list(_noted_settings())
    _spare_dynamo_its_clock()
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(0)


def _spare_the_collector(item: pytest.Item) -> None:
    """Pass over what was there before the first test of a file, in each collection from now on.

    Torch alone is a million objects, and what a test leaves in caches of Dynamo and Inductor is
    looked at by every later one that collects.
    """
    if _files[-1:] != [item.path]:
        _files[:] = [item.path]
        gc.collect()
        gc.freeze()


#: The file of the last test.
_files: list[Path] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Fail a test that leaves the compilers' settings changed: others would compile other code.

    Libraries change some for good, such as torchao, for what it quantises.
    """
    yield
    for config, (digest, values) in _noted_settings():
        if config.get_hash() == digest:
            continue
        found = config.get_config_copy()
        left = {name: found[name] for name, value in values.items() if found[name] != value}
        for name in left:
            setattr(config, name, values[name])
        pytest.fail(f"the test leaves settings of {config.__name__}: {left}", pytrace=False)


def _noted_settings() -> Iterator[tuple[Any, tuple[bytes, dict[str, Any]]]]:
    """Yield modules of settings that are imported, with what they were when first seen."""
    for name in ("torch._inductor.config", "torch._dynamo.config", "torch._functorch.config"):
        config: Any = sys.modules.get(name)
        if config is not None:
            if name not in _settings:
                _settings[name] = config.get_hash(), config.get_config_copy()
            yield config, _settings[name]


#: Settings when they were first seen, by their module, and their hash, which is cheap to ask for.
_settings: dict[str, tuple[bytes, dict[str, Any]]] = {}


def _spare_torch_its_trace() -> None:
    """Keep pytest, which adds its handlers to loggers that do not propagate, off that of traces.

    Where somebody listens, torch writes down each graph several times as it compiles.
    """
    trace = logging.getLogger("torch.__trace")

    def add(handler: logging.Handler) -> None:
        if not type(handler).__module__.startswith("_pytest."):
            logging.Logger.addHandler(trace, handler)

    trace.addHandler = add


_spare_torch_its_trace()


def _spare_dynamo_its_clock() -> None:
    """Have Dynamo not time its guards after each compilation, with a cache that it flushes first.

    That takes 30 ms, for a line at the level of debugging.
    """
    guards: Any = sys.modules.get("torch._dynamo.guards")
    if guards is not None and hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0


def pytest_unconfigure() -> None:
    """Let Triton's bindings go at the end: they report what is not collected as leaks."""
    if "triton._C.libtriton" in sys.modules:
        gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``gpu`` where there is none; torch is imported only to answer that."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_items:
        return
    import torch

    if not torch.cuda.is_available():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
