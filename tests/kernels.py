"""Small PTX kernels for tests: a header, a body, registers enough for both."""

from __future__ import annotations

REGISTERS = """    .reg .pred %p<32>;
    .reg .b16 %h<64>;
    .reg .b32 %r<64>;
    .reg .f32 %f<96>;
    .reg .f64 %fd<16>;
    .reg .b64 %rd<32>;
"""


def ptx(body: str, params: str = "u64 u64", threads: int = 32, target: str = "sm_90",
        name: str = "k", shared: int = 0) -> str:
    """Return a kernel: parameters by type, %rd1.. preset to pointers, %r1 = tid, %r2 = ctaid.

    Scalar parameters land in %r10, %r11, ...; pointers in %rd1, %rd2, ... in order.
    """
    kinds = params.split()
    declared = ",\n".join(
        f"    .param .{k}{' .ptr .global .align 16' if k == 'u64' else ''} {name}_param_{i}"
        for i, k in enumerate(kinds))
    loads, pointer, scalar = [], 0, 10
    for i, kind in enumerate(kinds):
        if kind == "u64":
            pointer += 1
            loads.append(f"    ld.param.u64 %rd{pointer}, [{name}_param_{i}];")
        else:
            loads.append(f"    ld.param.{kind} %{'f' if kind == 'f32' else 'r'}{scalar}, "
                         f"[{name}_param_{i}];")
            scalar += 1
    smem = f"    .shared .align 16 .b8 smem[{shared}];\n" if shared else ""
    lines = "\n".join("    " + line.strip() for line in body.strip().splitlines())
    return (f".version 8.0\n.target {target}\n.address_size 64\n\n.visible .entry {name}(\n"
            f"{declared}\n)\n.reqntid {threads}\n{{\n{REGISTERS}{smem}" + "\n".join(loads)
            + f"\n    mov.u32 %r1, %tid.x;\n    mov.u32 %r2, %ctaid.x;\n{lines}\n    ret;\n}}\n")


def elementwise(body: str, result: str = "%f9", **more: object) -> str:
    """Return a kernel c[i] = body(a[i], b[i]): %f1 = a, %f2 = b, %f3 = a[i+1]; result as named."""
    return ptx(f"""
        mad.lo.s32 %r3, %r2, 32, %r1;
        mul.wide.u32 %rd4, %r3, 4;
        add.s64 %rd5, %rd1, %rd4;
        add.s64 %rd6, %rd2, %rd4;
        add.s64 %rd7, %rd3, %rd4;
        ld.global.f32 %f1, [%rd5];
        ld.global.f32 %f2, [%rd6];
        {body}
        st.global.f32 [%rd7], {result};
        """, "u64 u64 u64", **more)  # type: ignore[arg-type]


def butterfly(first: str, second: str, offsets: tuple[int, ...] = (1, 2, 4, 8, 16)) -> str:
    """Return a sum over one warp of two elements a lane, at the two byte offsets given as PTX."""
    steps = "\n".join(f"shfl.sync.bfly.b32 %f5, %f4, {o}, 31, -1;\nadd.rn.f32 %f4, %f4, %f5;"
                      for o in offsets)
    return ptx(f"""
        {first}
        add.s64 %rd5, %rd1, %rd4;
        ld.global.f32 %f1, [%rd5];
        {second}
        add.s64 %rd7, %rd1, %rd6;
        ld.global.f32 %f2, [%rd7];
        add.rn.f32 %f4, %f1, %f2;
        {steps}
        setp.eq.s32 %p1, %r1, 0;
        @%p1 st.global.f32 [%rd2], %f4;
        """)
