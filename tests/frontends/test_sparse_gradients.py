"""Gradients that are sparse, through every emitter."""

from __future__ import annotations

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.lines import LayoutKind

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

MODELS = {
    "embedding": (torch.nn.Embedding(10, 4, sparse=True), torch.tensor([1, 2, 2])),
    "bag": (torch.nn.EmbeddingBag(10, 4, sparse=True, mode="sum"), torch.tensor([[1, 2, 2]])),
}


@pytest.mark.parametrize("emitter", ["python", "cpp", "fx"])
@pytest.mark.parametrize("name", MODELS)
def test_sparse_gradients_are_those_of_eager(name: str, emitter: str) -> None:
    torch._dynamo.reset()
    model, x = MODELS[name]
    model.zero_grad()
    model(x).sum().backward()
    expected = model.weight.grad.to_dense()
    model.zero_grad()
    with wir.record() as programs:
        compiled = torch.compile(model, backend="wrapper_ir", options={"emitter": emitter})
        compiled(x).sum().backward()
    gradient = model.weight.grad
    assert gradient.layout is torch.sparse_coo
    assert torch.equal(gradient.to_dense(), expected)
    text = str(programs[-1])
    assert " sparse_coo @cpu" in text
    again = wir.parse(text)
    assert LayoutKind.SPARSE_COO in {layout.kind for layout in again.buffers.values()}
    assert str(again) == text
