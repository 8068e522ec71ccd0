"""A device whose memory the host cannot touch, registered with torch and wrapper_ir."""

from pathlib import Path

from wrapper_ir.devices import CPP, CppSide, DeviceKind, Memory

HEADER = Path(__file__).with_name("device_protected.h")
LIBRARY = Path(__file__).with_name("libdevice_protected.so")

KIND = DeviceKind(
    type="protected",
    noun="protected device",
    plural="protected devices",
    languages=(CPP,),
    scheduling="cpp",
    memory=Memory(alignment=64),
    cpp=CppSide(
        headers={HEADER.name: HEADER.read_text("utf-8")},
        library=LIBRARY.name,
        kernels="device_protected::Open",
        without="import torch first: it loads the device",
    ),
)


class Protected:
    """The device module ``torch.protected``."""

    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)
    manual_seed_all = staticmethod(lambda seed: None)
    _is_in_bad_fork = staticmethod(lambda: False)


def load():
    """Register the device with torch, which calls this function when it is imported."""
    import torch

    torch.ops.load_library(LIBRARY)
    torch.utils.rename_privateuse1_backend("protected")
    torch._register_device_module("protected", Protected)  # noqa: SLF001 - torch's only way
