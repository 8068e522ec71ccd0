"""Scripts as people write them; nothing in them is changed for us but the backend's name.

Each takes the backend that torch.compile is given, and a folder of its own; returned are tensors
that say all that it did: losses, weights, results. Where a script exports, ours is asked for by an
installation around it, and the script itself stays as it is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _values(module: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in module.state_dict().values()]


class _Net(nn.Module):
    """Convolutions with batch norm, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.first(x)))
        found: Tensor = self.head(functional.relu(self.second(x)).mean((2, 3)))
        return found


def training_loop(backend: str, _: Path) -> list[Tensor]:
    """Autocast, accumulated gradients, clipping, a scheduler, validation in between."""
    model = _Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=4)
    compiled: Any = torch.compile(model, backend=backend)
    found = []
    for epoch in range(2):
        compiled.train()
        for step in range(4):
            x, y = torch.randn(6, 3, 16, 16), torch.randint(0, 5, (6,))
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.cross_entropy(compiled(x), y) / 2
            loss.backward()
            if step % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
            found.append(loss.detach())
        compiled.eval()
        with torch.no_grad():
            found.append(compiled(torch.ones(3 + epoch, 3, 16, 16)))
    return [*found, *_values(model)]


def generation(backend: str, _: Path) -> list[Tensor]:
    """A language model of transformers, decoding with a static cache."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 97}
    config = LlamaConfig(**sizes, num_hidden_layers=2, num_attention_heads=4)
    config.num_key_value_heads, config.pad_token_id = 2, 0
    model = LlamaForCausalLM(config).eval()
    model.generation_config.cache_implementation = "static"
    model.generation_config.disable_compile = True  # it would compile by itself, with Inductor
    model.forward = torch.compile(model.forward, backend=backend, dynamic=False)
    prompt = torch.randint(1, 97, (2, 5))
    kept = {"max_new_tokens": 6, "do_sample": False, "return_dict_in_generate": True}
    made = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), output_logits=True, **kept
    )
    return [made.sequences, *made.logits]


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(functional.layer_norm(x, x.shape[-1:])).chunk(3, -1)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v))
        found: Tensor = x + self.down(functional.gelu(self.up(x)))
        return found


class _Piece(nn.Module):
    """A piece of a graph, compiled by itself when it is first run."""

    def __init__(self, part: torch.fx.GraphModule) -> None:
        super().__init__()
        (output,) = part.graph.find_nodes(op="output")
        self._is_alone = not isinstance(output.args[0], tuple)
        if self._is_alone:
            output.args = ((output.args[0],),)
            part.recompile()
        self._part, self._made = part, None

    def forward(self, *args: Any) -> Any:
        if self._made is None:
            self._made = torch._inductor.standalone_compile(
                self._part, list(args), dynamic_shapes="from_graph"
            )
        found = self._made(*args)
        return found[0] if self._is_alone else found


def piecewise(_: str, __: Path) -> list[Tensor]:
    """An engine's way of serving: a graph cut at attention, its pieces compiled one by one."""
    from torch.fx.passes.split_module import split_module

    attention = functional.scaled_dot_product_attention

    def cut(gm: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        numbers, number = {}, 0
        for node in gm.graph.nodes:
            number += node.target is attention
            numbers[node] = number
            number += node.target is attention
        parts = split_module(gm, None, numbers.__getitem__, keep_original_order=True)
        for name, part in [*parts.named_children()]:
            if not part.graph.find_nodes(op="call_function", target=attention):
                setattr(parts, name, _Piece(part))
        return parts

    served = torch.compile(nn.Sequential(_Layer(), _Layer()), backend=cut, fullgraph=True)
    with torch.no_grad():
        x = torch.randn(2, 7, 16)
        torch._dynamo.mark_dynamic(x, 1)
        return [served(x), *(served(torch.randn(2, length, 16)) for length in (5, 12))]


def exporting(_: str, folder: Path) -> list[Tensor]:
    """A package with dynamic sizes, loaded again and called at several."""
    rows, length = torch.export.Dim("rows", max=64), torch.export.Dim("length", min=2, max=128)
    shapes = ({0: rows, 1: length},)
    exported = torch.export.export(_Layer(), (torch.randn(3, 9, 16),), dynamic_shapes=shapes)
    file = str(folder / "layer.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=file)
    loaded = torch._inductor.aoti_load_package(file)
    return [loaded(torch.randn(*size, 16)) for size in ((3, 9), (1, 2), (8, 100))]


def serving(_: str, folder: Path) -> list[Tensor]:
    """A package that several threads call at once."""
    model, x = _Net().eval(), torch.randn(2, 3, 16, 16)
    shapes = ({0: torch.export.Dim("batch", max=16)},)
    exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
    file = str(folder / "net.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=file)
    loaded = torch._inductor.aoti_load_package(file, num_runners=2)
    batches = [torch.randn(1 + n, 3, 16, 16) for n in range(6)]
    found: list[Tensor] = [torch.empty(0)] * len(batches)

    def work(first: int) -> None:
        for n in range(first, len(batches), 3):
            found[n] = loaded(batches[n])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class _Task(nn.Module):
    """A module as trainers have it: its step is a method, and hooks look in."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.net, self.seen = _Net(), list[Tensor]()
        self.net.head.register_forward_hook(lambda _, __, out: out * 2)
        self.net.register_full_backward_hook(lambda _, __, given: self.seen.append(given[0].sum()))
        self.training_step = torch.compile(self._step, backend=backend)

    def _step(self, batch: tuple[Tensor, Tensor], number: int) -> dict[str, Tensor]:
        x, y = batch
        scores = self.net(x)
        loss = functional.cross_entropy(scores, y) * (1 + number % 2)
        return {"loss": loss, "right": (scores.argmax(-1) == y).float().mean()}


def hooks(backend: str, _: Path) -> list[Tensor]:
    """A trainer that calls a compiled step and hooks of modules, parameters and the optimizer."""
    task = _Task(backend)
    optimizer = torch.optim.SGD(task.parameters(), lr=0.1, momentum=0.9)
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(torch.tensor(len(steps))))
    for parameter in task.net.head.parameters():
        parameter.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
    found = []
    for number in range(4):
        batch = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
        told = task.training_step(batch, number)
        optimizer.zero_grad()
        told["loss"].backward()
        optimizer.step()
        found += [told["loss"].detach(), told["right"]]
    return [*found, *steps, *task.seen, *_values(task)]


def data_parallel(backend: str, folder: Path) -> list[Tensor]:
    """DistributedDataParallel, one process of one."""
    from torch import distributed

    store = distributed.FileStore(str(folder / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(_Net())
        compiled = torch.compile(model, backend=backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            loss = compiled(torch.randn(4, 3, 16, 16)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [*losses, *_values(model)]
    finally:
        distributed.destroy_process_group()


class _Int8(nn.Module):
    """A linear layer with weights of 8 bits and a scale for each row, as quantisers write them."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        scale = layer.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (layer.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.squeeze(1))
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        by = x.abs().amax(-1, keepdim=True).clamp_min(1e-5) / 127
        rounded = (x / by).round().to(torch.int8).flatten(0, -2)
        product = torch._int_mm(rounded, self.weight.t()).unflatten(0, x.shape[:-1])
        found: Tensor = product * by * self.scale + self.bias
        return found


def quantised(backend: str, _: Path) -> list[Tensor]:
    """A model whose linear layers were replaced by ones of 8 bits; torchao's where it is there."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 16)).eval()
    try:
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
    except ImportError:
        model = nn.Sequential(_Int8(model[0]), nn.GELU(), _Int8(model[2]))
    else:
        quantize_(model, Int8DynamicActivationInt8WeightConfig())
    compiled = torch.compile(model, backend=backend, mode="max-autotune-no-cudagraphs")
    with torch.no_grad():
        return [compiled(torch.randn(rows, 24, 32)) for rows in (2, 3)]


class _Lora(nn.Module):
    """A linear layer beside which adapters may be switched on."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base, self.active = base, ""
        sizes = (rank, base.in_features), (base.out_features, rank)
        for side, size in zip("ab", sizes, strict=True):
            made = {name: nn.Parameter(torch.randn(size) * 0.1) for name in ("red", "blue")}
            setattr(self, side, nn.ParameterDict(made))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.base(x)
        if self.active:
            found = found + x @ self.a[self.active].t() @ self.b[self.active].t()
        return found


def adapters(backend: str, _: Path) -> list[Tensor]:
    """LoRA: adapters are switched, trained, and merged into the weights."""
    model = nn.Sequential(_Lora(nn.Linear(16, 32)), nn.ReLU(), _Lora(nn.Linear(32, 8)))
    compiled, x = torch.compile(model, backend=backend), torch.randn(5, 16)
    layers: list[_Lora] = [model[0], model[2]]
    found = []
    for active in ("", "red", "blue", "red"):
        for layer in layers:
            layer.active = active
            layer.base.requires_grad_(requires_grad=False)
        found.append(compiled(x))
    functional.mse_loss(found[-1], torch.zeros_like(found[-1])).backward()
    with torch.no_grad():
        for layer in layers:
            for parameter in (layer.a["red"], layer.b["red"]):
                assert parameter.grad is not None
                parameter -= parameter.grad
            layer.base.weight += layer.b["red"] @ layer.a["red"]
            layer.active = ""
        found.append(compiled(x))
    return [*(each.detach() for each in found), *_values(model)]


def checkpoints(backend: str, folder: Path) -> list[Tensor]:
    """Activations are computed again in the backward; the run is saved and goes on elsewhere."""
    from torch.utils.checkpoint import checkpoint

    def steps(model: nn.Module, optimizer: Any, count: int) -> Iterator[Tensor]:
        @torch.compile(backend=backend)
        def run(x: Tensor) -> Tensor:
            for layer in model.children():
                x = checkpoint(layer, x, use_reentrant=False)
                x = functional.dropout(x, 0.1)
            return x.square().mean()

        for _ in range(count):
            loss = run(torch.randn(2, 6, 16))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.detach()

    model = nn.Sequential(_Layer(), _Layer())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    found = [*steps(model, optimizer, 2)]
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "c.pt")
    again = nn.Sequential(_Layer(), _Layer())
    restored = torch.optim.Adam(again.parameters(), lr=1e-2)
    saved = torch.load(folder / "c.pt")
    again.load_state_dict(saved["model"])
    restored.load_state_dict(saved["optimizer"])
    return [*found, *steps(again, restored, 2), *_values(again)]


class _Denoiser(nn.Module):
    """Predicts noise in pictures at a time, told what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.wanted = nn.Linear(8, 16), nn.Embedding(4, 16)
        self.enter, self.leave = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 3, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x: Tensor, at: Tensor, wanted: Tensor) -> Tensor:
        angles = at[:, None] * torch.arange(1, 5)
        told = self.time(torch.cat((angles.sin(), angles.cos()), 1)) + self.wanted(wanted)
        x = functional.silu(self.norm(self.enter(x)) + told[:, :, None, None])
        found: Tensor = self.leave(
            functional.interpolate(functional.avg_pool2d(x, 2), scale_factor=2)
        )
        return found


def diffusion(backend: str, _: Path) -> list[Tensor]:
    """Sampling with guidance: two predictions a step, the weights an average over training."""
    model = _Denoiser()
    average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda a, b, _: 0.9 * a + 0.1 * b)
    average.update_parameters(model)
    average.requires_grad_(requires_grad=False)
    predict = torch.compile(average, backend=backend, fullgraph=True)
    x, wanted = torch.randn(2, 3, 8, 8), torch.tensor([1, 3])
    with torch.inference_mode():
        for step in range(5, 0, -1):
            at = torch.full((4,), step / 5)
            twice = torch.cat((x, x)), at, torch.cat((wanted, torch.zeros_like(wanted)))
            told, plain = predict(*twice).chunk(2)
            noise = plain + 3.0 * (told - plain)
            x = x - noise * 0.2 + (0.05 * torch.randn_like(x) if step > 1 else 0)
    return [x]


class _Recommender(nn.Module):
    """Bags of categories and numbers, whose products with each other are scored."""

    def __init__(self) -> None:
        super().__init__()
        made = [nn.EmbeddingBag(count, 8, mode="sum", sparse=True) for count in (50, 20, 7)]
        self.bags = nn.ModuleList(made)
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers: Tensor, ids: list[Tensor], offsets: list[Tensor]) -> Tensor:
        dense = self.bottom(numbers)
        rows = [bag(i, o) for bag, i, o in zip(self.bags, ids, offsets, strict=True)]
        stack = torch.stack([dense, *rows], 1)
        products = torch.bmm(stack, stack.mT)
        left, right = torch.tril_indices(4, 4, -1)
        found: Tensor = self.top(torch.cat((dense, products[:, left, right]), 1)).squeeze(1)
        return found


def recommender(backend: str, _: Path) -> list[Tensor]:
    """A DLRM: sparse gradients of embeddings, with an optimizer of their own."""
    model = _Recommender()
    sparse = torch.optim.SparseAdam([*model.bags.parameters()], lr=0.01)
    dense = torch.optim.Adagrad([*model.bottom.parameters(), *model.top.parameters()], lr=0.01)
    compiled = torch.compile(model, backend=backend, dynamic=True)
    losses = []
    for _ in range(3):
        sizes = [torch.randint(1, 4, (6,)) for _ in model.bags]
        counts = (50, 20, 7)
        ids = [torch.randint(0, n, (int(s.sum()),)) for n, s in zip(counts, sizes, strict=True)]
        offsets = [s.cumsum(0) - s for s in sizes]
        clicks = torch.randint(0, 2, (6,)).float()
        loss = functional.binary_cross_entropy_with_logits(
            compiled(torch.randn(6, 4), ids, offsets), clicks
        )
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
        losses.append(loss.detach())
    return [*losses, *_values(model)]


SCRIPTS: Final = {
    each.__name__: each
    for each in (
        training_loop,
        generation,
        piecewise,
        exporting,
        serving,
        hooks,
        data_parallel,
        quantised,
        adapters,
        checkpoints,
        diffusion,
        recommender,
    )
}
