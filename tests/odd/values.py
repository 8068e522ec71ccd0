"""Odd functions, first half: dtypes, edge values, views, aliases and calls of the library."""

import cmath
import math

import numpy as np
import torch
import torch.nn.functional as F

from tests.odd.kit import case, i, observe, r, script


@case(dynamic=True, export=True)
def mixed_types_and_zero_dims():
    def f(a, b, c, d):
        return (
            a * b,
            a / (c + 1),
            c + c,
            torch.where(c, a, d),
            torch.pow(a, 2) - d,
            (b > a).sum(),
            b.expand(3) + d,
            a.to(torch.float64).mean() + d.sum(),
        )

    bf = r(3).to(torch.bfloat16)
    return f, [
        (
            i(3, dtype=torch.int8),
            torch.tensor(1.5, dtype=torch.float64),
            torch.tensor([True, False, True]),
            bf,
        )
    ]


@case(dynamic=True, export=True)
def nothing_in_it():
    def f(x, y):
        return (
            x.sum(0),
            x.prod(),
            x.mean(),
            y @ x,
            torch.softmax(x, 0),
            torch.cat([x, x + 1, torch.ones(1, 3)]),
            y.any(),
            x.new_zeros(0, 2).logsumexp(1),
            torch.stack([x, x]).transpose(0, 2),
        )

    return f, [(r(0, 3), r(3, 0))]


@case(grad=False)
def same_tensor_twice():
    def f(a, b):
        a.add_(1)
        c = a * b
        b.sub_(0.5)
        return c, b, a

    x, y = r(6), r(6)
    z = r(12)
    return f, [(x, x), (x, y), (z[:6], z[6:]), (z[:6], z[3:9]), (z[::2], z[1::2])]


@case(export=True)
def views_of_inputs_out():
    def f(x, y):
        return x.t(), x[1:], x.view(-1), x, x.detach(), y.real, y.imag, x[None].squeeze(0), x + 0

    return f, [(r(4, 5), torch.complex(r(3), r(3)))]


@case(grad=False, dynamic=True, export=True)
def writes_through_views():
    def f(x):
        x[::2].mul_(2)
        x.t()[0].zero_()
        x.diagonal().fill_(7)
        x.view(-1)[3:9].copy_(torch.arange(6))
        w = x[1]
        w += x[2]
        return w, x.sum()

    return f, [(r(5, 5),), (r(6, 6),)]


@case(dynamic=True)
def sizes_from_data():
    def f(x):
        n = torch.nonzero(x > 0)
        u, inv, cnt = torch.unique((x * 2).round(), return_inverse=True, return_counts=True)
        k = int(x.abs().sum().item()) % 4 + 1
        return n.float() * 2, u + 1, inv[cnt.argmax()], torch.ones(k, 2) * k

    return f, [(r(7),), (r(3, 2),), (torch.zeros(4),)]


