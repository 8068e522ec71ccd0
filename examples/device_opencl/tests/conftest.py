"""Registers the device with torch, even if torch was imported before the package was visible."""

import device_opencl.memory  # noqa: F401
