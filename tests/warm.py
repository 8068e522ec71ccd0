"""Python programs that find torch imported already, which takes seconds of each process's time.

One process imports torch and what most programs take of this library, without running any of it,
and forks for every program that a test wants to have run in a process of its own. What depends on
how an interpreter starts, or on what is read when modules are imported, wants a real new process:
hash seeds, import costs, most of the environment.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What ``python -m pytest`` does.
PYTEST = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"

#: What torch is imported in, whatever the first test to come here has changed. Python's handler of
#: faults is off, since it would write after the last line before a crash. Whether there are GPUs,
#: which torch's modules ask when they are imported, is asked of the driver's management library:
#: no fork could use a GPU that its parent has counted through CUDA.
_ENVIRONMENT = {**os.environ, "PYTHONFAULTHANDLER": "", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

#: What a first compilation imports, a second of each program's time.
_TORCHS = (
    "torch.export",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.freezing_patterns",
)
_OURS = (
    "wrapper_ir.aot.load",
    "wrapper_ir.debugging.validation",
    "wrapper_ir.emitters.python.module",
    "wrapper_ir.frontends.inductor.convert.graph",
    "wrapper_ir.runtime.kernels",
)

#: What Triton's bindings report at the end of a process that was forked: what the collector was
#: told to pass over never goes. Programs that start by themselves end without it.
_LEAKS = re.compile(r"^nanobind: leaked .*?^See https://nanobind\S*\n?", re.MULTILINE | re.DOTALL)

#: Seconds after which a program is stopped, by a signal that its threads cannot hold up.
_LIMIT = 600


def run(
    program: str | Path,
    *args: str | Path,
    cwd: Path | None = None,
    ours: bool | None = None,
    taken_down: bool = False,
    **changes: str,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``python -c`` and ``python FILE`` do.

    At the end threads are waited for and exit handlers run, but modules are not taken down unless
    a test asks for it: that copies all memory that the processes share, half a second each time.

    Args:
        program: Its text, or its file.
        *args: What it finds in ``sys.argv``.
        cwd: The directory that it runs in.
        ours: Whether it finds modules of this library imported, too; by default unless it is
            pytest, which wants to import our plugin itself.
        taken_down: Whether the interpreter is, too: for programs at whose ends something is alive.
        **changes: Of the environment.

    Returns:
        What it wrote, and how it ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = program if isinstance(program, Path) else Path(folder) / "program.py"
        if isinstance(program, str):
            file.write_text(program, encoding="utf-8")
        request = {
            "file": str(file),
            "args": [str(program) if isinstance(program, Path) else "-c", *map(str, args)],
            "path": str(file.parent.resolve()) if isinstance(program, Path) else "",
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, **changes},
            "output": folder,
            "ours": program != PYTEST if ours is None else ours,
            "taken_down": taken_down,
        }
        status = _ask(request)
        out, err = (Path(folder, name).read_text(encoding="utf-8") for name in ("out", "err"))
        err = _LEAKS.sub("", err)
    return subprocess.CompletedProcess(request["args"], status, out, err)


def _ask(request: dict[str, Any]) -> int:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@cache
def _server() -> subprocess.Popen[str]:
    """The process that forks; it ends when its input does."""
    file = Path(__file__).resolve()
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=file.parent,
        env=_ENVIRONMENT,
    )
    atexit.register(server.__exit__, None, None, None)  # closes the pipes, and waits
    return server


def _serve() -> dict[str, Any] | None:
    """Fork for each request; return it in the child, and None when there are no more.

    A second process, which has our modules, does so for programs that may find them.
    """
    _import(_TORCHS)
    _find_out_once()
    (theirs, to_them), (answers, to_us) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(to_them)
        os.close(answers)
        _import(_OURS)
        return _forked(os.fdopen(theirs), os.fdopen(to_us, "w"), None)
    os.close(theirs)
    os.close(to_us)
    return _forked(sys.stdin, sys.stdout, (os.fdopen(to_them, "w"), os.fdopen(answers)))


def _forked(
    requests: TextIO, answers: TextIO, second: tuple[TextIO, TextIO] | None
) -> dict[str, Any] | None:
    """Answer each request with the status of a fork; let the second process, if any, do its own."""
    gc.freeze()  # else each child would copy, when it ends, all that lies in memory by then
    for line in requests:
        request: dict[str, Any] = json.loads(line)
        if second and request["ours"]:
            print(line, end="", file=second[0], flush=True)
            print(second[1].readline(), end="", file=answers, flush=True)
            continue
        child = os.fork()
        if child == 0:
            return request
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
    return None


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _find_out_once() -> None:
    """Have Inductor find out what does not differ between processes, and each asks for.

    That is which vector instructions the compiler knows, by trial, and the hashes of the sources of
    torch and of Triton, which are part of keys.
    """
    from torch._inductor.codecache import torch_key
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list
    from torch._inductor.runtime.triton_compat import HAS_TRITON, triton_key

    valid_vec_isa_list()
    torch_key()
    if HAS_TRITON:
        triton_key()


def _become(request: dict[str, Any]) -> None:
    """Be the process that is asked for."""
    folder = Path(request["output"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.alarm(_LIMIT)
    sys.argv[:] = request["args"]
    sys.path[0] = request["path"]
    runpy.run_path(request["file"], run_name="__main__")


def _status_of(request: dict[str, Any]) -> int:
    """Be the process that is asked for, up to its exit handlers; return its status."""
    status = 0
    try:
        _become(request)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # has no types
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status & 0xFF


if __name__ == "__main__":
    _REQUEST = _serve()
    if _REQUEST is None:
        os._exit(0)  # there is nothing to clean up, and Triton would report leaks
    if _REQUEST["taken_down"]:
        _become(_REQUEST)
    else:
        os._exit(_status_of(_REQUEST))
