"""Calls captured as CUDA graphs: what stands in the way, and programs cut and branched for it."""
