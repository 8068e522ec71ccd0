"""Programs with handwritten kernels, and programs of graphs whose ops get generated kernels."""

import dataclasses
import threading

import pyopencl as cl
import pytest
import torch

import wrapper_ir as wir
from wrapper_ir import devices
from wrapper_ir.frontends.inductor import install
from wrapper_ir.lines import AllocateFromPool, ExternKernel, KernelCall
from wrapper_ir.runtime import CppKernels

SHIFT = """
kernel void shift(global const float *x, global float *y, long n, float by)
{
    long i = get_global_id(0);
    if (i < n)
        y[i] = x[i] * SCALE + by;
}
"""


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_a_program_by_hand(emitter):
    b = wir.Builder("by_hand", device="opencl:0")
    n = b.symbol("n", min=1)
    x = b.input("x", "f32", (n,))
    shift = b.device_kernel(
        "shift",
        SHIFT,
        language="OpenCL C",
        reads=[("x", "f32")],
        writes=[("y", "f32")],
        scalars=["n", ("by", "f32")],
        entry="shift",
        group=(8,),
        options={"SCALE": 4},
    )
    y = b.allocate("f32", (n,))
    b.call(shift, x, y, n, 0.5, grid=((n + 7) // 8,))
    b.returns(y)
    program = b.build()
    assert wir.parse(str(program)) == program
    run = wir.compile(program, emitter)
    for size in (1, 8, 37):
        given = torch.randn(size)
        assert torch.equal(run(given.to("opencl"))[0].cpu(), given * 4 + 0.5)
    with pytest.raises((ValueError, RuntimeError), match="begins 4 bytes into its buffer"):
        run(torch.randn(9).to("opencl")[1:])


class Model(torch.nn.Module):
    """A model with broadcasting, views, numbers, reductions and an op that has no kernel."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8), requires_grad=False)

    def forward(self, x):
        y = torch.relu(x * self.weight + 1.5) - x / (x.abs() + 2)
        centred = (y - y.mean(-1, keepdim=True)).t() * 2
        return centred, y.sum(0) + y.amax(0), y.sum((0, 1)), torch.cumsum(centred.neg(), 0)


def lowered():
    """Return the model and its program with kernels."""
    model = Model()
    there = Model().to("opencl")
    there.load_state_dict(model.state_dict())
    batch = torch.export.Dim("batch", min=1, max=64)
    example = torch.randn(4, 8).to("opencl")
    exported = torch.export.export(there, (example,), dynamic_shapes=({0: batch},))
    return model, wir.lower(wir.from_fx(exported))


class Loops:
    """A runner of the same kernels on the CPU; apart from a few words their text is C++ as well."""

    def __init__(self, device):
        self.kernels = CppKernels(extra_flags=("-ffp-contract=off",))

    def add(self, name, params, code, *, entry, group=(), options=None):
        words = {"in f32": "const float*", "out f32": "float*", "i64": "int64_t", "f32": "float"}
        types = [words[param] for param in params]
        declared = ", ".join(f"{type_} p{n}" for n, type_ in enumerate(types))
        passed = ", ".join(f"p{n}" for n in range(len(types)))
        for word, plain in (("kernel", "static"), ("global ", ""), ("long", "int64_t")):
            code = code.replace(word, plain)
        text = f"""
#include <cmath>
#include <cstdint>
using namespace std;
static int64_t place;
static int64_t get_global_id(int) {{ return place; }}
{code}
extern "C" void kernel(int64_t count, {declared}) {{
    for (place = 0; place < count; ++place) {entry}({passed});
}}"""
        self.kernels.add(name, ("int64_t", *types), text)

    def load(self):
        return tuple(self._launch(kernel) for kernel in self.kernels.load())

    def _launch(self, kernel):
        return lambda grid, *args: kernel(grid[0], *args)


@pytest.fixture
def loops():
    language = devices.KernelLanguage("loops", has_grid=True, launcher=f"{__name__}:Loops")
    taught = dataclasses.replace(devices.CPU, languages=(devices.CPP, language))
    devices.register_device(taught, over=devices.CPU)
    yield
    devices.register_device(devices.CPU, over=taught)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("emitter", ["python", "cpp"])
@pytest.mark.parametrize("planner", ["reuse", "pool"])
def test_a_graph_gives_the_same_bits_as_its_kernels_on_the_cpu(planner, emitter):
    model, program = lowered()
    text = str(program).replace("@opencl:0", "@cpu").replace('"OpenCL C"', '"loops"')
    same = wir.parse(text).replace(data={"weight": model.weight.detach()})
    assert sum(isinstance(line, KernelCall) for line in program.body) == 15
    left = [line.op for line in program.body if isinstance(line, ExternKernel)]
    assert left == ["aten::t", "aten::cumsum"]
    program = wir.plan_memory(program, planner)
    if planner == "pool":
        assert any(isinstance(line, AllocateFromPool) for line in program.body)
    run, check = wir.compile(program, emitter), wir.compile(same)
    for size in (1, 37):
        x = torch.randn(size, 8)
        results = run(x.to("opencl"))
        assert {result.device.type for result in results} == {"opencl"}
        for result, expected, eager in zip(results, check(x), model(x), strict=True):
            assert torch.equal(result.cpu(), expected)
            assert result.stride() == expected.stride()
            torch.testing.assert_close(expected, eager)


@pytest.mark.parametrize("way", ["backend", "install", "capture"])
def test_what_inductor_schedules_gets_the_same_kernels(way):
    model, x = Model(), torch.randn(5, 8)
    there, given = Model().to("opencl"), x.to("opencl")
    there.load_state_dict(model.state_dict())
    torch._dynamo.reset()
    with wir.record() as programs:
        if way == "capture":
            programs.append(wir.capture(there, (given,)))
            results = wir.compile(programs[0])(given)
        elif way == "backend":
            results = torch.compile(there, backend="wrapper_ir")(given)
        else:
            with install():
                results = torch.compile(there)(given)
    # The kind has no kernels for Inductor, so the front end made library ops.
    calls = [
        sum(isinstance(line, KernelCall) for line in program.body)
        for program in (programs[0], wir.lower(programs[0]))
    ]
    assert calls == [0, 15]
    for result, expected in zip(results, model(x), strict=True):
        assert result.device.type == "opencl"
        torch.testing.assert_close(result.cpu(), expected)


def test_packages_run_beside_loaded_programs(tmp_path):
    _, program = lowered()
    packaged = wir.load_package(wir.export(program, tmp_path / "model.pt2"), num_runners=2)
    in_python, in_cpp = (wir.compile(program, emitter) for emitter in ("python", "cpp"))
    agreed = []

    def run(seed):
        x = torch.randn(5, 8, generator=torch.Generator().manual_seed(seed)).to("opencl")
        wanted = [result.cpu() for result in in_python(x)]
        for call in (packaged, in_cpp) * 5:  # one releases the GIL, the other does not
            found = [result.cpu() for result in call(x)]
            agreed.append(all(map(torch.equal, found, wanted)))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert agreed == [True] * 40


def test_a_kernel_that_does_not_compile_is_told_of_in_cpp():
    b = wir.Builder("wrong", device="opencl:0")
    x = b.input("x", "f32", (4,))
    reads, writes = [("x", "f32")], [("y", "f32")]
    text = "kernel void wrong(global float *x, global float *y) { no }"
    how = {"language": "OpenCL C", "entry": "wrong", "reads": reads, "writes": writes}
    y = b.allocate("f32", (4,))
    b.call(b.device_kernel("wrong", text, **how), x, y, grid=(4,))
    b.returns(y)
    with pytest.raises(cl.RuntimeError, match="undeclared identifier 'no'"):
        wir.compile(b.build(), "cpp")(torch.ones(4).to("opencl"))


def test_buffers_above_a_mebibyte_are_apart_in_cpp():
    b = wir.Builder("large", device="opencl:0")
    n = 3 << 20
    x, y = b.input("x", "f32", (n,)), b.input("y", "f32", (n,))
    text = "kernel void sum(global float *x, global float *y, global float *z) {"
    text += " long i = get_global_id(0); z[i] = x[i] - y[i]; }"
    reads, writes = [("x", "f32"), ("y", "f32")], [("z", "f32")]
    sum_ = b.device_kernel(
        "sum", text, language="OpenCL C", entry="sum", reads=reads, writes=writes
    )
    z = b.allocate("f32", (n,))
    b.call(sum_, x, y, z, grid=(n,))
    b.returns(z)
    given = torch.randn(n), torch.randn(n)
    there = [value.to("opencl") for value in given]
    run = wir.compile(wir.plan_memory(b.build()), "cpp")
    assert torch.equal(run(*there)[0].cpu(), given[0] - given[1])