@case(
    export=True,
    config={"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True},
    grad=False,
)
def sizes_from_data_in_graph():
    def f(x, n):
        s = torch.nonzero(x).squeeze(1)
        m = x[x > 0.1]
        k = n.item()
        torch._check(k >= 0)
        torch._check(k < 50)
        z = torch.full((k, 3), 2.5)
        return s + 1, m.exp() * 2, m.sum(), z.cumsum(0), torch.repeat_interleave(x, 2)

    return f, [(r(9), torch.tensor(4)), (r(9), torch.tensor(0)), (-r(9).abs(), torch.tensor(1))]


@case(grad=False)
def randomness_of_all_kinds():
    def f(x):
        a = torch.rand_like(x)
        b = F.dropout(x, 0.3)
        c = torch.randperm(7)
        d = x.clone().normal_(2, 3)
        e = torch.bernoulli(x.sigmoid())
        g = torch.multinomial(x.softmax(0), 3)
        h = torch.randint(0, 2**40, (3,))
        k = torch.randn(3, dtype=torch.float64)
        x.uniform_()
        return a, b, c, d, e, g, h, k, torch.randint_like(x, 5), torch.empty(4).exponential_()

    return f, [(r(6),), (r(6),), (r(5),)]


@case(export=True)
def complex_numbers():
    def f(z, w):
        a = z @ w.mH
        b = torch.view_as_real(z)
        return (
            a,
            b * 2,
            z.conj(),
            (z * (2 - 1j)).abs(),
            torch.angle(w),
            torch.polar(z.abs(), z.angle()),
            z.real.sum() + 1j * w.imag.mean(),
            torch.where(z.abs() > 1, z, w),
            torch.exp(1j * z.real),
        )

    return f, [(torch.complex(r(3, 4), r(3, 4)), torch.complex(r(3, 4), r(3, 4)))]


@case(grad=False)
def complex_written_by_parts():
    def f(z):
        z.real.mul_(3)
        z.imag.fill_(-0.0)
        torch.view_as_real(z)[0, 0] = 9
        return z.conj().resolve_conj(), z.conj() + 1, z.imag

    return f, [(torch.complex(r(5), r(5)),), (torch.complex(r(5), r(5)).conj(),)]


@case(grad=False, export=True)
def eight_bit_floats():
    def f(x):
        a = x.to(torch.float8_e4m3fn)
        b = (x * 100).to(torch.float8_e5m2)
        return (
            a,
            b,
            a.to(torch.float32) + b.to(torch.float32),
            a.view(torch.uint8),
            b.to(torch.bfloat16).sum(),
        )

    return f, [
        (torch.tensor([0.0, -0.0, 1.3, 448.0, 500.0, -7e4, math.inf, math.nan, 1e-9, 2e-3]),)
    ]


@case(grad=False)
def wide_unsigned():
    def f(a, b, c):
        return (
            a.to(torch.int32) + 1,
            b.to(torch.int64) << 3,
            c.to(torch.float64),
            c.view(torch.int64) ^ 5,
            a.view(torch.int16).sum(),
        )

    return f, [
        (
            torch.tensor([0, 65535, 7], dtype=torch.uint16),
            torch.tensor([0, 2**32 - 1, 7], dtype=torch.uint32),
            torch.tensor([0, 2**64 - 1, 7], dtype=torch.uint64),
        )
    ]


@case(grad=False, dynamic=True, export=True)
def integers_run_over():
    def f(a, b, n):
        return (
            a + 100,
            a * a,
            a.abs(),
            -a,
            a.cumsum(0),
            a.cumsum(0, dtype=torch.int8),
            b // 3,
            b % -7,
            torch.fmod(b, 7),
            b << 31,
            a >> 1,
            b * (2**31 - 1),
            n * n + 2**62,
            torch.div(b, 4, rounding_mode="trunc"),
            n.bitwise_not(),
        )

    return f, [
        (
            torch.tensor([-128, 127, -1, 0, 64], dtype=torch.int8),
            torch.tensor([-(2**31), 2**31 - 1, -5, 5, 0], dtype=torch.int32),
            torch.tensor([2**63 - 1, -(2**63), 3, -3, 0]),
        )
    ]


EDGES = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, 3e38, -3e38]


@case(grad=False, export=True)
def not_a_number():
    def f(x, y):
        return (
            torch.maximum(x, y),
            torch.fmax(x, y),
            x.amax(),
            x.argmax(),
            x.argmin(),
            x.sort(stable=True),
            torch.topk(x, 4),
            x.nanmedian(),
            torch.nan_to_num(x),
            torch.logsumexp(x[:6], 0),
            torch.sign(x),
            torch.copysign(y, x),
            torch.nextafter(x, y),
            x.clamp(-1, 1),
            x.clamp(min=math.nan),
            torch.isclose(x, y, equal_nan=True),
            (x != x) | (x < math.nan),
            x.softmax(0),
            F.relu(x),
            F.hardtanh(x),
            x.cummax(0),
            torch.logaddexp(x, y),
            torch.hypot(x, y),
            torch.atan2(x, y),
        )

    x = torch.tensor(EDGES)
    return f, [
        (x, x.flip(0)),
        (x.to(torch.float64), x.roll(3).to(torch.float64)),
        (x.to(torch.float16), x.roll(1).to(torch.float16)),
    ]


