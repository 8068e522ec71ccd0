"""What can change between calls, and how a call is compared with eager's."""

from __future__ import annotations

import contextlib
import copy
import random
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.changes.models import MODELS, WIDTH, Layers

if TYPE_CHECKING:
    from collections.abc import Iterator


class Verdict(NamedTuple):
    """What came out of a call: ``same``, ``refused`` (by an error) or ``different``."""

    kind: str
    text: str


@dataclass(frozen=True)
class Setting:
    """How a call is made. Each field is changed on its own."""

    rows: int = 4
    dtype: torch.dtype = torch.float32
    layout: str = "plain"
    shared: str = "apart"
    x_grad: bool = False
    mode: str = "grad"
    autocast: bool = False
    training: bool = True
    frozen: bool = False
    scale: float = 2.0
    steps: tuple[float, ...] = (1.0, 2.0)
    number: float = 1.0
    keyword: bool = False
    hooks: str = "none"
    backward: str = "sum"
    deterministic: bool = False
    stance: str = "default"
    around: str = "none"


CHOICES: dict[str, tuple[Any, ...]] = {
    "rows": (0, 1, 2, 3, 4, 5, 8),
    "dtype": (torch.float32, torch.float64, torch.bfloat16),
    "layout": ("plain", "turned", "strided", "offset", "expanded", "negated"),
    "shared": ("apart", "same", "overlapping", "y_in_x"),
    "x_grad": (False, True),
    "mode": ("grad", "no_grad", "inference"),
    "autocast": (False, True),
    "training": (False, True),
    "frozen": (False, True),
    "scale": (2.0, 3.0, 0.5),
    "steps": ((1.0, 2.0), (2.0,), (1.0, 2.0, 3.0)),
    "number": (1.0, 2.0, 0.25),
    "keyword": (False, True),
    "hooks": ("none", "module", "result", "saved"),
    "backward": ("none", "sum", "turned", "twice"),
    "deterministic": (False, True),
    "stance": ("default", "force_eager"),
    "around": ("none", "vjp"),
}

#: What happens to parameters and buffers between two calls.
EVENTS = ("nothing", "in_place", "data", "replaced", "buffer", "cleared", "step")


@dataclass
class Trial:
    """One model in two copies: compiled by us, and eager."""

    name: str
    source: random.Random
    emitter: str
    door: str = "compile"
    device: str = "cpu"
    cuda_graph: bool = False
    setting: Setting = Setting()

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.eager = Layers(MODELS[self.name]).to(self.device)
        self.model = copy.deepcopy(self.eager)
        self.compiled: Any = None
        captured = {"cuda_graph": True} if self.cuda_graph else {}
        if self.door == "jit":
            self.compiled = wir.jit(self.model, target=self.emitter, max_programs=1000, **captured)
            return
        options = {"emitter": self.emitter, "build": "wait", **captured}
        self.compiled = torch.compile(self.model, backend="wrapper_ir", options=options)

    def run(self, count: int) -> Iterator[Verdict]:
        """Change something ``count`` times, and compare calls after each change.

        Two calls, and four where they are captured: the first of them is a warm-up, and the second
        one captures. Each has other numbers, in other memory.
        """
        for step in range(count):
            changed = self._change(step)
            for call in range(4 if self.cuda_graph else 2):
                verdict = self._compared(4 * step + call)
                yield verdict._replace(text=f"step {step}, call {call}, {changed}: {verdict.text}")
                if verdict.kind == "different":
                    return

    def _change(self, step: int) -> str:
        if step == 0:
            return "first call"
        name = self.source.choice([*CHOICES, "event", "event"])
        if name == "event":
            event = self.source.choice(EVENTS)
            seed = self.source.randrange(10**6)
            for model in (self.model, self.eager):
                happen(event, model, seed)
            return event
        value = self.source.choice(CHOICES[name])
        if name == "dtype":
            for model in (self.model, self.eager):
                model.zero_grad()  # what was summed up in another type is known less well
                model.to(value)
            self.model.load_state_dict(self.eager.state_dict())  # likewise
        self.setting = replace(self.setting, **{name: value})
        return f"{name} = {value}"

    def _compared(self, seed: int) -> Verdict:
        outcomes = []
        for model, function in ((self.eager, self.eager), (self.model, self.compiled)):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outcomes.append(observe(self.setting, model, function, seed=seed))
            except Exception as error:
                outcomes.append(error)
        wanted, got = outcomes
        if isinstance(got, Exception) or isinstance(wanted, Exception):
            if isinstance(got, Exception) and isinstance(wanted, Exception):
                self._even()
                return Verdict("same", "")
            words = f"{type(got).__name__}: {str(got).splitlines()[:1]}"
            kind = "refused" if isinstance(got, Exception) else "different"
            self._even()
            return Verdict(kind, f"{words} against {type(wanted).__name__}, {self.setting}")
        for what in wanted:
            if not same(wanted[what], got[what], coarse=self.setting.autocast):
                text = f"{what}: {wanted[what]} became {got[what]}, {self.setting}"
                return Verdict("different", text)
        return Verdict("same", "")

    def _even(self) -> None:
        """Give both copies the same state again after an error, which may come half way."""
        self.model.load_state_dict(self.eager.state_dict())
        for mine, theirs in zip(self.model.parameters(), self.eager.parameters(), strict=True):
            mine.grad = None
            theirs.grad = None


