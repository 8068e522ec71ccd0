"""Compiles the device's memory and its ops."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

memory = CppExtension("device_protected.memory", ["device_protected/memory.cpp"])
build = BuildExtension.with_options(no_python_abi_suffix=True, use_ninja=False)
setup(ext_modules=[memory], cmdclass={"build_ext": build})
