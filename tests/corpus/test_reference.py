"""The reference bench: replayed sums and products lie within the error that their trees allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corpus.bench import reference
from corpus.load import CorpusKernel, load_set


def _kernel(family: str, variant: str) -> CorpusKernel:
    return next(k for k in load_set("gfx942")
                if k.family == family and k.config["variant"] == variant)


@pytest.mark.parametrize(("family", "variant"), [
    ("reductions", "row_sum_f32"), ("reductions", "col_sum_tile_loop_f32"), ("gemm_bf16", "")])
def test_results_lie_within_the_error_allowed(family: str, variant: str) -> None:
    line = reference.Line()
    reference.check(_kernel(family, variant), line, "normal", 1)
    assert line.kernels == 1
    assert line.elements > 0
    assert line.problems == []
    assert line.worst <= 1


def test_products_of_tf32_are_allowed_what_their_operands_lose(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten digits of each operand: the product lies within that, and not within single precision."""
    kernel = next(k for k in load_set("gfx942") if k.family == "gemm_f32" and "_xf32" in k.text)
    line = reference.Line()
    reference.check(kernel, line, "normal", 1)
    assert (line.kernels, line.problems) == (1, [])
    with monkeypatch.context() as patch:
        patch.setattr(reference, "TF32_CUT", 0.0)
        reference.check(kernel, line, "normal", 1)
    assert line.problems


def test_another_sum_lies_outside(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = _kernel("reductions", "row_sum_f32")
    assert "v_add_f32" in kernel.text
    line = reference.Line()
    changed = replace(kernel, text=kernel.text.replace("v_add_f32", "v_sub_f32"))
    reference.check(changed, line, "normal", 1)
    assert line.problems
    assert reference.show({"row_sum": line}) == 1
    assert "of what is allowed" in capsys.readouterr().out
