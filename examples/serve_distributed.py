"""Serve the decoder on several ranks: tensor parallelism, packages made by one process.

    python examples/serve_distributed.py --build 2
    torchrun --standalone --nproc-per-node 2 examples/serve_distributed.py

The first command splits each layer, as training does, and writes a package for each rank: the
decoder for a prompt of any length, and for one more token of any number of requests. It needs no
other process. The second one serves prompts with them, and then with new weights, which each rank
takes from a model's ``state_dict``. Tokens have to be those of the split model, run eagerly on the
same ranks; with ``--against inductor`` scores as well, to the last bit of ``torch.compile``.

Where there are GPUs, packages are for them and ranks meet over NCCL; otherwise over gloo.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the usual name
from decoder import Attention, Config, Decoder, rotate
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from train_distributed import PLAN

import wrapper_ir as wir
from wrapper_ir.passes import run_passes

#: Small, and a pair of heads on each rank.
CONFIG = Config(layers=2, width=128, hidden=352, vocabulary=512, context=64)

#: Keys and values of a layer: (requests, heads of this rank, context, width of a head).
Cache = list[tuple[Tensor, Tensor]]

#: Returns scores of the next token: of the model, or of a package.
Step = Callable[[Tensor, Tensor, Cache], Tensor]


class Server(nn.Module):
    """The decoder, which keeps keys and values of what it has read in a cache."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor, start: Tensor, cache: Cache) -> Tensor:
        """Return the scores of each request's next token, and write to the cache.

        Args:
            tokens: What is new, of shape (requests, time).
            start: How many tokens of each request the cache has already.
            cache: Keys and values of each layer.
        """
        places = start[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        x = self.decoder.embedding(tokens)
        for block, of_layer in zip(self.decoder.blocks, cache, strict=True):
            x = x + self._attend(block.attention, block.attention_norm(x), places, of_layer)
            normed = block.hidden_norm(x)
            x = x + block.down(F.silu(block.gate(normed)) * block.up(normed))
        scores: Tensor = self.decoder.head(self.decoder.norm(x[:, -1]))
        return scores

    def _attend(
        self, attention: Attention, x: Tensor, places: Tensor, cache: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Attend to all that the cache has up to each place."""
        layers = attention.query, attention.key, attention.value
        query, key, value = (
            each(x).unflatten(-1, (-1, attention.head_width)).transpose(1, 2) for each in layers
        )
        cos, sin = (each[places][:, None] for each in (self.decoder.cos, self.decoder.sin))
        requests = torch.arange(x.shape[0], device=x.device)[:, None]
        for kept, new in zip(cache, (rotate(key, cos, sin), value), strict=True):
            kept[requests, :, places] = new.transpose(1, 2)
        group = attention.heads // attention.key_heads
        attended = F.scaled_dot_product_attention(
            rotate(query, cos, sin),
            *(kept.repeat_interleave(group, dim=1) for kept in cache),
            attn_mask=torch.arange(cache[0].shape[2], device=x.device) <= places[:, None, :, None],
        )
        out: Tensor = attention.out(attended.transpose(1, 2).flatten(2))
        return out


def split(seed: int, device: str) -> Server:
    """Return this rank's part of a model with random weights, the same on all ranks."""
    torch.manual_seed(seed)
    server = Server(Decoder(CONFIG)).eval().to(device)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    for block in server.decoder.blocks:
        # All ranks have the weights: none has to send them.
        parallelize_module(block, mesh, PLAN, src_data_rank=None)
    return server


def empty(requests: int, ranks: int, device: str) -> Cache:
    """Return a cache for some requests: this rank's heads."""
    width = CONFIG.width // CONFIG.heads
    size = requests, CONFIG.key_heads // ranks, CONFIG.context, width
    return [
        (torch.zeros(size, device=device), torch.zeros(size, device=device))
        for _ in range(CONFIG.layers)
    ]


def build(path: str, ranks: int, device: str) -> None:
    """Write a package for each rank, and prove before that they fit together."""
    requests = torch.export.Dim("requests", min=1, max=1024)
    layers = [({0: requests}, {0: requests})] * CONFIG.layers
    one_more = {"tokens": {0: requests}, "start": {0: requests}, "cache": layers}
    time = torch.export.Dim("time", min=1, max=CONFIG.context)
    prompt = {"tokens": {1: time}, "start": None, "cache": [(None, None)] * CONFIG.layers}
    programs: dict[str, list[wir.Program]] = {"prefill": [], "decode": []}
    for rank in range(ranks):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
        server = split(0, device)
        for name, size, sizes in ("prefill", (1, 8), prompt), ("decode", (3, 1), one_more):
            tokens = torch.zeros(size, dtype=torch.int64, device=device)
            args = tokens, tokens[:, 0], empty(size[0], ranks, device)
            with torch.no_grad():
                program = wir.capture(server, args, dynamic_shapes=sizes)
            # A rank loads it on the GPU that is its own.
            programs[name].append(run_passes(program, ["current-device"]))
        dist.destroy_process_group()
    for of_ranks in programs.values():
        wir.verify_ranks(of_ranks).check()
    for rank in range(ranks):
        file = package(path, rank, ranks)
        print(wir.export({name: of_ranks[rank] for name, of_ranks in programs.items()}, file))


def package(path: str, rank: int, ranks: int) -> Path:
    """Return the path of a rank's package."""
    return Path(f"{path}.{rank}-of-{ranks}.pt2")


def serve(
    prefill: Step, decode: Step, prompts: list[list[int]], device: str
) -> tuple[Tensor, Tensor]:
    """Return the next tokens of prompts until one has no room, (tokens, requests), and scores."""
    cache = empty(len(prompts), dist.get_world_size(), device)
    first = []
    for row, prompt in enumerate(prompts):
        own = [(keys[row : row + 1], values[row : row + 1]) for keys, values in cache]
        tokens = torch.tensor([prompt], device=device)
        first.append(prefill(tokens, torch.zeros_like(tokens[:, 0]), own))
    scores = [torch.cat(first)]
    start = torch.tensor([len(prompt) for prompt in prompts], device=device)
    for _ in range(CONFIG.context - max(map(len, prompts))):
        scores.append(decode(scores[-1].argmax(-1, keepdim=True), start, cache))
        start = start + 1
    found = torch.stack(scores)
    return found.argmax(-1), found


def run(path: str, device: str, against: str) -> None:
    """Serve on all ranks, first with the weights of the packages and then with others."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    two, four = [[3, 1, 4], [1, 5, 9, 2, 6, 5]], [[2, 7, 1, 8], [2], [8, 1], [8, 2, 8, 4, 5, 9, 0]]
    for seed, whose in enumerate(("own weights", "new weights")):
        model = split(seed, device)
        weights = model.state_dict() if seed else None
        file = package(path, rank, ranks)
        prefill = wir.load_package(file, "prefill", weights=weights)
        decode = wir.load_package(file, "decode", weights=weights)
        other = model if against == "eager" else torch.compile(model, dynamic=True, backend=against)
        for prompts in two, four, two:
            tokens, scores = serve(prefill, decode, prompts, device)
            wanted, others = serve(other, other, prompts, device)
            assert torch.equal(tokens, wanted), (tokens, wanted)
            assert against == "eager" or torch.equal(scores, others)
            if not rank:
                last = " ".join(str(int(each)) for each in tokens[-1])
                print(f"{whose}: {tokens.numel()} tokens as by {against}, the last ones {last}")


def main() -> None:
    """Write packages, or serve as one of the ranks."""
    parser = argparse.ArgumentParser(description="Serve the decoder on several ranks.")
    parser.add_argument("--build", type=int, metavar="RANKS", help="write packages for RANKS ranks")
    parser.add_argument("--path", default="decoder", help="where they are: PATH.0-of-2.pt2, ...")
    parser.add_argument("--against", default="eager", help="a backend of torch.compile, or eager")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if given.build is not None:
        if given.build < 1 or CONFIG.key_heads % given.build:
            parser.error(f"{CONFIG.key_heads} key heads cannot be split among {given.build} ranks")
        build(given.path, given.build, device)
        return
    if not dist.is_torchelastic_launched():
        parser.error("start the ranks with torchrun, or write their packages with --build RANKS")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if not (file := package(given.path, rank, ranks)).exists():
        parser.error(f"there is no {file}: write packages for {ranks} ranks with --build {ranks}")
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    with torch.no_grad():
        run(given.path, device, given.against)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
