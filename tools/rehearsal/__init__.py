"""A release of torch that is not out: the installed one, as 2.16.0, with one thing changed.

The changes are of the kinds that earlier releases brought (``docs/radar.md``). Under each, torch's
own backend works as before, and ours is asked to try the release. It may give the right results,
leave a graph to torch's own backend with a warning, or end in words that name the change; wrong
results and errors that name nothing are faults of ours.

- ``changes``: what is changed, and the words that must name it.
- ``overlay``: a torch in which a file is another one, and every other file is the installed one's.
- ``program``: what runs in it, in a process of its own.
- ``__main__``: runs them all and writes the table of ``docs/rehearsal.md``.
"""