@case(grad=False, dynamic=True, export=True)
def constants_at_the_edge():
    def f(x):
        return (
            x + 1e308,
            x * 1e400,
            x - float("nan"),
            x * -0.0,
            torch.full((), 2**63 - 1),
            torch.full((2,), -(2**63)),
            x.new_full((2,), 1e-320, dtype=torch.float64),
            x * 2**62,
            x.to(torch.int64) + (2**53 + 1),
            torch.full((2,), -0.0),
            x.double() * 0.1 + 1e-17,
            torch.tensor([math.inf, -math.inf, 5e-324], dtype=torch.float64) + x.double().sum(),
        )

    return f, [(r(3),)]


@case(grad=False)
def complex_infinity():
    def f(x):
        return torch.full((2,), complex(-0.0, math.inf)) + x, x * complex(1, math.nan)

    return f, [(r(2),)]


@case(grad=False)
def constant_too_big():
    def f(x):
        return torch.full((2,), 2**63) + x

    return f, [(torch.ones(2, dtype=torch.int64),)]


@case(grad=False)
def scalars_of_every_make():
    def f(x, n, flag):
        return (
            x * np.float32(2.5),
            x + np.int64(3),
            x * True,
            x * 2j,
            x * n,
            x + flag,
            x ** np.float64(0.5),
            torch.sub(x, int(flag), alpha=3),
            x * cmath.pi,
            torch.tensor(n) * 2,
        )

    return f, [
        (r(4).abs(), np.int64(4), True),
        (r(4).abs(), np.float32(0.1), False),
        (r(4).abs(), 7, np.True_),
    ]


@case(grad=False)
def numpy_all_the_way():
    def f(x, a):
        y = np.sin(x.numpy()) + a
        z = np.cumsum(y[::-1], axis=0)
        return torch.from_numpy(z.copy()), z, np.where(a > 0, y, 0), x.numpy()

    return f, [(r(5), np.linspace(-1, 1, 5))]


@case(grad=False, dynamic=True)
def order_of_ties():
    def f(x):
        s, si = torch.sort(x, stable=True, descending=True)
        t, ti = torch.topk(x, 3)
        k, ki = torch.kthvalue(x, 2)
        m, mi = torch.mode(x)
        return (
            s,
            si,
            t,
            ti,
            k,
            ki,
            m,
            mi,
            torch.unique_consecutive(x),
            x.argsort(stable=True),
            torch.median(x),
            x.msort(),
        )

    return f, [
        (torch.tensor([2.0, 1, 2, 2, 0, 1, -0.0, 0.0]),),
        (torch.ones(5),),
        (torch.tensor([1, 1, 1, 0, 0, 2]),),
    ]


@case(grad=False, dynamic=True, export=True)
def running_sums():
    def f(x, b):
        return (
            x.cumsum(0, dtype=torch.float64),
            b.cumsum(1),
            (x * 10).to(torch.int8).cumprod(0),
            torch.logcumsumexp(x, 1),
            x.cummin(1),
            torch.diff(x, prepend=x[:, :1], append=x[:, -1:]),
            x.sum(dtype=torch.float16),
            b.sum(dtype=torch.int8),
            x.mean((0, 1), keepdim=True, dtype=torch.float64),
            torch.trapezoid(x, dim=0),
            x.std(1, correction=3),
            torch.var_mean(x, 0, unbiased=False),
        )

    return f, [(r(4, 6), r(4, 6) > 0)]


@case(dynamic=True)
def scatter_every_way():
    def f(x, idx, src):
        o = [
            x.scatter_reduce(0, idx, src, reduce=m, include_self=s)
            for m in ("sum", "prod", "mean", "amin", "amax")
            for s in (True, False)
        ]
        o.append(x.index_reduce(0, idx[:, 0], src, "prod", include_self=False))
        o.append(x.index_add(0, idx[:, 0], src, alpha=-2))
        o.append(x.index_put((idx[:, 0], idx[:, 0] % 3), src[:, 0], accumulate=True))
        o.append(torch.gather(x, 1, idx[:4, :2] % 3))
        return o

    return f, [(r(4, 3, grad=True), i(6, 3, high=4), r(6, 3, grad=True))]


