"""A process that tries workloads, one request a line, so that a crash ends nothing else."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings

import torch

from tests.sweep.judge import judged
from tests.sweep.workload import Workload


def main() -> None:
    """Answer requests until there are no more; one without a workload asks for the memory."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        prepare()
        for line in sys.stdin:
            print(json.dumps(answered(json.loads(line))), file=answers, flush=True)


def prepare() -> None:
    """Have nothing printed, and atomics add in one order."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)


def answered(request: dict[str, object]) -> dict[str, object]:
    """Return the answer to a request."""
    device = str(request["device"])
    if "workload" not in request:
        free = torch.cuda.mem_get_info()[0] if device == "cuda" else 1 << 60
        return {"free": free}
    began = time.monotonic()
    ways = request["ways"]
    assert isinstance(ways, list)
    answer = judged(Workload.parse(str(request["workload"])), device, ways)
    return {**answer, "seconds": round(time.monotonic() - began, 1)}


if __name__ == "__main__":
    main()
