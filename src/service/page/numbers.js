// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

const digits = (value, count = 3) =>
  value === 0 ? "0" : Math.abs(value) >= 10 ** count ? Math.round(value).toLocaleString("en")
    : String(Number(value.toPrecision(count)));

function seconds(value) {
  if (value === 0) return "0 s";
  if (value < 1e-3) return digits(value * 1e6) + " µs";
  if (value < 1) return digits(value * 1e3) + " ms";
  if (value < 120) return digits(value) + " s";
  if (value < 7200) return digits(value / 60) + " min";
  if (value < 172800) return digits(value / 3600) + " h";
  return digits(value / 86400) + " days";
}

function scaled(value, units) {
  let step = 0;
  while (step + 1 < units.length && Math.abs(value) >= 1000) {
    value /= 1000;
    ++step;
  }
  return digits(value) + units[step];
}

const bytes = (value) => scaled(value, [" B", " kB", " MB", " GB", " TB", " PB"]);
const count = (value) => scaled(value, ["", " k", " M", " G", " T", " P", " E"]);
const money = (value) => (value >= 1000 ? digits(value) : value >= 1 ? value.toFixed(2) : digits(value, 2));
const percent = (share) => digits(100 * share, 2) + " %";

/** `12 s (8 … 19 s)`: the units of both ends where they differ. */
function between(quantiles, text) {
  const low = text(quantiles.p05), high = text(quantiles.p95);
  const unit = (one) => one.slice(one.lastIndexOf(" "));
  const same = low.includes(" ") && unit(low) === unit(high);
  return (same ? low.slice(0, low.lastIndexOf(" ")) : low) + " … " + high;
}

const unitsOfTime = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

/** Round numbers from 0 to the largest value, in one unit of time. */
function timeTicks(largest, most = 5) {
  const [unit, name] = unitsOfTime.find(([size]) => largest >= 2 * size) ?? unitsOfTime.at(-1);
  return ticks(largest / unit, most).map((value) => ({ at: value * unit, text: value === 0 ? "0" : `${digits(value)} ${value === 1 && name === "days" ? "day" : name}` }));
}

/** Round numbers from 0 to the largest value. */
function ticks(largest, most = 5) {
  if (!(largest > 0)) return [0];
  const rough = largest / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
  return Array.from({ length: Math.floor(largest / step + 1e-9) + 1 }, (_, i) => i * step);
}
