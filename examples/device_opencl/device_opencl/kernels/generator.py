"""Kernels in OpenCL C for library ops: element-wise ops with broadcasting, and reductions.

A kernel takes sizes and strides as arguments, so one kernel serves all shapes of a rank and dynamic
sizes. It computes one element of the result per work item, in an order that depends only on the
shape. Ops without a kernel here stay library ops.
"""

from wrapper_ir import lines

_EXACT = "#pragma OPENCL FP_CONTRACT OFF\n"

# Expressions over the operands a and b.
_POINTWISE = {
    "aten::abs": "fabs(a)",
    "aten::add.Scalar": "a + b",
    "aten::add.Tensor": "a + b",
    "aten::div.Tensor": "a / b",
    "aten::exp": "exp(a)",
    "aten::mul.Scalar": "a * b",
    "aten::mul.Tensor": "a * b",
    "aten::neg": "-a",
    "aten::reciprocal": "1 / a",
    "aten::relu": "a < 0 ? 0 : a",
    "aten::sigmoid": "1 / (1 + exp(-a))",
    "aten::sqrt": "sqrt(a)",
    "aten::sub.Tensor": "a - b",
    "aten::tanh": "tanh(a)",
}

# Initial value, step for an element a, and final expression of each reduction.
_REDUCTIONS = {
    "aten::amax": ("-INFINITY", "a > r || isnan(a) ? a : r", "r"),
    "aten::amin": ("INFINITY", "a < r || isnan(a) ? a : r", "r"),
    "aten::mean.dim": ("0", "r + a", "r / count"),
    "aten::sum.dim_IntList": ("0", "r + a", "r"),
}


def lower(program):
    """Return a program with kernels in place of the library ops that have one.

    It is a pass: the device's kind names it, so every program with buffers there goes through it.

    Args:
        program: A logical program.
    """
    kernels = {each.source: each for each in program.kernels.values()}
    known = len(kernels)

    def rewrite(line):
        made = _lowered(line, program) if isinstance(line, lines.ExternKernel) else None
        if made is None:
            return [line]
        kernel, args, grid = made
        kernel = kernels.setdefault(kernel.source, kernel)
        where = {"stream": line.stream, "origin": line.origin}
        result = lines.Allocate(line.results[0].out, mempool=line.mempool, **where)
        call = lines.KernelCall(kernel.name, args, device=line.device, grid=grid, **where)
        return [result, call]

    body = lines.rewrite_lines(program.body, rewrite)
    if body == program.body:
        return program
    return program.replace(body=(*list(kernels.values())[known:], *body))


def _lowered(line, program):
    """Return kernel, arguments and grid that replace a call, or None if it has no kernel."""
    fresh = [each for each in line.results if isinstance(each, lines.ResultBuffer) and not each.of]
    if line.device.type != "opencl" or len(line.results) != 1 or not fresh:
        return None
    out = program.layout(line.results[0].out)
    operands = [arg for arg in line.args if isinstance(arg, lines.BufferArg)]
    layouts = [out, *(program.layout(arg.buffer) for arg in operands)]
    plain = all(each.dtype is lines.DType.FLOAT32 and each.offset == 0 for each in layouts)
    if not plain or len({each.device for each in layouts}) > 1:
        return None
    if line.op in _POINTWISE and not line.kwargs:
        return _pointwise(line, out, operands, program)
    if line.op in _REDUCTIONS and not line.kwargs and len(line.args) in (2, 3):
        return _reduction(line, out, layouts[1])
    return None


