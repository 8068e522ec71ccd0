"""Packages (``.pt2``): models with their libraries and weights in one file.

``writer`` writes one, with the help of ``sharing``, ``archive`` and ``index``. ``loader`` loads
one, and libraries alone, with the help of ``about`` (which reads the index), ``weights`` and
``library``; it imports nothing of the IR.
"""
