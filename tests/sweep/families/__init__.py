"""The families of workloads; importing this registers them."""

from tests.sweep.families import (  # noqa: F401
    attention,
    convolutions,
    embeddings,
    indexing,
    losses,
    matmuls,
    norms,
    optimisers,
    pointwise,
    reductions,
    structure,
    users,
)
