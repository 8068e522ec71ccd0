from __future__ import annotations

import subprocess

import pytest

from wrapper_ir.toolchain import isa as isa_module
from wrapper_ir.toolchain.errors import IsaError
from wrapper_ir.toolchain.isa import NONE, cpu_features, cpu_identity, detect, resolve

X86 = pytest.mark.skipif(
    "avx2" not in cpu_features(), reason="compares the sets of an x86 CPU with AVX2"
)


def use_features(monkeypatch: pytest.MonkeyPatch, *features: str, machine: str = "x86_64") -> None:
    monkeypatch.setattr(isa_module, "cpu_features", lambda: frozenset(features))
    monkeypatch.setattr("platform.machine", lambda: machine)


def test_the_tables_are_those_of_inductor() -> None:
    from torch._inductor import cpu_vec_isa as stock

    pairs = {
        "avx512 avx512_vnni amx_tile": stock.VecAMX(),
        "avx512 avx512_vnni": stock.VecAVX512VNNI(),
        "avx512": stock.VecAVX512(),
        "avx2": stock.VecAVX2(),
        "asimd": stock.VecNEON(),
    }
    if hasattr(stock, "VecSVE"):  # PyTorch 2.11 has it under another name
        pairs |= {"sve256": stock.VecSVE(256), "sve128": stock.VecSVE(128)}
    for name, theirs in pairs.items():
        ours = isa_module._BY_NAME[name]
        assert list(ours.macros) == theirs.build_macro(), name
        assert " ".join(ours.flags) == theirs._arch_flags.strip(), name
        assert name.startswith("sve") or name == str(theirs)


def test_the_choice_is_that_of_inductor() -> None:
    from torch._inductor import config
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    with config.patch({"cpp.vec_isa_ok": True}):  # its trial library takes seconds
        theirs = pick_vec_isa()
    ours = detect()
    assert ours.name == (str(theirs) if theirs else "none")
    assert " ".join(ours.arch_flags(gcc_major=99)) == theirs.build_arch_flags()


def test_nothing_is_compiled_to_find_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    cpu_features.cache_clear()
    isa_module._cpuinfo.cache_clear()
    assert detect().name


@X86
@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("avx2", "avx2"),
        ("  AVX2 ", "avx2"),
        ("none", "none"),
        ("INVALID_VEC_ISA", "none"),
        ("x86-64-v3", "x86-64-v3"),
    ],
)
def test_names_and_aliases(name: str, canonical: str) -> None:
    assert resolve(name).name == canonical


def test_native_and_nothing_mean_the_best() -> None:
    assert resolve("native") == resolve("") == detect()


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(IsaError, match="no instruction set of that name") as caught:
        resolve("avx513")
    assert "avx512" in str(caught.value.hint)


def test_what_the_cpu_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    use_features(monkeypatch, "avx2", "fma", "f16c")
    with pytest.raises(IsaError, match="no avx512bw, avx512dq, avx512f, avx512vl") as caught:
        resolve("avx512")
    assert "'avx2'" in str(caught.value.hint)


def test_another_architecture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use_features(monkeypatch, "asimd", machine="aarch64")
    with pytest.raises(IsaError, match="belongs to x86, and this machine is aarch64"):
        resolve("avx2")


@pytest.mark.parametrize(
    ("features", "machine", "best"),
    [
        ("avx2 fma f16c", "x86_64", "avx2"),
        ("avx2 fma f16c avx512f avx512dq avx512vl avx512bw", "x86_64", "avx512"),
        ("avx2", "x86_64", "none"),
        ("", "x86_64", "none"),
        ("asimd", "aarch64", "asimd"),
        ("asimd sve bf16", "aarch64", "sve256"),
        ("asimd sve", "aarch64", "asimd"),
        ("", "riscv64", "none"),
    ],
)
def test_detection(monkeypatch: pytest.MonkeyPatch, features: str, machine: str, best: str) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    use_features(monkeypatch, *features.split(), machine=machine)
    monkeypatch.setattr(isa_module, "_sve_bits", lambda: 256)
    assert detect().name == best


@X86
def test_the_environment_lowers_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    assert detect().name == "avx2"
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert detect() == NONE


def test_optional_flags_need_cpu_and_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    avx512 = isa_module._BY_NAME["avx512"]
    use_features(monkeypatch, "avx512_bf16")
    assert "-mavx512bf16" in avx512.arch_flags(gcc_major=12)
    assert "-mavx512bf16" not in avx512.arch_flags(gcc_major=9)
    use_features(monkeypatch)
    assert "-mavx512bf16" not in avx512.arch_flags(gcc_major=12)


def test_the_identity_tells_cpus_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    here = cpu_identity()
    cpu_identity.cache_clear()
    monkeypatch.setattr(isa_module, "cpu_features", lambda: frozenset({"other"}))
    assert cpu_identity() != here
    cpu_identity.cache_clear()


def test_without_cpuinfo_torch_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa_module, "_cpuinfo", dict)
    monkeypatch.setattr("torch.backends.cpu.get_cpu_capability", lambda: "AVX2")
    cpu_features.cache_clear()
    assert cpu_features() == {"avx2", "fma", "f16c"}
    cpu_features.cache_clear()
