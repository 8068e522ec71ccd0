"""A process that runs odd functions, one request a line, so that a crash ends nothing else."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings

import torch

import tests.odd.programs
import tests.odd.values  # noqa: F401 - registers its functions
from tests.odd.ways import tried


def main() -> None:
    """Answer requests until there are no more."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)  # what is added atomically by two has other bits at each call
        torch._inductor.config.compile_threads = 1
        torch._inductor.config.fx_graph_cache = False  # a hit lowers nothing, and we count
        torch._functorch.config.enable_autograd_cache = False
        torch._dynamo.config.allow_rnn = True
        for line in sys.stdin:
            name, way = json.loads(line)
            print(json.dumps(tried(name, way), default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
