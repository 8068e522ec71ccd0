"""Workloads: what is drawn, as a line of text that says all of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

import tests.sweep.families  # noqa: F401 - registers them
from tests.sweep.kit import FAMILIES, SETTINGS, Family
from tests.sweep.sizes import SCALES, Draws

__all__ = ["Workload", "drawn"]

_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4, "float64": 8}

#: How often a workload is drawn with gradients, with symbolic sizes and with a setting.
_BACKWARD, _DYNAMIC, _SETTING = 0.6, 0.2, 0.4


@dataclass(frozen=True)
class Workload:
    """One workload.

    Attributes:
        family: The name of its family.
        sizes: What was drawn for its sizes.
        dtype: The name of its element type.
        backward: Whether a gradient is taken.
        dynamic: Whether sizes are symbols, and one of them differs in another call.
        setting: The name of what Inductor is told besides, or nothing.
        elements: What its largest tensor has, about; 0 where nobody knows.
    """

    family: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "float32"
    backward: bool = False
    dynamic: bool = False
    setting: str = ""
    elements: int = 0

    def __str__(self) -> str:
        flags = ("backward" * self.backward, "dynamic" * self.dynamic, self.setting)
        sizes = (f"{name}={size}" for name, size in self.sizes)
        return " ".join(filter(None, (self.family, *sizes, self.dtype, *flags)))

    @classmethod
    def parse(cls, text: str) -> Workload:
        """Read the text back.

        Raises:
            ValueError: It is not that of a workload.
        """
        name, *words = text.split() or [""]
        if name not in FAMILIES:
            raise ValueError(f"there is no family {name!r}; there are {', '.join(FAMILIES)}")
        numbers = [word.partition("=") for word in words if "=" in word]
        flags = [word for word in words if "=" not in word]
        wrong = [f for f in flags if f not in {*_BYTES, *SETTINGS, "backward", "dynamic"}]
        wanted = list(FAMILIES[name].sizes)
        if wrong or [key for key, *_ in numbers] != wanted:
            sizes = " ".join(f"{size}=N" for size in wanted)
            raise ValueError(
                f"{wrong[0] if wrong else text!r}: a workload is '{name} {sizes} TYPE'"
            )
        return cls(
            name,
            tuple((key, int(number)) for key, _, number in numbers),
            next((word for word in flags if word in _BYTES), "float32"),
            "backward" in flags,
            "dynamic" in flags,
            next((word for word in flags if word in SETTINGS), ""),
        )

    @property
    def kind(self) -> Family:
        """Its family."""
        return FAMILIES[self.family]

    @property
    def need(self) -> int:
        """How many bytes of memory it may take."""
        return int(self.elements * _BYTES[self.dtype] * self.kind.weight)


def drawn(seed: int, number: int, device: str, families: list[str] | None = None) -> Workload:
    """Draw a workload; the same arguments give the same one on each machine.

    Args:
        seed: Of the whole run.
        number: Which of the run's workloads; each family comes once in as many as there are.
        device: ``cuda`` or ``cpu``.
        families: Names of the only ones.
    """
    names = [f.name for f in FAMILIES.values() if device in f.devices]
    names = [name for name in names if families is None or name in families]
    turn, place = divmod(number, len(names))
    Random(f"turn {seed} {turn}").shuffle(names)
    family = FAMILIES[names[place]]
    random = Random(f"{seed} {number} {family.name}")
    draws = Draws(random, SCALES[device])
    sizes = tuple((name, size(draws)) for name, size in family.sizes.items())
    return Workload(
        family.name,
        sizes,
        random.choice(family.dtypes),
        family.trains and random.random() < _BACKWARD,
        bool(family.varies) and random.random() < _DYNAMIC,
        random.choice(_settings(family, device)) if random.random() < _SETTING else "",
        max(draws.elements, draws.used),
    )


def _settings(family: Family, device: str) -> list[str]:
    """Return what Inductor may be told; on a CPU tuning takes minutes, and there are no graphs."""
    words = ("max_autotune", "cudagraphs")
    left = {name for name, said in SETTINGS.items() if any(w in key for key in said for w in words)}
    return [name for name in family.settings if device == "cuda" or name not in left]
