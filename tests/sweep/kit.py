"""What families of workloads are written with.

Convention: a family is a function of a ``Kit`` and of named sizes, and gives a function and its
arguments. Weights are arguments, too, so that each call can have the same ones again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from tests.sweep.sizes import Size

__all__ = ["FAMILIES", "SETTINGS", "Family", "Kit", "Made", "family"]

#: What Inductor may be told, by a name of ours. Timing decides as little as can be: of two choices
#: that take the same time each side could take another one.
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "no_split": {"split_reductions": False},
    "cooperative": {"triton.cooperative_reductions": True},
    "always_cooperative": {"triton.force_cooperative_reductions": True},
    "looped": {"triton.persistent_reductions": False},
    "unrolled": {"unroll_reductions_threshold": 64},
    "block_pointers": {"triton.use_block_ptr": True},
    "descriptors": {"triton.use_tensor_descriptor": True, "assume_aligned_inputs": True},
    "tiled": {"triton.prefer_nd_tiling": True, "triton.tile_reductions": True},
    "combo": {"combo_kernels": True},
    "partitions": {"graph_partition": True, "triton.cudagraphs": True},
    "eager_random": {"fallback_random": True},
    "eager_casts": {"emulate_precision_casts": True},
    "pools": {"memory_planning": True},
    "padded": {"force_shape_pad": True},
    "tuned": {"max_autotune": True, "test_configs.max_mm_configs": 4},
    "templates": {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "test_configs.max_mm_configs": 1,
    },
    "persistent_templates": {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "triton.enable_persistent_tma_matmul": True,
        "test_configs.autotune_choice_name_regex": "tma|bmm",
        "test_configs.max_mm_configs": 1,
    },
    "convolution_templates": {
        "max_autotune": True,
        "max_autotune_conv_backends": "TRITON",
        "test_configs.max_mm_configs": 4,
    },
    "no_channels_last": {"layout_optimization": False},
}

_ANY = ("block_pointers", "combo", "partitions", "eager_casts", "pools", "tiled", "descriptors")
_KINDS: Final = {
    "": _ANY,
    "reduction": (*_ANY, *4 * ("no_split", "cooperative", "always_cooperative", "looped")),
    "small": (*_ANY, *4 * ("unrolled", "looped")),
    "product": (*_ANY, *4 * ("padded", "tuned", "templates", "persistent_templates")),
    "convolution": (*_ANY, *4 * ("convolution_templates", "no_channels_last")),
    "random": (*_ANY, *4 * ("eager_random",)),
}

FLOATS: Final = ("bfloat16", "float16", "float32")


@dataclass(frozen=True)
class Made:
    """A function, and what gives the arguments of a call.

    Attributes:
        function: What is compiled.
        inputs: Gives its arguments, which may be in lists; the same ones each time.
    """

    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]


class Kit:
    """Makes tensors up, the same in each process.

    Args:
        device: Where they are.
        dtype: Of floating-point numbers.
        backward: Whether a gradient is taken of them.
    """

    def __init__(self, device: str, dtype: str, *, backward: bool = False) -> None:
        self.device = torch.device(device)
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.backward = backward
        self._generator = torch.Generator(self.device).manual_seed(0)

    def reset(self) -> None:
        """Begin again."""
        self._generator.manual_seed(0)

    def r(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Make up numbers that a gradient is taken of."""
        return self.c(*shape, dtype=dtype).requires_grad_(self.backward)

    def c(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Make up numbers that no gradient is taken of."""
        dtype, device = dtype or self.dtype, self.device
        return torch.randn(shape, generator=self._generator, dtype=dtype, device=device)

    def w(self, *shape: int) -> Tensor:
        """Make up weights, the smaller the more of them are added up."""
        made = self.c(*shape).div_(max(shape[-1], 1) ** 0.5)
        return made.requires_grad_(self.backward)

    def p(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Make up numbers above zero that no gradient is taken of."""
        return self.c(*shape, dtype=dtype).abs_().add_(0.1)

    def i(self, high: int, *shape: int, low: int = 0) -> Tensor:
        """Make up integers."""
        return torch.randint(low, high, shape, generator=self._generator, device=self.device)

    def b(self, *shape: int) -> Tensor:
        """Make up truth values, of which three in four are true."""
        return self.i(4, *shape) > 0


@dataclass(frozen=True)
class Family:
    """Workloads that differ in their sizes.

    Attributes:
        name: Its name.
        make: Makes one, of a kit and sizes.
        sizes: The names of sizes, and how each is drawn.
        dtypes: The element types that it is tried in.
        trains: Whether gradients can be taken; ``always`` where the function takes its own.
        varies: The size that may differ from call to call, if any.
        settings: Names of what Inductor may be told.
        weight: How many times its largest tensor it may need.
        devices: Where it is tried.
    """

    name: str
    make: Callable[..., Made]
    sizes: Mapping[str, Size]
    dtypes: tuple[str, ...] = FLOATS
    trains: bool = True
    varies: str = ""
    settings: tuple[str, ...] = _ANY
    weight: float = 12.0
    devices: tuple[str, ...] = ("cuda", "cpu")


FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class How:
    """In which ways a family is tried; the attributes are those of ``Family``."""

    dtypes: tuple[str, ...] = FLOATS
    trains: bool = True
    varies: str = ""
    kind: str = ""
    weight: float = 12.0
    devices: tuple[str, ...] = ("cuda", "cpu")
    more: tuple[str, ...] = field(default=())


def family(how: How | None = None, **sizes: Size) -> Callable[[Callable[..., Made]], Any]:
    """Register a family with the sizes that it draws."""
    how = how or How()

    def add(make: Callable[..., Made]) -> Callable[..., Made]:
        assert not how.varies or how.varies in sizes, make.__name__
        FAMILIES[make.__name__] = Family(
            make.__name__,
            make,
            sizes,
            how.dtypes,
            how.trains,
            how.varies,
            _KINDS[how.kind] + how.more,
            how.weight,
            how.devices,
        )
        return make

    return add