@case(grad=False, dynamic=True)
def bins_and_buckets():
    def f(x, edges, n):
        return (
            torch.histc(x, 5, -1, 1),
            torch.bucketize(x, edges, right=True),
            torch.searchsorted(edges, x, side="left", out_int32=True),
            torch.bincount(n, minlength=9),
            torch.histogram(x, 4),
            torch.quantile(x, torch.tensor([0.1, 0.5, 1.0])),
            torch.isin(n, torch.tensor([1, 3])),
            torch.bucketize(torch.tensor([math.nan, math.inf]), edges),
        )

    return f, [(r(8), torch.tensor([-1.0, 0.0, 0.0, 1.0]), i(10, high=6))]


@case()
def linear_algebra():
    def f(a, b):
        s = a @ a.mT + 3 * torch.eye(4)
        u = torch.linalg.svdvals(a)
        w = torch.linalg.eigvalsh(s)
        l, info = torch.linalg.cholesky_ex(-s)
        q, rr = torch.linalg.qr(a)
        return (
            u,
            w,
            info,
            q.abs(),
            rr.abs(),
            torch.linalg.solve(s, b),
            torch.matrix_exp(a / 4),
            torch.linalg.slogdet(s),
            torch.linalg.inv(s),
            torch.linalg.matrix_power(a, -2),
            torch.linalg.vector_norm(b, ord=-math.inf, dim=0),
            torch.linalg.lu_factor(s),
            torch.triangular_solve(b, s),
        )

    return f, [(r(4, 4), r(4, 2)), (r(2, 4, 4), r(2, 4, 2))]


@case(grad=False)
def singular_matrix():
    def f(a):
        a.mul_(2)
        return torch.linalg.inv(a)

    return f, [(r(3, 3),), (torch.zeros(3, 3),)]


@case(export=True)
def fourier():
    def f(x):
        s = torch.stft(x, 16, hop_length=4, window=torch.hann_window(16), return_complex=True)
        y = torch.istft(s, 16, hop_length=4, window=torch.hann_window(16), length=x.shape[-1])
        h = torch.fft.hfft(s, dim=0)
        return (
            s,
            y,
            h,
            torch.fft.rfft2(x.view(2, 32, 2), norm="ortho").abs(),
            torch.fft.fftshift(torch.fft.ifft(x)),
            torch.fft.irfft(torch.fft.rfft(x), n=33),
        )

    return f, [(r(2, 64, grad=True),)]


@case(dynamic=True)
def grids_and_warps():
    def f(x, theta):
        g = F.affine_grid(theta, [2, 3, 5, 4], align_corners=False)
        return (
            F.grid_sample(x, g, mode="bicubic", padding_mode="border", align_corners=True),
            F.grid_sample(x, g, mode="nearest", padding_mode="reflection", align_corners=False),
            F.grid_sample(x, g * 3, align_corners=False),
            F.pixel_shuffle(x[:, :1].expand(-1, 4, -1, -1), 2),
            F.fold(F.unfold(x, 2), (6, 5), 2),
        )

    return f, [(r(2, 3, 6, 5, grad=True), r(2, 2, 3, grad=True))]


@case(grad=True)
def speech_loss():
    def f(logits, targets, il, tl):
        lp = logits.log_softmax(2)
        return (
            F.ctc_loss(lp, targets, il, tl, zero_infinity=True),
            F.ctc_loss(lp, targets, (12, 12), (5, 3), reduction="none"),
        )

    return f, [
        (
            r(12, 2, 6, grad=True),
            i(2, 5, low=1, high=6),
            torch.tensor([12, 2]),
            torch.tensor([5, 3]),
        )
    ]


@case(grad=True)
def bags_of_words():
    def f(w, idx, off, psw):
        return (
            F.embedding_bag(idx, w, off, mode="sum", per_sample_weights=psw),
            F.embedding_bag(idx, w, off, mode="max"),
            F.embedding_bag(
                idx,
                w,
                torch.cat([off, torch.tensor([7])]),
                mode="mean",
                include_last_offset=True,
                padding_idx=1,
            ),
            F.embedding(idx.view(7, 1), w, padding_idx=0, scale_grad_by_freq=True),
            F.one_hot(idx, 9),
        )

    return f, [
        (
            r(9, 4, grad=True),
            torch.tensor([1, 2, 2, 0, 8, 1, 3]),
            torch.tensor([0, 0, 3]),
            r(7, grad=True),
        )
    ]


