"""PyTorch's tools see in graphs of ours what they see in Inductor's, and whose a fault is."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch._functorch import config as functorch_config
from torch._inductor import config
from torch._logging._internal import log_registry
from torch.profiler import ProfilerActivity, profile

import wrapper_ir as wir
from tests import warm
from tests.frontends.test_entry_points import WAYS
from tests.pages import ROOT
from wrapper_ir.frontends.inductor import Settings, install

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    # PyTorch 2.11 says so of every profiler, the first time.
    pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning"),
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

#: What ``TORCH_LOGS`` can show of Inductor's work, in some release.
LOGS = (
    *("output_code", "kernel_code", "schedule", "perf_hints", "fusion", "loop_ordering"),
    *("pre_grad_graphs", "post_grad_graphs", "aot_graphs", "ir_pre_fusion", "ir_post_fusion"),
    *("compute_dependencies", "inductor_metrics", "benchmarking", "cudagraphs"),
)

WAYS_OF_OURS = ("backend", "install", "cpp")

HANDLE = re.compile(r"\[Provenance debug handles\] (\S+)")


def function(x: Tensor) -> Tensor:
    return torch.topk((x @ x.T).relu(), 2).values


X = torch.linspace(-1, 1, 32).reshape(4, 8)


@dataclass
class Seen:
    """All that tools see of one compilation and one call.

    Attributes:
        logs: Messages by the name that ``TORCH_LOGS`` has for their kind.
        traced: Payloads of a ``TORCH_TRACE`` by the names of artefacts and events.
        files: What ``TORCH_COMPILE_DEBUG=1`` leaves for the graph.
        ranges: Names of the profiler's events.
    """

    logs: dict[str, list[str]] = field(default_factory=dict)
    traced: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)

    @property
    def stacks(self) -> dict[str, list[str]]:
        """Where in the model each call comes from, by its handle."""
        found = json.loads(self.traced["inductor_provenance_tracking_kernel_stack_traces"])
        assert isinstance(found, dict)
        return found


class _Keeping(logging.Handler):
    def __init__(self, keep: Callable[[Any], None]) -> None:
        super().__init__()
        self._keep = keep

    def emit(self, record: logging.LogRecord) -> None:
        self._keep(record)


@contextmanager
def _logging(seen: Seen) -> Iterator[None]:
    logs: Any = torch._logging
    known = inspect.signature(logs.set_logs).parameters
    logs.set_logs(**{name: True for name in LOGS if name in known})

    def trace(record: Any) -> None:
        told = getattr(record, "metadata", {})
        for kind in told:
            name = told["artifact"]["name"] if kind == "artifact" else kind
            seen.traced[name] = getattr(record, "payload", None)

    handlers = [(logging.getLogger("torch.__trace"), _Keeping(trace))]
    registry: Any = log_registry
    for name in registry.get_artifact_log_qnames():
        messages = seen.logs.setdefault(name.rpartition(".__")[2], [])
        keep = _Keeping(lambda record, kept=messages: kept.append(record.getMessage()))
        handlers.append((logging.getLogger(name), keep))
    for logger, handler in handlers:
        logger.addHandler(handler)
    internal: Any = logs._internal
    try:
        # As if TORCH_TRACE named a folder.
        with patch.object(internal, "LOG_TRACE_HANDLER", SimpleNamespace(root_dir="traces")):
            yield
    finally:
        for logger, handler in handlers:
            logger.removeHandler(handler)
        logs.set_logs()


@cache
def seen(who: str) -> Seen:
    """Compile and call a function by stock Inductor or by us, with all tools on."""
    found = Seen()
    how: dict[str, Any] = {}
    if who in ("backend", "cpp"):
        emitter = "python" if who == "backend" else who
        how = {"backend": "wrapper_ir", "options": {"emitter": emitter, "profile": True}}
    torch._dynamo.reset()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        settings = {"provenance_tracking_level": 1, "enabled": True, "debug_dir": folder}
        changed = {f"trace.{name}": value for name, value in settings.items()}
        stack.enter_context(config.patch({**changed, "fx_graph_cache": False}))
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        stack.enter_context(install(profile=True) if who == "install" else nullcontext())
        with _logging(found):
            compiled = torch.compile(function, **how)
            compiled(X)
        with profile(activities=[ProfilerActivity.CPU]) as events:
            compiled(X)
        found.ranges += [event.name for event in events.events() or ()]
        for file in Path(folder).rglob("*.*"):
            if file.is_file():
                found.files[file.name] = file.read_text(encoding="utf-8")
    return found


@pytest.mark.parametrize("who", WAYS_OF_OURS)
def test_logs_have_as_much_as_stock_s(who: str) -> None:
    """As with Inductor's wrapper in C++, kernels in C++ stand in the output code alone."""
    stock, ours = ({k: len(v) for k, v in seen(w).logs.items() if v} for w in ("stock", who))
    assert stock["output_code"]
    kernels = stock.pop("kernel_code")
    assert kernels == 1
    assert ours == (stock if who == "cpp" else {**stock, "kernel_code": kernels})
    assert any("Written by wrapper_ir" in message for message in seen(who).logs["output_code"])
    assert all("cpp_fused_relu_0" in message for message in seen(who).logs["kernel_code"])


