"""Report the memory that training steps of realistic sizes hold at their peaks, and why.

    python -m benchmarks.step_peaks              # about three minutes
    python -m benchmarks.step_peaks gpt2 --json
    python -m benchmarks.step_peaks --budget 0.5 # AOTAutograd recomputes some activations

The peaks of forward and backward are reported apart. Tensors are fake and on the CPU: steps are
traced, scheduled and planned, but nothing runs. Which kernels are fused differs from GPUs; which
tensors a forward saves does not. Weights and other inputs that the caller keeps are not counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch._functorch.config as functorch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.nn import functional

import wrapper_ir as wir
from benchmarks.common import machine, show
from tests.frontends.no_gpu import CompiledError, stopped
from wrapper_ir.backend import wrapper_ir as backend
from wrapper_ir.planning import Holding, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = tuple[nn.Module, Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]


def fake(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Give a model fake weights of a dtype, for training."""
    for part in model.modules():
        for weights, wrap in ((part._parameters, nn.Parameter), (part._buffers, lambda x: x)):
            for name, value in weights.items():
                if value is not None:
                    kind = dtype if value.is_floating_point() else value.dtype
                    weights[name] = wrap(torch.empty(value.shape, dtype=kind))
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model.train()


def real(make: Callable[[], nn.Module]) -> nn.Module:
    """Build a model whose constructor reads tensor values."""
    with unset_fake_temporarily():
        return make()


def ids(most: int, *size: int) -> torch.Tensor:
    return torch.randint(0, most, size)


def gpt2() -> Step:
    """Return a step of 4 layers of 1,024, 4 sequences of 512 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=1024, n_layer=4, n_head=16, n_positions=1024, use_cache=False)
    model = fake(real(lambda: GPT2LMHeadModel(config)), torch.bfloat16)
    return model, lambda x: model(input_ids=x, labels=x).loss, (ids(50257, 4, 512),)


def t5() -> Step:
    """Return a step of 4 and 4 layers of 768, 16 sequences of 512 and 128 tokens."""
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 768, "d_ff": 3072, "num_layers": 4, "num_decoder_layers": 4}
    config = T5Config(  # type: ignore[call-arg]
        **sizes,
        num_heads=12,
        dropout_rate=0.0,
        use_cache=False,
        decoder_start_token_id=0,
        pad_token_id=0,
    )
    model = fake(real(lambda: T5ForConditionalGeneration(config)), torch.bfloat16)
    inputs = (ids(32000, 16, 512), ids(32000, 16, 128))
    return model, lambda x, y: model(input_ids=x, labels=y).loss, inputs


def vit() -> Step:
    """Return a step of 6 layers of 1,024, 64 images, autocast."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 6}
    config = ViTConfig(**sizes, num_attention_heads=16, num_labels=1000)  # type: ignore[call-arg]
    model = fake(real(lambda: ViTForImageClassification(config)), torch.float32)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(pixel_values=x, labels=y).loss

    return model, loss, (torch.empty(64, 3, 224, 224), ids(1000, 64))


def norms() -> Step:
    """Return a step of batch norms around a convolution, 64 by 64 by 112 by 112."""
    conv = nn.Conv2d(64, 64, 3, padding=1)
    model = nn.Sequential(nn.BatchNorm2d(64), nn.ReLU(), conv, nn.BatchNorm2d(64))
    fake(model, torch.float32)
    return model, lambda x: model(x).square().mean(), (torch.empty(64, 64, 112, 112),)


def entropy() -> Step:
    """Return the cross entropy of 4,096 tokens over 128,256 words."""
    model = fake(nn.Linear(2048, 128256, bias=False), torch.bfloat16)
    inputs = (torch.empty(4096, 2048, dtype=torch.bfloat16), ids(128256, 4096))
    return model, lambda x, y: functional.cross_entropy(model(x).float(), y), inputs


class Experts(nn.Module):
    """A mixture of experts that computes every expert and uses two."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(1024, 8)
        self.up = nn.Parameter(torch.empty(8, 1024, 2048))
        self.down = nn.Parameter(torch.empty(8, 2048, 1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).float().softmax(-1).topk(2, -1)
        hidden = functional.silu(torch.einsum("td,edf->tef", x, self.up))
        found = torch.einsum("tef,efd->ted", hidden, self.down)
        picked = found.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        return (picked * weights[..., None].to(x.dtype)).sum(1)


def experts() -> Step:
    """Return a step of 8 experts, 4,096 tokens."""
    model = fake(Experts(), torch.bfloat16)
    inputs = (torch.empty(4096, 1024, dtype=torch.bfloat16),)
    return model, lambda x: model(x).float().square().mean(), inputs


STEPS: dict[str, Callable[[], Step]] = {
    each.__name__: each for each in (gpt2, t5, vit, norms, entropy, experts)
}


def programs(name: str) -> list[wir.Program]:
    """Return a step's forward and backward programs, unplanned."""

    def compiled(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> NoReturn:
        backend(module, inputs)
        raise CompiledError

    torch._dynamo.reset()
    with FakeTensorMode(allow_non_fake_inputs=True), wir.record() as found:
        _, loss, inputs = STEPS[name]()
        stopped(lambda: torch.compile(loss, backend=compiled)(*inputs))
    return list(found)


def record(name: str, program: wir.Program) -> dict[str, Any]:
    """Return the figures of one program."""
    report = plan(program).report
    held: Counter[str] = Counter()
    for each in report.at_peak:
        held[each.why.name] += each.nbytes
    return {
        "step": name,
        "role": program.role.value,
        "peak": report.peak_bytes,
        "bound": report.lower_bound_bytes,
        "held": dict(held),
    }


def row(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one record."""
    held, peak = found["held"], found["peak"]
    given, results = (held.get(each.name, 0) for each in (Holding.DONATED, Holding.RESULT))
    parts = (given, results, peak - given - results)
    return (
        f"{found['step']}, {found['role']}",
        f"{peak / 2**30:.2f}",
        f"{peak / found['bound']:.3f}",
        *(f"{part / peak:.0%}" for part in parts),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}")
    parser.add_argument("--budget", type=float, default=1.0, help="activation_memory_budget")
    parser.add_argument("--json", action="store_true", help="print the record")
    options = parser.parse_args()
    if unknown := {*options.steps} - {*STEPS}:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    settings = {
        "force_non_lazy_backward_lowering": True,
        "activation_memory_budget": options.budget,
    }
    with functorch.patch(settings):
        found = [record(n, each) for n in options.steps or STEPS for each in programs(n)]
    columns = ("", "GiB", "of the bound", "given up", "results", "intermediates")
    title = f"At the peaks of training steps, budget {options.budget:g}"
    data = {"machine": machine(), "found": found}
    show(title, columns, [row(each) for each in found], data, options.json)


if __name__ == "__main__":
    main()
