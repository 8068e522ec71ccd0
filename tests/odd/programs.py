"""Odd functions, second half: programs, not operators: state, control flow, gradients, threads."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.odd.kit import case, i, observe, r, script

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    name: str = "box"
    rest: list = dataclasses.field(default_factory=list)


@case(grad=False)
def boxes_and_pairs():
    def f(p, box, d, names, none, word="plus"):
        box.rest.append(p.left * 2)
        d["new"] = p.right + (1 if "b" in names else 2)
        d.move_to_end("x")
        out = Box(box.value * len(names), word + "!", [none])
        return Pair(p.right, out.value), d, sorted(names), none, {k: v.shape for k, v in d.items()}

    def arguments(names, **more):
        d = collections.OrderedDict(x=r(2), y=r(3))
        return (Pair(r(2), r(3)), Box(r(4)), d, names, None)

    return f, [arguments({"a", "b"}), arguments(frozenset({"c"}))]


@case(grad=True)
def branch_on_a_value():
    def f(x, y):
        bias = y * 2
        return (
            torch.cond(x.sum() > 0, lambda a: (a * bias).sin(), lambda a: a - bias.cos(), (x,)) + 1
        )

    a = r(5).abs().requires_grad_()
    return f, [(a, r(5, grad=True)), ((-a).detach().requires_grad_(), r(5, grad=True))]


@case(grad=False, export=True)
def branch_exported():
    def f(x, flag):
        y = torch.cond(flag, lambda a: a.cumsum(0), lambda a: a.flip(0) * 3, (x,))
        return y, torch.cond(x.sum() > 100, lambda a: a + 1, lambda a: a.clone(), (y,))

    return f, [(r(6), torch.tensor(True)), (r(6), torch.tensor(False))]


@case(grad=False, dynamic=True, export=True)
def loop_on_a_value():
    from torch._higher_order_ops.while_loop import while_loop

    def f(x, n):
        k, y, acc = while_loop(
            lambda k, y, a: k < n,
            lambda k, y, a: (k + 1, y * 1.5 + k, a.logical_xor(y > 1)),
            (torch.zeros((), dtype=torch.int64), x, x > 0),
        )
        return k, y, acc

    return f, [(r(4), torch.tensor(5)), (r(4), torch.tensor(0)), (r(4), torch.tensor(-3))]


@case(grad=False)
def loops_in_loops():
    from torch._higher_order_ops.while_loop import while_loop

    def f(x):
        def outer(k, y):
            def inner(j, z):
                return j + 1, torch.cond(z.sum() > 3, lambda q: q * 0.5, lambda q: q + 1, (z,))

            _, z = while_loop(lambda j, z: j < k, inner, (torch.zeros((), dtype=torch.int64), y))
            return k + 1, z

        return while_loop(lambda k, y: k < 4, outer, (torch.ones((), dtype=torch.int64), x))

    return f, [(r(3),)]


@case(grad=True)
def scans():
    from torch._higher_order_ops.scan import scan

    def f(init, xs):
        return scan(lambda c, x: (c * 0.9 + x, (c * x).sin()), init, xs)

    return f, [(r(3, grad=True), r(6, 3, grad=True))]


@case(grad=False)
def associative_scans():
    from torch._higher_order_ops.associative_scan import associative_scan

    def f(x):
        return associative_scan(
            lambda a, b: a * b + 0.0, x, 0, combine_mode="generic"
        ), associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic")

    return f, [(r(5, 4),)]


@case(grad=False)
def switch_on_a_value():
    def f(x, k):
        from torch._higher_order_ops.switch import switch

        return switch(k, [lambda a: a + 1, lambda a: a * 2, lambda a: a.sin()], (x,))

    return f, [(r(3), torch.tensor(0)), (r(3), torch.tensor(2))]


@case(grad=True)
def checkpoint_with_dropout():
    def f(x, w):
        def block(a):
            return F.dropout(torch.relu(a @ w), 0.4) * torch.rand_like(a)

        return checkpoint(block, x, use_reentrant=False) + checkpoint(
            lambda a: a.sin().cos(), x, use_reentrant=False, preserve_rng_state=False
        )

    return f, [(r(4, 4, grad=True), r(4, 4, grad=True))]


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, scale, name):
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        ctx.mark_non_differentiable(x)
        return x * y * scale, (x > y).long()

    @staticmethod
    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        gx = g * ctx.scale if ctx.needs_input_grad[0] else None
        return gx, (g * x).clamp(-1, 1), None, None


@case(grad=True)
def gradient_of_ones_own():
    def f(x, y):
        a, m = Odd.apply(x, y, 3, "name")
        b, _ = Odd.apply(a, y.detach(), 0.5, None)
        return a * 2, b, m

    return f, [(r(4, grad=True), r(4, grad=True)), (r(4), r(4, grad=True))]


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 5


@case(grad=True)
def gradient_that_writes_its_input():
    def f(x):
        y = x + 1
        Dirty.apply(y)
        return y * 3

    return f, [(r(4, grad=True),)]


@script
def hooks_everywhere(compile):
    seen = []

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Linear(4, 2)

        def forward(self, x):
            y = self.a(x)
            y.register_hook(lambda g: g * 2)
            return self.b(y.relu())

    torch.manual_seed(1)
    m = M()
    m.a.register_forward_hook(lambda mod, args, out: out + 1)
    m.b.register_forward_pre_hook(lambda mod, args: (args[0] * 0.5,))
    m.b.weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
    m.a.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    f = compile(m)
    x = r(3, 4, grad=True)
    return observe(f, x, grad=True), seen, [p.grad for p in m.parameters()]


@script
def double_backward(compile):
    f = compile(lambda x, w: torch.tanh(x @ w).sum())
    x, w = r(3, 3, grad=True), r(3, 3, grad=True)
    (g,) = torch.autograd.grad(f(x, w), x, create_graph=True)
    try:
        g.pow(2).sum().backward()
    except Exception as e:
        return g, type(e).__name__
    return g, x.grad, w.grad


@script
def backward_twice(compile):
    f = compile(lambda x, w: (F.gelu(x @ w), (x * w).exp()))
    x, w = r(3, 3, grad=True), r(3, 3, grad=True)
    a, b = f(x, w)
    a.sum().backward(retain_graph=True)
    first = x.grad.clone()
    (a * b).sum().backward(retain_graph=True)
    torch.autograd.backward([a, b], [torch.ones_like(a), b.detach()])
    try:
        a.sum().backward()
        again = None
    except Exception as e:
        again = type(e).__name__
    return a, b, first, x.grad, w.grad, again


@case(grad=True)
def straight_through():
    def f(x):
        q = x + (x.round() - x).detach()
        y = torch.where(x > 0, q, q.detach())
        with torch.no_grad():
            z = y * 3
        return y * z, z, y.detach().requires_grad_() * 2

    return f, [(r(6, grad=True),)]


@script
def leaf_written_without_grad(compile):
    w = r(4, grad=True)

    @compile
    def f(x):
        with torch.no_grad():
            w.add_(1)
            w[0] = -1
        return w * x

    out = [observe(f, r(4, grad=True), grad=True) for _ in range(2)]
    return out, w, w.grad, w._version


@script
def leaf_written_with_grad(compile):
    w = r(4, grad=True)
    f = compile(lambda x: w.add_(x))
    return observe(f, r(4)), w


try:

    @torch.library.custom_op("oddzoo::swap_halves", mutates_args=("x",))
    def swap_halves(
        x: torch.Tensor, how: str, parts: list[torch.Tensor], extra: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n = x.shape[0] // 2
        head = x[:n].clone()
        x[:n] = x[n : 2 * n]
        x[n : 2 * n] = head
        s = sum(p.sum() for p in parts) + (0 if extra is None else extra.sum())
        return head, torch.as_tensor(s, dtype=x.dtype) * len(how)

    @swap_halves.register_fake
    def _(x, how, parts, extra=None):
        return x.new_empty(x.shape[0] // 2, *x.shape[1:]), x.new_empty(())

    @torch.library.custom_op("oddzoo::fill_both", mutates_args=("a", "b"))
    def fill_both(a: torch.Tensor, b: torch.Tensor, v: float) -> None:
        a.fill_(v)
        b.add_(a.sum())

    @torch.library.custom_op("oddzoo::how_many", mutates_args=())
    def how_many(x: torch.Tensor, flags: list[bool], ks: list[int]) -> int:
        return int(x.numel()) + sum(ks) + sum(flags)

    @how_many.register_fake
    def _(x, flags, ks):
        return torch.library.get_ctx().new_dynamic_size()

except RuntimeError:
    pass


@case(grad=False, dynamic=True, export=True)
def ops_of_ones_own():
    def f(x, y):
        a, s = torch.ops.oddzoo.swap_halves(x, "three", [y, y[1:], y], None)
        b, t = torch.ops.oddzoo.swap_halves(x[2:], "", [], y)
        torch.ops.oddzoo.fill_both(y, x[0], 0.25)
        z = x.clone()
        torch.ops.oddzoo.fill_both(z[0], z[1], -1.5)
        return a, s, b, t, y * 2, z

    return f, [(r(6, 2), r(3)), (r(4, 2), r(3))]


@case(grad=False)
def op_that_reads_what_it_writes():
    def f(x, y):
        return torch.ops.oddzoo.swap_halves(x, "three", [y, x], x[1:])

    return f, [(r(6, 2), r(3))]


@case(grad=False, config={"capture_scalar_outputs": True})
def op_that_gives_a_number():
    def f(x):
        n = torch.ops.oddzoo.how_many(x, [True, False], [1, 2])
        return x * n

    return f, [(r(3),)]


@case(grad=True)
def transforms_stacked():
    from torch.func import grad, hessian, jacrev, jvp, vjp, vmap

    def f(w, xs):
        def loss(w, x):
            return (torch.tanh(x @ w) ** 2).sum()

        per = vmap(grad(loss), (None, 0))(w, xs)
        j = jacrev(lambda a: a.sin() * w.diagonal())(xs[0])
        h = hessian(lambda a: (a**3).sum())(xs[1])
        p, t = jvp(lambda a: a.exp(), (w,), (torch.ones_like(w),))
        _, pull = vjp(lambda a: a @ a.t(), w)
        return per, j, h, p, t, pull(torch.eye(3))[0]

    return f, [(r(3, 3), r(4, 3))]


@case(grad=False)
def vmap_that_writes_and_rolls_dice():
    from torch.func import vmap

    def f(x, y):
        def one(a, b):
            c = a.clone()
            c[1:].add_(b)
            return c + torch.rand(3), c.sum()

        return (
            vmap(one, randomness="different")(x, y),
            vmap(lambda a: a + torch.randn(()), randomness="same")(y),
            vmap(vmap(torch.dot), in_dims=1)(x[None], x[None]),
        )

    return f, [(r(4, 3), r(4))]


@script
def ensemble_of_modules(compile):
    from torch.func import functional_call, stack_module_state, vmap

    torch.manual_seed(3)
    models = [nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Linear(5, 2)) for _ in range(3)]
    params, buffers = stack_module_state(models)

    @compile
    def f(p, b, x):
        return vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), (0, 0, None))(p, b, x)

    return observe(f, params, buffers, r(4, 3), grad=True), [v.grad for v in params.values()]


@case(grad=True)
def autocast_on_and_off():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ w
            with torch.autocast("cpu", enabled=False):
                b = a.float() @ w
            c = F.layer_norm(a, (4,)).sum()
            d = torch.cat([a, b])
        return a, b, c, d, torch.is_autocast_enabled("cpu")

    return f, [(r(4, 4, grad=True), r(4, 4, grad=True))]


@script
def defaults_changed(compile):
    @compile
    def f(x):
        return (
            torch.ones(2) * x.sum(),
            torch.arange(3.0),
            x * 0.1,
            torch.tensor(1.5),
            torch.full((2,), 1.0),
        )

    out = [observe(f, r(3))]
    torch.set_default_dtype(torch.float64)
    try:
        out.append(observe(f, r(3)))
        out.append(observe(f, r(3).float()))
    finally:
        torch.set_default_dtype(torch.float32)
    out.append(observe(f, r(3)))
    return out


@script
def modes_outside(compile):
    f = compile(lambda x, w: (x @ w).relu_().index_add(0, torch.tensor([0, 0, 1]), w))
    x, w = r(3, 3, grad=True), r(3, 3)
    out = [observe(f, x, w)]
    with torch.no_grad():
        out.append(observe(f, x, w))
    with torch.inference_mode():
        out.append(observe(f, r(3, 3), w))
        y = r(3, 3)
    out.append(observe(f, y, w))
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        out.append(observe(f, x, w, grad=True))
    finally:
        torch.use_deterministic_algorithms(False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out.append(observe(f, x, w))
    return out


@case(grad=False)
def grad_mode_left_changed():
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        z = y * x
        return y, z, z.requires_grad, x.clone().requires_grad_()

    return f, [(r(3, grad=True),), (r(3),)]


@script
def threads_at_once(compile):
    f = compile(lambda x, n: (x * n).softmax(-1).cumsum(0))
    inputs = [(r(4, 5 + k), k) for k in range(4)]
    out = [None] * 4
    errors = []

    def work(k):
        try:
            for _ in range(3):
                out[k] = f(*inputs[k])
        except Exception as e:
            errors.append(type(e).__name__)

    ts = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    return out, errors


class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out


@case(grad=True)
def subclass_by_function():
    def f(x, y):
        z = x * y + 1
        return z, z.sum(), x.view(-1)

    return f, [(r(2, 3).as_subclass(Named), r(2, 3))]


@case(grad=True)
def subclass_by_dispatch():
    from torch.testing._internal.two_tensor import TwoTensor

    def f(x, y):
        z = x * y
        return z.sin(), z.t(), (y @ y.t()).sum()

    return f, [(TwoTensor(r(3, 3), r(3, 3)), r(3, 3, grad=True))]


@case(grad=True)
def ragged():
    def f(x):
        y = x.sin() * 2
        return y.values(), y.offsets(), torch.nested.to_padded_tensor(y, 0.0)

    return f, [(torch.nested.nested_tensor([r(2, 3), r(4, 3), r(1, 3)], layout=torch.jagged),)]


@case(grad=False)
def generators():
    def f(x):
        def parts(n):
            for k in range(n):
                got = yield x[k] * k
                if got is not None:
                    yield got + 1

        g = parts(3)
        a = next(g)
        b = g.send(a * 2)
        rest = list(g)
        return (
            a,
            b,
            rest,
            list(itertools.accumulate(x.unbind(), torch.add)),
            functools.reduce(torch.mul, x),
            [*zip(x, reversed(x))],
        )

    return f, [(r(3, 2),)]


@script
def compiled_recursion(compile):
    @compile
    def f(x, n):
        if n == 0:
            return x.sum()
        return f(x * n, n - 1) + x.mean()

    @compile
    def g(x):
        inner = compile(lambda y: y.exp() + 1)
        return inner(x) * f(x, 2)

    return observe(f, r(4), 3), observe(g, r(4)), observe(f, r(2, 2), 1)


@script
def optimisers(compile):
    out = []
    for make in (
        lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01), foreach=False, amsgrad=True),
        lambda p: torch.optim.Adam(p, lr=0.02, foreach=True, maximize=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
    ):
        ps = [r(3, 2, grad=True), r(5, grad=True), r(grad=True)]
        opt = make(ps)
        step = compile(opt.step)
        for k in range(3):
            for p in ps:
                p.grad = torch.full_like(p, 0.1 * (k + 1))
            step()
            for g in opt.param_groups:
                if isinstance(g["lr"], torch.Tensor):
                    g["lr"].mul_(0.5)
                else:
                    g["lr"] *= 0.5
        out.append([p.detach().clone() for p in ps])
    return out


@script
def train_step_whole(compile):
    torch.manual_seed(5)
    m = nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3, momentum=None),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(48, 4),
    )
    opt = torch.optim.AdamW(m.parameters(), lr=0.01)

    @compile
    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        n = nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        opt.step()
        return loss.detach(), n

    out = [observe(step, r(5, 1, 6, 6), i(5, high=4)) for _ in range(2)]
    m.eval()
    out.append(observe(compile(m), r(2, 1, 6, 6)))
    return out, m.state_dict()


@script
def recurrent(compile):
    torch.manual_seed(2)
    lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, proj_size=2)
    gru = nn.GRU(3, 4, dropout=0.3, num_layers=2)
    cell = nn.LSTMCell(3, 4)
    out = [
        observe(compile(lstm), r(2, 5, 3, grad=True), grad=True),
        observe(compile(gru), r(5, 2, 3), None),
        observe(compile(cell), r(2, 3)),
    ]
    packed = compile(
        lambda x, n: nn.utils.rnn.pad_packed_sequence(
            lstm(nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False))[
                0
            ],
            batch_first=True,
        )
    )
    out.append(observe(packed, r(3, 5, 3), torch.tensor([2, 5, 1])))
    return out, [p.grad for p in lstm.parameters()]


@script
def transformer_layer(compile):
    torch.manual_seed(2)
    m = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
    mha = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    mask = torch.tensor([[False, False, True], [False, True, True]])
    out = [observe(compile(m), r(2, 3, 8, grad=True), src_key_padding_mask=mask, grad=True)]
    x = r(3, 2, 8)
    out.append(observe(compile(mha), x, x, x, need_weights=True, average_attn_weights=False))
    m.eval()
    with torch.no_grad():
        out.append(observe(compile(m), r(2, 3, 8), src_key_padding_mask=mask))
    return out


@script
def state_that_grows(compile):
    log = []
    count = 0

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.calls = 0
            self.cache = {}

        def forward(self, x):
            nonlocal count
            count += 1
            self.calls += 1
            self.mean = self.mean * 0.9 + x.mean(0)
            self.cache[self.calls] = x * self.calls
            log.append(x.sum())
            return x - self.mean, self.calls

    m = M()
    f = compile(m)
    out = [observe(f, r(4, 3)) for _ in range(4)]
    return out, m.mean, m.cache, log, count


@script
def tied_and_parametrised(compile):
    torch.manual_seed(2)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(7, 4)
            self.h = nn.Linear(4, 7, bias=False)
            self.h.weight = self.e.weight
            self.n = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
            self.s = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

        def forward(self, idx):
            return self.h(self.s(self.n(self.e(idx))).tanh())

    m = M()
    return (
        observe(compile(m), i(5, high=7), grad=True),
        [p.grad for p in m.parameters()],
        m.state_dict(),
    )


TABLE = torch.arange(6.0)


@script
def global_tensor_changed(compile):
    global TABLE
    TABLE = torch.arange(6.0)

    @compile
    def f(x):
        global TABLE
        y = x + TABLE
        c = torch.tensor([1.0, 2, 3])
        c[0] += x.sum()
        TABLE += 1
        return y, c

    out = [observe(f, r(6))]
    TABLE.mul_(10)
    out.append(observe(f, r(6)))
    TABLE = torch.ones(6, dtype=torch.float64)
    out.append(observe(f, r(6)))
    return out, TABLE


class Wrong(ValueError):
    pass


@case(grad=False)
def fails_half_way():
    def f(x, y):
        x.add_(1)
        if y.shape[0] > 3:
            raise Wrong("too long")
        z = x.sum()
        if z > 1e6:
            raise KeyError("big")
        return x[y]

    return f, [
        (r(4), torch.tensor([1, 2])),
        (r(4), torch.zeros(5, dtype=torch.int64)),
        (torch.full((4,), 1e9), torch.tensor([0])),
        (r(4), torch.tensor([9])),
        (r(4), torch.tensor([-4])),
    ]


@case(grad=False, config={"capture_scalar_outputs": True}, export=True)
def checks_at_run_time():
    def f(x, n):
        k = n.item()
        torch._check(k > 2, lambda: "k must be more than two")
        torch._assert_async(x.sum() < 100)
        return x * k

    return f, [
        (r(3), torch.tensor(5)),
        (r(3), torch.tensor(1)),
        (r(3) + 100, torch.tensor(5)),
        (r(3), torch.tensor(7)),
    ]


@case(grad=False)
def wrong_index():
    def f(x, j):
        return x.gather(0, j), x[j], x.index_select(0, j)

    return f, [
        (r(4), torch.tensor([0, 3])),
        (r(4), torch.tensor([0, 4])),
        (r(4), torch.tensor([-1, -5])),
    ]


@case(grad=False)
def generator_given():
    g = torch.Generator().manual_seed(4)

    def f(x):
        return x + torch.rand(3, generator=g), torch.randperm(4, generator=g)

    return f, [(r(3),), (r(3),)]


@script
def seeds_in_the_middle(compile):
    @compile
    def f(x):
        a = torch.rand(3)
        torch.manual_seed(7)
        b = torch.rand(3)
        s = torch.get_rng_state()
        c = F.dropout(x)
        torch.set_rng_state(s)
        return a, b, c, F.dropout(x)

    torch.manual_seed(1)
    return observe(f, r(5)), observe(f, r(5)), torch.rand(2)


@case(grad=False)
def on_no_device():
    def f(x, m):
        with torch.device("meta"):
            y = torch.ones(3)
        return y, m * 2, x + 1, (m @ m.t()).shape

    return f, [(r(3), torch.empty(2, 3, device="meta"))]


@case(grad=True)
def writes_inside_the_graph():
    def f(x, w):
        y = x * 2
        y[0].mul_(w)
        v = y.view(-1)[1:4]
        v.tanh_()
        y.t()[1] = w
        a, b = y[0], y[1:][0]
        b.copy_(a + b)
        return y, v, b.exp()

    return f, [(r(3, 3, grad=True), r(3, grad=True))]


@case(grad=True)
def input_needs_grad_and_is_written():
    def f(x, y):
        z = x.view(-1)
        z.mul_(y)
        x[0] = 0
        return x * 2, z

    def args():
        a = r(2, 2, grad=True)
        return (a * 1, r(4, grad=True))

    return f, [args(), (r(2, 2), r(4, grad=True)), (r(2, 2, grad=True), r(4))]


class Node:
    def __init__(self, a, b, tag):
        self.a, self.b, self.tag = a, b, tag


with contextlib.suppress(ValueError):
    torch.utils._pytree.register_pytree_node(
        Node,
        lambda n: ([n.a, n.b], n.tag),
        lambda v, tag: Node(*v, tag),  # type: ignore[call-arg]
        serialized_type_name="oddzoo.Node",
    )


@case(grad=False)
def tree_of_ones_own():
    def f(n):
        if n.tag == "add":
            return Node(n.a + n.b, n.a, n.tag)
        return Node(n.b, n.a * 2, [n.tag])

    return f, [(Node(r(2), r(2), "add"),), (Node(r(2), r(2), "mul"),)]


@case(grad=False)
def context_manager_of_ones_own():
    stack = []

    @contextlib.contextmanager
    def scope(name):
        stack.append(name)
        try:
            yield len(stack)
        finally:
            stack.append("-" + name)

    def f(x):
        with scope("a") as n, scope("b"):
            y = x * n
        try:
            with scope("c"):
                y = y / x.shape[3]
        except IndexError:
            y = y + 100
        return y, list(stack)

    return f, [(r(3),), (r(3),)]


@script
def sparse_gradient(compile):
    torch.manual_seed(1)
    m = nn.ModuleList(
        [nn.Embedding(10, 4, sparse=True), nn.EmbeddingBag(10, 4, sparse=True, mode="sum")]
    )
    opt = torch.optim.SparseAdam(list(m.parameters()), lr=0.1)

    def f(idx):
        return (m[0](idx).sum(1) * m[1](idx)).sum()

    g = compile(f)
    out = []
    for _ in range(2):
        opt.zero_grad()
        loss = g(i(3, 4, high=10))
        loss.backward()
        out.append([loss.detach(), *(p.grad.coalesce().to_dense() for p in m.parameters())])
        opt.step()
    return out, m.state_dict()


@script
def deep_copies_and_pickles(compile):
    import copy

    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    f = compile(m)
    a = observe(f, r(2, 3))
    g = copy.deepcopy(f)
    with torch.no_grad():
        m[0].weight.zero_()
    return a, observe(f, r(2, 3)), observe(g, r(2, 3)), sorted(f.state_dict())


@case(grad=True, dynamic=True)
def flex():
    from torch.nn.attention.flex_attention import flex_attention

    def f(q, k, v):
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, m, n: torch.where(m >= n, s + h * 0.1, -float("inf"))
        )

    return f, [(r(1, 2, 16, 16), r(1, 2, 16, 16), r(1, 2, 16, 16))]


@case(grad=True, dynamic=True)
def long_chain():
    def f(x):
        for k in range(60):
            x = (x * 1.01 + k).sin() if k % 7 else x.cumsum(-1).tanh()
            if k % 13 == 5:
                x = x @ x.t() @ x / x.shape[0]
        return x

    return f, [(r(6, 4, grad=True),), (r(7, 4, grad=True),)]


@script
def warm_and_changed(compile):
    """One function whose inputs change dtype, rank, strides, grad and class from call to call."""
    f = compile(lambda x: (x * 2 + x.sum()).reshape(-1)[:3])
    return [
        observe(f, x)
        for x in (
            r(4),
            r(4, 4),
            i(4),
            r(4, 4).t(),
            r(4, grad=True),
            r(2, 2, 2).to(torch.bfloat16),
            nn.Parameter(r(4)),
            r(4) > 0,
            torch.complex(r(4), r(4)),
            torch.tensor(3.0),
            r(0),
            torch.tensor([2**62, 2**62]),
        )
    ]