@case(grad=False)
def embedding_that_renorms():
    def f(w, idx):
        return F.embedding(idx, w, max_norm=0.5, norm_type=1.0), w.sum()

    return f, [(r(6, 3), torch.tensor([1, 1, 4]))]


@case(grad=True, dynamic=True)
def stretch_pool_pad():
    def f(x):
        p, idx = F.max_pool2d(
            x, 2, stride=1, padding=1, dilation=2, ceil_mode=True, return_indices=True
        )
        q, qi = F.max_pool2d(x, 2, return_indices=True)
        return (
            p,
            idx,
            F.max_unpool2d(q, qi, 2),
            F.interpolate(x, scale_factor=1.7, mode="bicubic", antialias=True),
            F.interpolate(x, size=(3, 9), mode="nearest-exact"),
            F.interpolate(x, scale_factor=(0.5, 2.0), mode="bilinear", recompute_scale_factor=True),
            F.adaptive_avg_pool2d(x, (5, 1)),
            F.pad(x, (1, -2, 2, 1), mode="reflect"),
            F.pad(x, (3, 3, 1, 0), mode="circular"),
            F.pad(x, (-1, 2), value=-math.inf),
            F.lp_pool2d(x.abs(), 3, 2),
        )

    return f, [(r(1, 2, 6, 8, grad=True),)]


@case(grad=True)
def channels_last_conv():
    def f(x, w, v):
        y = F.conv2d(x, w, padding="same", dilation=2)
        z = y.contiguous(memory_format=torch.channels_last)
        t = F.conv_transpose2d(z, w.transpose(0, 1), stride=2, output_padding=1)
        d = F.conv3d(v, w[:, :, None], groups=1)
        return (
            y,
            z,
            t,
            d,
            torch.empty_like(x).fill_(1),
            x.clone(memory_format=torch.preserve_format) * 2,
            F.group_norm(z, 2),
        )

    cl = torch.channels_last
    return f, [
        (
            r(2, 4, 7, 5).to(memory_format=cl).requires_grad_(),
            r(4, 4, 3, 3, grad=True),
            r(1, 4, 3, 5, 5).to(memory_format=torch.channels_last_3d),
        )
    ]


@case(grad=True, export=True)
def overlapping_windows():
    def f(x):
        w = torch.as_strided(x, (6, 4), (1, 1))
        u = x.unfold(0, 3, 2)
        s = torch.as_strided_scatter(x, torch.ones(3), (3,), (3,), 1)
        return (w * w).sum(1), w.softmax(-1), u.prod(-1), s * 2, w

    return f, [(r(9, grad=True),)]


@case(grad=False)
def expanded_inputs():
    def f(x, y):
        z = x * y
        return z, x + 1, x.clone(), z.contiguous(), x.sum(0), x

    return f, [
        (r(1, 4).expand(3, 4), r(3, 1).expand(3, 4)),
        (torch.tensor(2.0).expand(3, 4), r(3, 4)),
        (r(4).expand(0, 4), r(1, 4)),
    ]


@case(grad=False)
def write_to_expanded():
    def f(x):
        x.add_(1)
        return x * 2

    return f, [(r(1, 4).expand(3, 4),)]


@case(grad=False)
def strides_no_one_asked_for():
    def f(x, y):
        z = x + y
        x.mul_(2)
        return z, z.view(-1)[::2], torch.empty_like(x).copy_(z), x @ y.t()

    a = torch.empty_strided((3, 5), (11, 2)).copy_(r(3, 5))
    b = torch.empty_strided((1, 5), (999, 1)).copy_(r(1, 5))
    c = r(40)[1:16].view(3, 5)
    d = r(5, 3).t()
    return f, [(a, b), (c, d), (d, a), (r(40)[3:18].view(3, 5), b)]


