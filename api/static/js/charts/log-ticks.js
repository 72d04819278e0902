// Ticks of logarithmic axes: few enough to be read, each with its whole number.
import { formatNumber } from "../common/format.js";

const ALL_DIGITS = [1, 2, 3, 4, 5, 6, 7, 8, 9];
const DIGIT_SETS = [[1, 2, 5], [1, 3], [1]]; // from dense to sparse
const MIN_LABELS = 3;
const MAX_DECADES_WITH_MINOR_TICKS = 12;
const ROUNDING = 1e-9; // relative error of an axis limit that is meant to be a tick
// Ticks within these bounds are written out; if any is outside, all of them are powers of ten.
const MIN_PLAIN = 1e-3;
const MAX_PLAIN = 1e4;
const SUPERSCRIPT_DIGITS = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** Return labelled ticks `{values, texts}` and unlabelled `minor` ones from `low` to `high`. */
export function createLogTicks(low, high, maxLabels) {
  const values = chooseTickValues(low, high, Math.max(MIN_LABELS, maxLabels));
  const decades = Math.log10(high / low);
  const minor = decades > MAX_DECADES_WITH_MINOR_TICKS ? [] : listTicks(low, high, ALL_DIGITS);
  return { values, texts: formatTicks(values), minor: minor.filter((value) => !values.includes(value)) };
}

function chooseTickValues(low, high, maxLabels) {
  for (const digits of DIGIT_SETS) {
    const values = listTicks(low, high, digits);
    if (values.length <= maxLabels) {
      return values.length >= MIN_LABELS ? values : listCloseTicks(low, high, maxLabels);
    }
  }
  const powers = listTicks(low, high, [1]);
  const step = Math.ceil(powers.length / maxLabels);
  return powers.filter((power) => Math.round(Math.log10(power)) % step === 0);
}

function listTicks(low, high, digits) {
  const ticks = [];
  const lastPower = Math.floor(Math.log10(high));
  for (let power = Math.floor(Math.log10(low)); power <= lastPower; power += 1) {
    for (const digit of digits) {
      const value = Number(`${digit}e${power}`);
      if (value >= low * (1 - ROUNDING) && value <= high * (1 + ROUNDING)) ticks.push(value);
    }
  }
  return ticks;
}

/** Return the ticks of an axis that spans little: all digits, or if these are few, at equal distances. */
function listCloseTicks(low, high, maxLabels) {
  const digits = listTicks(low, high, ALL_DIGITS);
  if (digits.length >= MIN_LABELS && digits.length <= maxLabels) return digits;
  const roughStep = (high - low) / maxLabels;
  const power = Math.floor(Math.log10(roughStep));
  const digit = [1, 2, 5, 10].find((candidate) => candidate * 10 ** power >= roughStep);
  const step = digit * 10 ** power;
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high; index += 1) {
    ticks.push(Number((index * step).toPrecision(6)));
  }
  return ticks.length ? ticks : [low];
}

/** Format ticks alike: as plain numbers if all of them are short, else as powers of ten. */
function formatTicks(values) {
  const isPlain = values.every((value) => value >= MIN_PLAIN && value <= MAX_PLAIN);
  return values.map(isPlain ? formatNumber : formatScientific);
}

/** Format a positive number as 10⁻⁵ or 2·10⁻⁵. */
export function formatScientific(value) {
  const [digits, exponent] = Number(value.toPrecision(3)).toExponential().split("e");
  if (exponent === "+0") return digits;
  const power = `10${[...exponent.replace("+", "")].map(toSuperscript).join("")}`;
  return digits === "1" ? power : `${digits}·${power}`;
}

function toSuperscript(character) {
  return character === "-" ? "⁻" : SUPERSCRIPT_DIGITS[character];
}