def happen(event: str, model: nn.Module, seed: int) -> None:
    """Change parameters or buffers."""
    torch.manual_seed(seed)
    linear: Any = model.linear
    weight = linear.weight
    made = torch.randn(WIDTH, WIDTH).to(weight)
    with torch.no_grad():
        if event == "in_place":
            weight.mul_(0.5)
        elif event == "data":
            weight.data = made
        elif event == "replaced":
            linear.weight = nn.Parameter(made, requires_grad=weight.requires_grad)
        elif event == "buffer":
            model.memory = torch.ones(WIDTH, device=weight.device)
        elif event == "step":
            for each in model.parameters():
                if each.grad is not None:
                    each -= 0.1 * each.grad
    if event == "cleared":
        model.zero_grad()


def arguments(setting: Setting, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ``x`` and ``y``, of ``[rows, WIDTH]``."""
    generator = torch.Generator().manual_seed(seed)
    rows, layout = setting.rows, setting.layout

    def drawn(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device, setting.dtype)

    if setting.shared == "overlapping":
        base = drawn(rows + 1, WIDTH)
        return base[:rows], base[1:]
    if setting.shared == "y_in_x":
        base = drawn(rows, 2 * WIDTH)
        return base[:, :WIDTH], base[:, WIDTH:]
    x = {
        "plain": lambda: drawn(rows, WIDTH),
        "turned": lambda: drawn(WIDTH, rows).t(),
        "strided": lambda: drawn(rows, 2 * WIDTH)[:, ::2],
        "offset": lambda: drawn(rows * WIDTH + 3)[3:].view(rows, WIDTH),
        "expanded": lambda: drawn(1, WIDTH).expand(rows, WIDTH),
        "negated": lambda: torch.complex(drawn(rows, WIDTH).float(), drawn(rows, WIDTH).float())
        .conj()
        .imag.to(setting.dtype),
    }[layout]()
    return x, x if setting.shared == "same" else drawn(rows, WIDTH)


def observe(setting: Setting, model: Layers, function: Any, seed: int) -> dict[str, Any]:
    """Call it, go backward, and return all that a caller can see."""
    device = model.linear.weight.device
    x, y = arguments(setting, seed, device)
    if setting.x_grad:
        x = x.requires_grad_() if x.is_leaf else x
    model.train(setting.training)
    for each in model.parameters():
        each.requires_grad_(not setting.frozen)
    model.scale, model.steps = setting.scale, list(setting.steps)
    heard: list[Any] = []
    with contextlib.ExitStack() as stack:
        stack.callback(torch.use_deterministic_algorithms, mode=False)
        torch.use_deterministic_algorithms(setting.deterministic)
        modes: dict[str, Any] = {
            "grad": contextlib.nullcontext,
            "no_grad": torch.no_grad,
            "inference": torch.inference_mode,
        }
        stack.enter_context(torch.compiler.set_stance(setting.stance))
        if setting.hooks == "module":
            hook = model.register_forward_hook(lambda *_: heard.append("module"))
            stack.callback(hook.remove)
        if setting.hooks == "saved":
            pack = torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
            stack.enter_context(pack)
        if setting.autocast:
            stack.enter_context(torch.autocast(device.type, torch.bfloat16))
        stack.enter_context(modes[setting.mode]())

        def call(*given: Tensor) -> Any:
            if setting.keyword:
                return function(*given, k=setting.number)
            return function(*given, setting.number)

        if setting.around == "vjp":
            found, pull = torch.func.vjp(lambda x: _floats(call(x, y)), x.detach())
            results = [*found, *pull(tuple(torch.ones_like(each) for each in found))]
        else:
            results = pytree.tree_leaves(call(x, y))
    tensors = [each for each in results if isinstance(each, Tensor)]
    flags = [(each.requires_grad, each.grad_fn is None) for each in tensors]
    kept = [each.detach().clone() if isinstance(each, Tensor) else each for each in results]
    _backward(setting, tensors, heard)
    leaves = (x, *model.parameters())
    return {
        "values": kept,
        "structure": [(type(each).__name__, getattr(each, "dtype", None)) for each in results],
        "gradients are recorded": flags,
        "arguments": [each.detach().clone() for each in (x, y)],
        "buffers": [each.clone() for each in model.buffers()],
        "gradients": [each.grad if each.is_leaf else None for each in leaves],
        "hooks": heard,
    }


def _floats(results: Any) -> tuple[Tensor, ...]:
    leaves = (each for each in pytree.tree_leaves(results) if isinstance(each, Tensor))
    return tuple(each for each in leaves if each.is_floating_point())


def _backward(setting: Setting, tensors: list[Tensor], heard: list[Any]) -> None:
    recorded = [each for each in tensors if each.requires_grad and each.grad_fn is not None]
    if setting.backward == "none" or not recorded:
        return
    if setting.hooks == "result":
        recorded[0].register_hook(lambda _: heard.append("result"))
    gradients = [torch.ones_like(each) for each in recorded]
    if setting.backward == "turned":
        gradients = [g.mT.contiguous().mT if g.ndim > 1 else g for g in gradients]
    if setting.backward == "twice":
        torch.autograd.backward(recorded, gradients, retain_graph=True)
    torch.autograd.backward(recorded, gradients)


def same(wanted: Any, got: Any, *, coarse: bool) -> bool:
    """Compare tensors within what types allow, and all else exactly.

    Args:
        wanted: What eager gives.
        got: What ours gives.
        coarse: Whether parts were computed in bfloat16.
    """
    if isinstance(wanted, list):
        pairs = zip(wanted, got, strict=False)
        return len(wanted) == len(got) and all(same(a, b, coarse=coarse) for a, b in pairs)
    if isinstance(wanted, Tensor) and isinstance(got, Tensor):
        if (wanted.dtype, wanted.shape) != (got.dtype, got.shape):
            return False
        bits = 0.1 if coarse or wanted.dtype == torch.bfloat16 else 1e-3
        return torch.allclose(wanted.double(), got.double(), rtol=bits, atol=bits, equal_nan=True)
    return bool(wanted == got)