@case(grad=False)
def half_off_by_one():
    def f(x, w):
        return F.linear(x, w), (x * 3).sum(1), x @ x.t()

    base = r(200).to(torch.float16)
    w = r(70).to(torch.float16)
    return f, [
        (base[:64].view(4, 16), w[:64].view(4, 16)),
        (base[1:65].view(4, 16), w[3:67].view(4, 16)),
        (base[2:66].view(4, 16), w[1:65].view(4, 16)),
    ]


@case(grad=True)
def backwards_and_sideways():
    def f(x):
        y = x.flip(0)[1:].rot90(1, (0, 1))
        z = x.roll((1, -2), (0, 1))
        k = x.clone()
        k[[2, 0, -1]] = x[:3] * 2
        k[x > 1] = 0.5
        k[..., -1] -= k[..., 0]
        k[1, None, 2:4] = 3
        return (
            y,
            z,
            k,
            x[[0, 0, 1]][:, [3, -1]],
            x[None, ..., 1],
            x.movedim(0, -1).unflatten(0, (2, -1)),
        )

    return f, [(r(4, 4, grad=True),)]


@case(grad=False)
def bits_of_floats():
    def f(x):
        n = x.view(torch.int32)
        n.bitwise_xor_(1)
        h = x.view(torch.float16)
        d = x.view(torch.uint8)
        h[0] = 0
        return n, h.float().nan_to_num().sum(), d[-4:], x.view(torch.int64), x

    return f, [(r(6),), (r(2, 4),)]


@case(grad=False, dynamic=True, export=True)
def booleans():
    def f(a, b):
        return (
            ~a,
            a ^ b,
            a.cumsum(0),
            a.sum(),
            a & True,
            a.any(0),
            b[:0].all(),
            b[:0].any(),
            a.float().mean(),
            a < b,
            torch.where(a, 1, 2.5),
            a * 3,
            a.logical_or(b) + 1,
            a.to(torch.int8) - b.to(torch.int8),
            a.max(),
            torch.argmax(a.int()),
            a.int().prod(),
        )

    return f, [(r(5) > 0, r(5) > 0)]


@case(grad=False)
def boolean_matrix_product():
    def f(a):
        return a @ a

    return f, [(r(3, 3) > 0,)]


@case(grad=False, dynamic=True)
def given_places_to_write():
    def f(x, y, out, wrong):
        torch.add(x, y, out=out)
        v, ix = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.sort(x, out=(v, ix))
        torch.mul(x, 2, out=wrong)
        torch.cumsum(y, 0, out=y)
        return out, v, ix, wrong.shape, out.sum()

    return f, [(r(4), r(4), torch.empty(4, dtype=torch.float64), torch.empty(4))]


@case(grad=False)
def metadata_written():
    def f(x, y, z):
        x.t_()
        y.unsqueeze_(0)
        z.squeeze_()
        x.mul_(2)
        return x @ x.t(), y + 1, z.shape

    return f, [(r(2, 3), r(4), r(1, 3, 1))]


@case(grad=False)
def sets_and_resizes():
    def f(x):
        y = torch.empty(2)
        y.set_(x.detach())
        y.add_(1)
        z = torch.zeros(3)
        z.resize_(5)
        z.fill_(1)
        return y, z

    return f, [(r(4),)]


@case(grad=False, dynamic=True)
def data_swapped():
    def f(x, y):
        x.data = y
        return x + 1

    return f, [(r(0), r(6)), (r(3), r(6)), (r(2, 2), r(4)), (r(0), r(0))]


@case(grad=False)
def data_written():
    def f(x, y):
        x.data.mul_(2)
        y.data[0] = x.data.sum()
        z = x.detach()
        z += 1
        return x * y, z

    return f, [(r(3, grad=True), r(3))]


@case(grad=True)
def sparse_here_and_there():
    def f(s, d):
        a = torch.sparse.mm(s, d)
        b = d.relu().to_sparse().to_dense() * 2
        return a, b, (s * 2).to_dense(), torch.sparse.sum(s, 0).to_dense()

    return f, [
        (r(4, 4).relu().to_sparse(), r(4, 3, grad=True)),
        (r(4, 4).relu().to_sparse_csr(), r(4, 3)),
    ]


