"""Files that are no kernels: a message and a status; no traceback, no hang, nothing `equal`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "corpus" / "examples" / "figure4_b.ptx"
TEXT = GOOD.read_text()
BODY = TEXT[TEXT.index(".visible"):]

ODD: dict[str, bytes] = {
    "empty.ptx": b"", "blank.ptx": b" \n\t\n", "nul.ptx": b"\0" * 64,
    "random.ptx": bytes(range(256)) * 8, "cubin.ptx": b"\x7fELF\x02\x01\x01\x33" + bytes(600),
    "fatbin.ptx": b"\x50\xed\x55\xba" + bytes(range(200)), "packed.ptx": b"\x1f\x8b\x08\0abc",
    "hsaco.s": b"\x7fELF\x02\x01\x01\x40", "archive.ptx": b"!<arch>\nx",
    "half.ptx": TEXT[:len(TEXT) // 2].encode(), "tail.ptx": TEXT[:-3].encode(),
    "sass.ptx": b"\tcode for sm_90\n        /*0000*/    FADD R2, R3, R4 ;\n",
    "ir.ll": b"; ModuleID = 'x'\ndefine void @k() { ret void }\n", "page.ptx": b"<html></html>",
    "nested.ptx": TEXT.replace("ret;", "{" * 3000 + "}" * 3000 + "ret;").encode(),
    "parens.ptx": TEXT.replace("ret;", "add.s32 %r1, " + "(" * 9000 + ", 2;\nret;").encode(),
    "library.ptx": TEXT[:TEXT.index(".visible")].encode(), "twice.ptx": (TEXT + BODY).encode(),
    "both.s": TEXT.encode() + b"\t.amdgcn_target \"amdgcn-amd-amdhsa--gfx942\"\n",
    "broken.jsonl.xz": b"\xfd7zXZ\0no", "utf16.jsonl": "\u1234".encode("utf-16-le"),
}
COMMANDS: dict[str, list[str]] = {
    "compare": ["compare", "FILE", str(GOOD)], "itself": ["compare", "FILE", "FILE", "--json"],
    "sign": ["sign", "FILE"], "tree": ["tree", "FILE"], "describe": ["describe", "FILE"],
    "coverage": ["coverage", "FILE"], "partition": ["partition", "-j0", "FILE", "--json"],
    "gate": ["gate", "update", "-j0", "--baseline", "LOCK", "FILE"],
}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE", "off")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_kernel_no_answer(run: Run, tmp_path: Path, command: str, name: str) -> None:
    path, lock = tmp_path / name, tmp_path / "samebits.lock"
    path.write_bytes(ODD[name])
    result = run(*({"FILE": path, "LOCK": lock}.get(word, word) for word in COMMANDS[command]))
    assert result.exit_code == (3 if command == "gate" else 4)
    assert name in result.stderr
    assert "Traceback" not in result.output
    assert "defect" not in result.output
    assert '"equal": true' not in result.output
    assert not result.output.startswith("equal")
    assert not lock.exists()


@pytest.mark.parametrize("made", ["folder", "dangling", "loop"])
def test_what_is_no_file(run: Run, tmp_path: Path, made: str) -> None:
    path = tmp_path / "k.ptx"
    if made == "folder":
        path.mkdir()
    else:
        path.symlink_to("k.ptx" if made == "loop" else "nowhere")
    result = run("compare", path, GOOD)
    assert result.exit_code == 4
    assert "k.ptx:1:1: cannot read it" in result.stderr


def test_folders_that_hold_themselves_end(run: Run, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(TEXT)
    (tmp_path / "again").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.ptx")
    result = run("partition", "-j0", tmp_path, "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.output)["classes"][0]["members"]) == 1


@pytest.mark.parametrize("encode", [
    lambda text: text.replace("\n", "\r\n").encode(), lambda text: text.encode("utf-8-sig"),
    lambda text: text.encode("utf-16"), lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    lambda text: text.encode("utf-32"), lambda text: text.encode() + bytes(7),
    lambda text: b"// \xe9\n" + text.encode(),
], ids=["crlf", "bom", "utf-16", "utf-16-be", "utf-32", "nul", "latin-1"])
def test_encodings_are_no_difference(run: Run, tmp_path: Path, encode: Any) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(encode(TEXT))
    result = run("compare", path, GOOD)
    assert result.exit_code == 0, result.output


def test_a_second_kernel_of_one_name_is_never_left_out(run: Run, tmp_path: Path) -> None:
    """The last of each name alone used to be compared: here they agree, the first do not."""
    other = BODY.replace("add", "mul", 1)
    one, two = tmp_path / "one.ptx", tmp_path / "two.ptx"
    one.write_text(TEXT + BODY)
    two.write_text(TEXT.replace(BODY, other) + BODY)
    result = run("compare", one, two)
    assert result.exit_code == 4
    assert "`fig4` is defined twice" in result.stderr


def test_standard_input_may_be_anything(tmp_path: Path) -> None:
    for data, status in ((TEXT.encode(), 0), (bytes(range(256)), 4), (b"", 4)):
        done = subprocess.run(
            [sys.executable, "-c", "from checker.cli import main; main()", "compare", "-",
             str(GOOD)], input=data, capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == status, done.stderr
        assert b"Traceback" not in done.stderr


def test_a_text_of_many_kernels_is_parsed_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    from checker.ptx import parser

    read: list[str] = []
    parse_ptx = parser.parse_ptx
    monkeypatch.setattr(parser, "parse_ptx", lambda text, file="<text>": (
        read.append(file), parse_ptx(text, file))[1])
    path = tmp_path / "many.ptx"
    path.write_text(TEXT + "".join(BODY.replace("fig4", f"k{n}") for n in range(9)))
    result = run("sign", path)
    assert result.exit_code == 0
    assert result.output.count("  modelled ") == 10
    assert len(read) == 1
