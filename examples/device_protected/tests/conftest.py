import device_protected
import torch

if not hasattr(torch, "protected"):  # torch was imported before the package was installed
    device_protected.load()