def _pointwise(line, out, operands, program):
    if not all(isinstance(arg, (lines.BufferArg, lines.ScalarArg)) for arg in line.args):
        return None
    rank, names = len(out.size), "ab"[: len(line.args)]
    sizes = [(f"n{d}", out.size[d]) for d in range(rank)]
    numbers = [*sizes, *((f"out_{d}", out.stride[d]) for d in range(rank))]
    reads, scalars, values = [], [], []
    for name, arg in zip(names, line.args, strict=True):
        if isinstance(arg, lines.ScalarArg):
            scalars.append((name, arg.value))
            continue
        reads.append((name, arg.buffer))
        steps = _broadcast(program.layout(arg.buffer), out)
        numbers += [(f"{name}_{d}", steps[d]) for d in range(rank)]
        values.append(f"    const float {name} = p_{name}[{_at(name, range(rank))}];")
    if any(isinstance(value, bool) for _, value in scalars):
        return None
    name = f"{_plain(line.op)}_{rank}d" + "".join(f"_{n}" for n, _ in scalars)
    text = [*_places(range(rank)), *values]
    text.append(f"    out[{_at('out', range(rank))}] = {_POINTWISE[line.op]};")
    return _kernel(name, text, reads, scalars, numbers, line, out)


def _reduction(line, out, source):
    rank = len(source.size)
    given = line.args[1].items if isinstance(line.args[1], lines.ListArg) else ()
    dims = {int(arg.value) % max(rank, 1) for arg in given} or set(range(rank))
    keep = len(line.args) == 3 and line.args[2].value is True
    kept = [d for d in range(rank) if d not in dims]
    steps = {d: out.stride[d if keep else kept.index(d)] for d in kept}
    numbers = [(f"n{d}", source.size[d]) for d in range(rank)]
    numbers += [(f"out_{d}", steps[d]) for d in kept]
    numbers += [(f"a_{d}", source.stride[d]) for d in range(rank)]
    first, step, last = _REDUCTIONS[line.op]
    text = [*_places(kept), f"    float r = {first};"]
    text += [f"    for (long i{d} = 0; i{d} < n{d}; ++i{d})" for d in sorted(dims)]
    text.append(f"    {{ const float a = p_a[{_at('a', range(rank))}]; r = {step}; }}")
    text.append(f"    const float count = {' * '.join(f'n{d}' for d in sorted(dims)) or '1'};")
    text.append(f"    out[{_at('out', kept)}] = {last};")
    name = f"{_plain(line.op)}_{rank}d_{''.join(map(str, sorted(dims)))}"
    return _kernel(name, text, [("a", line.args[0].buffer)], [], numbers, line, out)


def _kernel(name, text, reads, scalars, numbers, line, out):  # noqa: PLR0913
    """Return a kernel with this text, and the arguments and grid to call it with."""
    params = [
        *(lines.BufferParam(f"p_{n}", lines.DType.FLOAT32, lines.Access.READ) for n, _ in reads),
        lines.BufferParam("out", lines.DType.FLOAT32, lines.Access.WRITE),
        *(lines.ScalarParam(n, lines.ScalarType.FLOAT32) for n, _ in scalars),
        *(lines.ScalarParam(n) for n, _ in numbers),
    ]
    args = [
        *(lines.BufferArg(buffer) for _, buffer in reads),
        lines.BufferArg(line.results[0].out, lines.Access.WRITE),
        *(lines.ScalarArg(value) for _, value in (*scalars, *numbers)),
    ]
    declared = [
        *(f"global const float *p_{n}" for n, _ in reads),
        "global float *out",
        *(f"float {n}" for n, _ in scalars),
        *(f"long {n}" for n, _ in numbers),
    ]
    body = "\n".join(("    long left = get_global_id(0);", *text))
    code = f"{_EXACT}kernel void {name}({', '.join(declared)})\n{{\n{body}\n}}\n"
    source = lines.DeviceKernel("OpenCL C", code, name)
    return lines.KernelDefinition(name, tuple(params), source), tuple(args), (out.numel,)


def _places(dims):
    """Return the code that splits a work item's index, the last dimension first."""
    return [f"    const long i{d} = left % n{d}; left /= n{d};" for d in reversed(dims)]


def _at(name, dims):
    return " + ".join(f"i{d} * {name}_{d}" for d in dims) or "0"


def _broadcast(layout, out):
    """Return an operand's strides in the result's dimensions, 0 where elements repeat."""
    missing = len(out.size) - len(layout.size)
    pairs = zip(layout.size, layout.stride, out.size[missing:], strict=True)
    return [0] * missing + [0 if size == 1 and n != 1 else step for size, step, n in pairs]


def _plain(op):
    return op.partition("::")[2].partition(".")[0]
