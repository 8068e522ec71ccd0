"""Element types, named as the text form and torch name them."""

from __future__ import annotations

import enum
from typing import Final


class DType(enum.Enum):
    """The type of one element of a buffer.

    The member's name is upper-case torch's (``DType.FLOAT32`` is ``torch.float32``), its value the
    short name of the text form (``f32``).
    """

    FLOAT64 = "f64"
    FLOAT32 = "f32"
    FLOAT16 = "f16"
    BFLOAT16 = "bf16"
    FLOAT8_E4M3FN = "f8e4m3fn"
    FLOAT8_E4M3FNUZ = "f8e4m3fnuz"
    FLOAT8_E5M2 = "f8e5m2"
    FLOAT8_E5M2FNUZ = "f8e5m2fnuz"
    FLOAT8_E8M0FNU = "f8e8m0fnu"
    FLOAT4_E2M1FN_X2 = "f4e2m1fnx2"
    COMPLEX32 = "c32"
    COMPLEX64 = "c64"
    COMPLEX128 = "c128"
    INT64 = "i64"
    INT32 = "i32"
    INT16 = "i16"
    INT8 = "i8"
    UINT64 = "u64"
    UINT32 = "u32"
    UINT16 = "u16"
    UINT8 = "u8"
    BOOL = "bool"
    QINT32 = "qi32"
    QINT8 = "qi8"
    QUINT8 = "qu8"

    @property
    def short(self) -> str:
        """The name in the text form, for example ``f32``."""
        return str(self.value)

    @property
    def torch_name(self) -> str:
        """The attribute of ``torch``, for example ``float32``."""
        return self.name.lower()

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]

    @property
    def is_floating(self) -> bool:
        """True if the type is a real floating-point type."""
        return self.name.startswith(("FLOAT", "BFLOAT"))

    @property
    def is_complex(self) -> bool:
        """True if the type is complex."""
        return self.name.startswith("COMPLEX")

    @property
    def is_integral(self) -> bool:
        """True if the type is a signed or unsigned integer (bool and quantised types are not)."""
        return self.name.startswith(("INT", "UINT"))

    @classmethod
    def from_torch_name(cls, name: str) -> DType:
        """The type that torch calls ``name`` (``"float32"`` or ``"torch.float32"``).

        Raises:
            KeyError: torch has such a type but the IR does not.
        """
        return cls[name.removeprefix("torch.").upper()]


_ITEMSIZE: Final[dict[DType, int]] = {
    DType.FLOAT64: 8,
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT8_E4M3FN: 1,
    DType.FLOAT8_E4M3FNUZ: 1,
    DType.FLOAT8_E5M2: 1,
    DType.FLOAT8_E5M2FNUZ: 1,
    DType.FLOAT8_E8M0FNU: 1,
    DType.FLOAT4_E2M1FN_X2: 1,
    DType.COMPLEX32: 4,
    DType.COMPLEX64: 8,
    DType.COMPLEX128: 16,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.INT16: 2,
    DType.INT8: 1,
    DType.UINT64: 8,
    DType.UINT32: 4,
    DType.UINT16: 2,
    DType.UINT8: 1,
    DType.BOOL: 1,
    DType.QINT32: 4,
    DType.QINT8: 1,
    DType.QUINT8: 1,
}

#: The text form's short name of each type.
DTYPE_BY_SHORT_NAME: Final[dict[str, DType]] = {d.short: d for d in DType}
