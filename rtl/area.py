#!/usr/bin/env python3
"""What the modules of rtl/ take of an FPGA, as Yosys estimates it, beside Table I of HeteroKV's paper.

Yosys maps each module, flattened, to the cells of Intel's Cyclone V (synth_intel_alm): look-up tables (two small ones,
or a large one, fit an ALM), flip-flops, 10 Kbit block RAMs. Nothing is placed or routed, and the paper states percent
of a Stratix 10 that it does not name further: the two are not the same measure. `--set` changes parameters for a quick
look."""

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RTL = Path(__file__).resolve().parent
TOPS = ("merge_sorter", "tree", "head_table")
COPIES = 4
COLUMNS = ("ALUT", "of it arithmetic", "FF", "M10K", "MLAB", "ns")
CELL = re.compile(r"^ +MISTRAL_(\w+) +(\d+)$", re.MULTILINE)
DELAY = re.compile(r"Del = *(\d+\.\d+)")
PAPER = (  # ALMs, BRAM bits (%)
    ("preprocess PE (sorter and request buffer)", 16, 2),
    ("dispatcher", 19, 42),
    ("other modules", 7, 4),
    ("total", 42, 48),
)


def numbers_of(log: str) -> dict[str, float]:
    """Of Yosys' log: cells of its last statistics; the longest path between registers, the last estimate of it."""
    cells = {name: int(count) for name, count in CELL.findall(log[log.rindex("Printing statistics") :])}
    luts = {name: count for name, count in cells.items() if name.startswith("ALUT")}
    return {
        "ALUT": sum(luts.values()),
        "of it arithmetic": luts.get("ALUT_ARITH", 0),
        "FF": cells.get("FF", 0),
        "M10K": cells.get("M10K", 0),
        "MLAB": cells.get("MLAB", 0),
        "ns": float(DELAY.findall(log)[-1]) / 1000,
    }


def synthesize(top: str, settings: list[str]) -> dict[str, float]:
    parameters = " ".join(f"-chparam {name} {value}" for name, _, value in (s.partition("=") for s in settings))
    script = (
        f"read_verilog -sv -defer {' '.join(str(p) for p in sorted(RTL.glob('*.sv')))}; "
        f"hierarchy -check -top {top} {parameters}; "
        f"synth_intel_alm -family cyclonev -top {top} -noiopad -noclkbuf; check -assert; stat"
    )
    done = subprocess.run(["yosys", "-p", script], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{top}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    if "$_DLATCH" in done.stdout or "Latch inferred" in done.stdout:
        raise SystemExit(f"{top}: has a latch")
    return numbers_of(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TOPS, default=TOPS)
    parser.add_argument("--set", nargs="+", default=[], metavar="PARAMETER=VALUE")
    options = parser.parse_args()
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(options.only, pool.map(lambda top: synthesize(top, options.set), options.only), strict=True))
    print("| module | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "---:|" * len(COLUMNS))
    if set(found) == set(TOPS):
        sums = {c: found["merge_sorter"][c] + COPIES * found["tree"][c] + found["head_table"][c] for c in COLUMNS}
        sums["ns"] = max(row["ns"] for row in found.values())
        found[f"sorter, {COPIES} trees, head table"] = sums
    for name, row in found.items():
        print(f"| {name} | " + " | ".join(f"{row[c]:.1f}" if c == "ns" else f"{row[c]:.0f}" for c in COLUMNS) + " |")
    print("\nns: the longest path between registers before placement, with Cyclone V's cells; 250 MHz is 4 ns.")
    print("\nThe paper's Table I, percent of a Stratix 10, another measure:\n")
    print("| module | ALMs | BRAM bits |\n|---|---:|---:|")
    for name, alms, bits in PAPER:
        print(f"| {name} | {alms} % | {bits} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
