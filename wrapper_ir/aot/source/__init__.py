"""Programs as source: a module for caches, and folders that run, build and may be edited.

``module_text`` writes the module, ``folder`` the folder, ``cmake`` what builds a library of it
without wrapper_ir, and ``checking`` compares an edited folder with its program.
"""