@pytest.mark.parametrize("who", WAYS_OF_OURS)
def test_traces_have_ours_beside_stock_s(who: str) -> None:
    stock, ours = set(seen("stock").traced), set(seen(who).traced)
    assert ours - stock == {
        f"wrapper_ir_{part}" for part in ("program", "plan", "diff", "explorer.html")
    }
    # Names of files and of stacks are traced once in a process, and metrics when they are due.
    assert stock - ours <= {"str", "stack", "compilation_metrics_runtime"}
    program, plan = (seen(who).traced[f"wrapper_ir_{part}"] for part in ("program", "plan"))
    assert program == str(wir.parse(seen(who).files["program.wir"]))
    assert wir.parse(plan) != wir.parse(program)
    assert "logical -> planned" in seen(who).traced["wrapper_ir_diff"]
    assert seen(who).traced["wrapper_ir_explorer.html"].startswith("<!doctype html>")


@pytest.mark.parametrize("who", WAYS_OF_OURS)
def test_debug_files_have_ours_beside_stock_s(who: str) -> None:
    stock, ours = seen("stock").files, seen(who).files
    assert ours.keys() - stock == {"program.wir", "plan.wir", "plan.diff", "explorer.html"}
    assert not stock.keys() - ours
    program, plan = wir.parse(ours["program.wir"]), wir.parse(ours["plan.wir"])
    assert wir.prepare(program, "cpp" if who == "cpp" else "python") == plan
    assert {origin.handle for origin in plan.origins} - {""} == set(seen(who).stacks)
    assert "logical -> planned" in ours["plan.diff"]
    assert "Written by wrapper_ir" in ours["output_code.py"]
    assert "install(emitter=" in ours["fx_graph_runnable.py"]
    assert "install(emitter=" not in stock["fx_graph_runnable.py"]


@pytest.mark.parametrize("who", WAYS_OF_OURS)
def test_provenance_leads_from_the_model_to_text_and_events(who: str) -> None:
    """The names of calls in Inductor's artefacts are in our text, and those of ranges."""
    stock, ours = seen("stock"), seen(who)
    stacks = ours.stacks
    assert len(stacks) == 3
    assert stacks == stock.stacks
    assert all("test_tools.py" in stack for found in stacks.values() for stack in found)
    mappings = "inductor_provenance_tracking_node_mappings"
    assert json.loads(ours.traced[mappings]) == json.loads(stock.traced[mappings])
    for each in (stock, ours):
        code = each.traced["inductor_output_code"]
        assert set(HANDLE.findall(code)) == set(stacks)
        # tlparse takes the next line with the name for the call, and so for what the handle is of.
        for handle, until in re.findall(r"handles\] (\S+)\n(.*?)(?=handles\]|\Z)", code, re.DOTALL):
            assert handle.partition(":")[0] in until
    assert Counter(name for name in ours.ranges if name in stacks) == Counter(stacks.keys())


def test_inductor_s_settings_of_provenance_are_ours() -> None:
    assert dict(Settings.from_options({}).emitter_options) == {}
    with config.patch("trace.provenance_tracking_level", 2):
        assert dict(Settings.from_options({}).emitter_options) == {"origins": True}
        assert dict(Settings.from_options({"emitter": "fx"}).emitter_options) == {}
    if hasattr(config.trace, "provenance_tracking_to_timeline"):  # since 2.14
        settings = Settings.from_options({"trace.provenance_tracking_to_timeline": True})
        assert dict(settings.emitter_options) == {"origins": True, "profile": True}


