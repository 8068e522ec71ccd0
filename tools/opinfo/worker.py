"""A process that tries batches of ops: one line of JSON per request and per answer.

Ops crash, hang and use up memory, so they are tried in a process that can be lost. A batch that
passes is answered for all its ops at once. If anything fails, the answer is "split" and the caller
tries each half. A single op always gets a verdict.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from typing import Any

import torch

from tools.opinfo import interpreting
from tools.opinfo.database import UNINITIALISED, Batch, NoSampleError, described, samples
from tools.opinfo.mode import Mode
from tools.opinfo.ways import difference, run

PASSED = "passed"


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep what ops print out of the answers
    _quieten()
    interpreting.register()
    for line in sys.stdin:
        request = json.loads(line)
        answer = judged(request)
        if request["mode"]["device"] == "cuda":
            torch.cuda.synchronize()  # ends a process whose GPU fails from now on
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _quieten() -> None:
    from torch.testing._internal import common_methods_invocations

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)  # with two threads sums add up in any order, even in stock's kernels
    torch._inductor.config.compile_threads = 1
    # A graph from a cache is not lowered and would not be counted.
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.recompile_limit = 64
    torch._dynamo.config.allow_rnn = True
    # Random ops would be wrapped in code that sets the seed, which Dynamo leaves to eager. Each
    # call starts from a known seed here anyway.
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def judged(request: dict[str, Any]) -> dict[str, Any]:
    """Return the verdicts on a batch's ops, or a request to split it."""
    names, emitters = request["ops"], request["emitters"]
    mode = Mode(**request["mode"])
    calls, verdicts, tried = [], {}, []
    for name in names:
        try:
            found = samples(name, mode, request["samples"])
        except NoSampleError as error:
            verdicts[name] = {"stock": f"no sample: {described(error)}"}
        else:
            calls += found
            tried.append((name, len(found)))
    if not tried:
        return {"verdicts": verdicts}
    several = len(tried) > 1
    values = UNINITIALISED.isdisjoint(names)
    if several and not values:
        return {"split": True}
    verdict = compared(Batch(calls), mode, emitters, values=values, fullgraph=several)
    if several and set(verdict.values()) != {PASSED}:
        return {"split": True}
    for name, count in tried:
        verdicts[name] = {**verdict, "samples": count}
    return {"verdicts": verdicts}


def compared(
    batch: Batch, mode: Mode, emitters: list[str], *, values: bool, fullgraph: bool
) -> dict[str, Any]:
    """Return the verdict on stock Inductor and on each emitter."""
    try:
        stock = run(batch, "inductor", mode, fullgraph=fullgraph)
    except Exception as error:
        return {"stock": f"stock fails: {described(error)}"}
    verdict = {"stock": PASSED}
    for emitter in emitters:
        try:
            options = {"emitter": emitter, "validate": "error"}
            ours = run(batch, "wrapper_ir", mode, fullgraph=fullgraph, **options)
        except Exception as error:
            verdict[emitter] = f"failed: {described(error)}"
            continue
        why = difference(ours, stock, values=values)
        if why:
            verdict[emitter] = f"failed: {why}"
        elif not ours.lowered:
            verdict[emitter] = "no graph: Dynamo or Inductor leaves it to eager"
        else:
            verdict[emitter] = PASSED
    return verdict


if __name__ == "__main__":
    main()
