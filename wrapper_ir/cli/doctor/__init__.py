"""The examination of an installation.

``facts`` finds versions and the cache, ``trial`` is the process in which a program is run,
``trials`` starts it, ``report`` holds the outcome, ``show`` prints it.
"""