#: In a process of its own, which has an emitter with a fault in products of matrices: what
#: PyTorch's minifier and bisector say. Nothing else in the graphs wants a compiler.
_FAULTS = """
import contextlib, json, os, runpy, sys

import torch
from torch import _dynamo
from torch._inductor.compiler_bisector import CompilerBisector

sys.path.insert(0, sys.argv[1])
import wrapper_ir as wir
from tests.kit_mutants.machine import Mutant, register
from wrapper_ir.frontends.inductor import install, uninstall

os.chdir(sys.argv[2])
wrong = r"def \\1(*args, **kw):\\n    return torch.mm(*args, **kw).add_(1)\\n"
register(Mutant("adds_one", (), text=(r"^(aten_mm\\w*) = torch\\.mm$", wrong)))
register(Mutant("fails", (), text=(r"^aten_mm\\w* = torch\\.mm$", "raise OSError('planted')")))
x, told = torch.randn(4, 4), {}

def right(x):
    return torch.addmm(x, x, x)

def faulty(x):
    return torch.mm(torch.addmm(x, x, x), x)

def compile_(way, emitter, *functions):
    torch._dynamo.reset()
    how = {"backend": "wrapper_ir"} if way == "backend" else {}
    with wir.settings.patch(emitter=emitter), torch.no_grad():
        with install() if way == "install" else contextlib.nullcontext():
            return all(torch.allclose(torch.compile(f, **how)(x), f(x)) for f in functions)

for way in ("install", "backend"):
    found = CompilerBisector.do_bisect(lambda: compile_(way, "adds_one", right, faulty))
    told["bisected", way] = [found.backend, found.subsystem, found.bisect_number, found.debug_info]

def minified(way, after, level, emitter):
    folder = os.path.abspath(f"{way}-{after}-{level}")
    with _dynamo.config.patch(repro_after=after, repro_level=level, debug_dir_root=folder):
        try:
            compile_(way, emitter, faulty)
        except Exception as error:
            told["raised", way, after, level] = repr(error)
    (file,) = (f"{at}/{name}" for at, _, names in os.walk(folder) for name in names
               if name == "minifier_launcher.py")
    return file

def run(file, *args):
    torch._dynamo.reset()
    sys.argv = [file, *args]
    try:
        runpy.run_path(file, run_name="__main__")
    except Exception as error:
        return repr(error)
    finally:
        with contextlib.suppress(wir.WrapperIRError):
            uninstall()

def text(file):
    with open(file) as source:
        return source.read()

for way, level, emitter in (("backend", 2, "fails"), ("install", 4, "adds_one")):
    told["minified", way] = run(minified(way, "aot", level, emitter), "minify", "--no-isolate")
    told["script", way] = text("repro.py")
    told["again", way] = run("repro.py")
    with open("stock.py", "w") as file:
        lines = text("repro.py").splitlines()
        file.writelines(f"{line}\\n" for line in lines if "install(" not in line)
    told["stock", way] = run("stock.py")
for way in ("install", "backend"):
    told["dynamo", way] = text(minified(way, "dynamo", 2, "fails"))
print()
print(json.dumps({"-".join(map(str, k)): v for k, v in told.items()}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = warm.run(_FAULTS, str(ROOT), str(tmp_path_factory.mktemp("faults")))
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("way", "backend"), [("install", "inductor"), ("backend", "wrapper_ir")])
def test_the_bisector_blames_us_and_names_the_graph(
    way: str, backend: str, told: dict[str, Any]
) -> None:
    *found, graph = told[f"bisected-{way}"]
    assert found == [backend, "wrapper_ir", 1]
    assert graph == "a graph of aten.addmm.default, aten.mm.default"


@pytest.mark.parametrize("way", ["install", "backend"])
def test_the_minifier_keeps_what_we_do_wrong(way: str, told: dict[str, Any]) -> None:
    """Its script shows the fault of ours again; without the line about us it shows none."""
    assert told[f"minified-{way}"] is None
    assert "aten.mm.default" in told[f"script-{way}"]
    assert "aten.addmm" not in told[f"script-{way}"]
    assert "install(emitter=" in told[f"script-{way}"]
    assert ("planted" if way == "backend" else "Bad accuracy") in told[f"again-{way}"]
    assert told[f"stock-{way}"] is None


def test_the_minifier_after_dynamo_goes_on_with_us(told: dict[str, Any]) -> None:
    assert "install(emitter='fails'" in told["dynamo-install"]
    assert "backend='inductor'" in told["dynamo-install"]
    assert "backend='wrapper_ir'" in told["dynamo-backend"]


def test_the_table_in_the_documents_names_tests_that_exist() -> None:
    """Each row says what holds it; each entry point and each test of tools is in some row."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    table = page.partition("| entry point, mode or tool |")[2].partition("\n\n")[0]
    named = [re.findall(r"`(test_\w+)`", row.split("|")[-2]) for row in table.splitlines()[2:]]
    assert all(named)
    files = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    defined = set(re.findall(r"^def (test_\w+)\(", "\n".join(files), re.MULTILINE))
    assert {name for names in named for name in names} <= defined
    here = {name for name, value in globals().items() if name.startswith("test_") and value}
    here.remove(inspect.currentframe().f_code.co_name)
    assert here <= {name for names in named for name in names}
    assert {f"({way})" for way in WAYS} <= set(re.findall(r"\([\w ]+\)", table))