@case(grad=False)
def quantised():
    def f(x):
        q = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
        return (
            q.dequantize(),
            q.int_repr().sum(),
            torch.fake_quantize_per_channel_affine(
                x, torch.full((4,), 0.05), torch.zeros(4, dtype=torch.int32), 0, -8, 7
            ),
        )

    return f, [(r(4, 4),)]


@case(grad=False)
def quantised_in_and_out():
    def f(q):
        return q.dequantize() + 1, q

    return f, [(torch.quantize_per_tensor(r(4), 0.1, 3, torch.qint8),)]


@case(grad=False, dynamic=True)
def products_of_all_shapes():
    def f(a, v, e):
        nan = torch.full((3, 3), math.nan)
        return (
            torch.addmm(nan, a, a.t(), beta=0),
            torch.baddbmm(
                torch.ones(2, 3, 3), a.expand(2, 3, 4), a.t().expand(2, 4, 3), beta=0.5, alpha=2
            ),
            v @ v,
            a @ v,
            torch.einsum("ij,kj,j->ik", a, a, v),
            torch.einsum("...i,...i", a, v),
            torch.bmm(e, e.mT),
            torch._int_mm((a * 9).to(torch.int8).repeat(8, 4), torch.ones(16, 8, dtype=torch.int8)),
            (a * 5).long() @ (v * 5).long(),
            torch.outer(v, v).trace(),
            torch.kron(a, a[:1]),
            torch.tensordot(a, a, ([0], [0])),
            a.half() @ a.half().t(),
            torch.cdist(a, a),
            torch.addr(torch.zeros(4, 4), v, v, beta=3),
        )

    return f, [(r(3, 4), r(4), r(0, 2, 3))]


@case(grad=False, export=True)
def tiny_numbers():
    def f(x):
        return (
            x * 1e-40,
            (x * 1e-40) * 1e20,
            (x * 1e5).half(),
            x.to(torch.bfloat16).sum(),
            x.double().mul(1e-310),
            torch.sqrt(x * 1e-44),
            x.half() / 3e4,
        )

    return f, [(r(17),)]


@case(grad=False, dynamic=True)
def lists_by_foreach():
    def f(xs, ys):
        torch._foreach_add_(xs, ys, alpha=2)
        torch._foreach_mul_(xs, 0.5)
        n = torch._foreach_norm(ys)
        torch._foreach_copy_(ys, [x.clone() for x in xs])
        return (
            torch._foreach_addcdiv(xs, ys, [y.abs() + 1 for y in ys], 3.0),
            n,
            torch._foreach_maximum(xs, ys),
        )

    shapes = [(3,), (), (0,), (2, 2), (40,)]
    return f, [([r(*s) for s in shapes], [r(*s) for s in shapes])]


@case(grad=False)
def three_hundred_inputs():
    def f(xs):
        return sum(xs), [x * k for k, x in enumerate(xs)][::50], torch.stack(xs).amax(0)

    return f, [([r(3) for _ in range(300)],)]


@case(grad=False)
def no_tensors_at_all():
    def f(n, s="a"):
        return (
            torch.ones(n),
            n * 2,
            s * n,
            torch.arange(0.0, 1.0, 0.1),
            torch.linspace(3, -3, n),
            None,
            torch.eye(2).tril_(-1),
        )

    return f, [(3,), (4, "bc"), (1, ""), (0,)]


@case(dynamic=True, grad=True)
def everything_twice():
    def f(x, y):
        z = x * y
        w = z.view(-1)
        return x, x, y, z, z, w, [x, (w, {"k": z})], z.t(), w[2:], z.detach(), z + 0

    return f, [(r(3, 3, grad=True), r(3, 3))]


@case(dynamic=True, grad=False)
def numbers_that_change():
    def f(x, n, s, b):
        y = x[: max(n, 0)] * s
        if b:
            y = y + n
        return (
            y,
            n + 1,
            s * 2,
            x.shape,
            x.numel() // 3,
            math.sqrt(x.numel()) * y,
            torch.full((3,), s),
            x.size(0) * 1.5,
        )

    x = r(8)
    return f, [
        (x, 3, 0.5, True),
        (x, 4, math.nan, False),
        (x, 0, math.inf, True),
        (x, 1, -0.0, False),
        (x[:5], -1, 1e-320, True),
        (x, 2**40, 0.5, True),
    ]


