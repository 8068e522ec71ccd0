"""Export a small classifier to classifier.pt2 and print its output for the demo's input."""

from __future__ import annotations

import sys

import torch

import wrapper_ir as wir


def main(path: str = "classifier.pt2") -> None:
    """Capture, export and run eagerly."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4), torch.nn.Softmax(-1)
    ).eval()
    example = (torch.arange(16, dtype=torch.float32) / 16).reshape(2, 8)
    with torch.no_grad():
        wir.export(wir.capture(model, (example,)), path)
        print(model(example))


if __name__ == "__main__":
    main(*sys.argv[1:])
