"""The coverage bench: shares by target, the rest by name, and its exit status."""

from __future__ import annotations

from collections import Counter

import pytest

from corpus.bench import coverage


def test_opencl_kernels_are_modelled(capsys: pytest.CaptureFixture[str],
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "sets", lambda: ("opencl_gfx942",))
    found = coverage.measure("gcn")
    assert set(found) == {"gfx942"}
    share = found["gfx942"]
    assert share.kernels > 0
    assert share.errors == []
    assert share.percent >= coverage.LEAST
    assert coverage.show(found) == 0
    assert "% modelled" in capsys.readouterr().out


def test_what_is_not_modelled_is_named_and_shows_in_the_status(
        capsys: pytest.CaptureFixture[str]) -> None:
    share = coverage.Share(1, 99, Counter({"v_new_b32": 1}))
    assert share.percent == 99.0
    assert coverage.show({"gfx942": share}) == 1
    assert "v_new_b32 1" in capsys.readouterr().out
    assert coverage.show({"gfx942": share}, 98.0) == 0