@case(dynamic=True, grad=True)
def sizes_one_and_zero():
    def f(x, y):
        z = x + y
        return (
            z.softmax(-1),
            z.mean(),
            z.view(-1, 2).sum(0),
            torch.cat([z, z]).std(0),
            z.sum(1, keepdim=True) * x,
        )

    return f, [
        (r(*s, grad=True), r(*q))
        for s, q in [
            ((5, 4), (5, 4)),
            ((1, 4), (1, 4)),
            ((0, 4), (0, 4)),
            ((3, 6), (1, 6)),
            ((7, 2), (7, 1)),
            ((2, 2), (2,)),
        ]
    ]


@case(grad=False)
def attention_with_nothing_to_see():
    def f(q, k, v, m):
        return (
            F.scaled_dot_product_attention(q, k, v, attn_mask=m),
            F.scaled_dot_product_attention(q, k, v, is_causal=True),
            F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], enable_gqa=True, scale=0.3),
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.5),
        )

    m = torch.ones(5, 5, dtype=torch.bool)
    m[2] = False
    return f, [(r(2, 4, 5, 8), r(2, 4, 5, 8), r(2, 4, 5, 8), m)]


@case(grad=True)
def every_loss_there_is():
    def f(x, y, c):
        return (
            F.cross_entropy(x, c, label_smoothing=0.1, ignore_index=2),
            F.cross_entropy(x, y.softmax(1), reduction="none"),
            F.binary_cross_entropy_with_logits(
                x, y.sigmoid(), pos_weight=torch.tensor([3.0, 1, 1, 1])
            ),
            F.huber_loss(x, y, delta=0.3),
            F.kl_div(x.log_softmax(1), y.log_softmax(1), log_target=True, reduction="batchmean"),
            F.triplet_margin_loss(x, y, x.flip(0)),
            F.cosine_embedding_loss(x, y, torch.tensor([1, -1, 1])),
            F.multilabel_margin_loss(
                x, torch.tensor([[1, -1, 0, 0], [2, 3, -1, 0], [-1, 0, 0, 0]])
            ),
            F.nll_loss(x.log_softmax(1), torch.full((3,), -100)),
            F.gaussian_nll_loss(x, y, y.abs() + 0.1),
        )

    return f, [(r(3, 4, grad=True), r(3, 4, grad=True), torch.tensor([0, 2, 3]))]


@case(dynamic=True, grad=True)
def special_functions():
    def f(x):
        p = x.abs() + 0.1
        return (
            torch.special.digamma(p),
            torch.lgamma(p),
            torch.special.i0e(x),
            torch.erfinv(x.tanh() * 0.9),
            torch.special.xlog1py(x, p),
            torch.special.zeta(p + 1, p).detach(),
            torch.polygamma(2, p),
            torch.special.bessel_j1(x.detach()),
            torch.igamma(p.detach(), p),
            torch.sinc(x),
            torch.special.ndtri(x.sigmoid()),
            torch.frexp(x.detach()),
            torch.ldexp(x, torch.tensor([1, -3, 200, 4, 5])),
            torch.special.log_ndtr(x),
            torch.mvlgamma(p + 3, 3),
            torch.heaviside(x.detach(), torch.tensor(0.5)),
            x.float_power(3),
        )

    return f, [(r(5, grad=True),)]


@script
def seven_dimensions(compile):
    @compile
    def f(x):
        y = x.permute(6, 0, 2, 4, 1, 3, 5)
        return (
            y.contiguous().sum((0, 3)),
            y.reshape(-1)[::5],
            y.amax(),
            x.transpose(0, 6).softmax(3),
        )

    return [
        observe(f, r(2, 1, 3, 2, 1, 2, 3)),
        observe(f, r(1, 1, 1, 1, 1, 1, 1)),
        observe(f, r(2, 3, 0, 2, 1, 2, 3)),
    ]
