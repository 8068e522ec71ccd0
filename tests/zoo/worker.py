"""A process that tries architectures, one request a line, so that a crash ends nothing else.

What libraries print must not be taken for an answer: answers go to the stream that the process was
started with, and whatever is printed goes to standard error.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
import warnings

import torch
import torch._dynamo.config
import torch._inductor.config

from tests.zoo.catalogue import ARCHITECTURES
from tests.zoo.check import check


def main() -> None:
    """Answer requests until there are no more."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        # With two threads the last bit of what is added atomically is another one at each call.
        torch.set_num_threads(1)
        torch._inductor.config.compile_threads = 1
        torch._dynamo.config.allow_rnn = True
        for line in sys.stdin:
            name, mode, emitters = json.loads(line)
            found = check(ARCHITECTURES[name], mode, emitters)
            print(json.dumps([dataclasses.asdict(o) for o in found]), file=answers, flush=True)


if __name__ == "__main__":
    main()
