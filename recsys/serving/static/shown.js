// How predictions, and what goes with them, are written.
import { element } from "./element.js";

export const number = (value) =>
  Number.isInteger(value) ? String(value) : Number(value).toPrecision(4);

export const change = (value) =>
  `${value < 0 ? "\u2212" : "+"}${number(Math.abs(value))}`;

export const percent = (value) => `${(100 * value).toFixed(0)}\u202f%`;

// A prediction as texts and elements: a number, or the classes with the largest
// three of several, each in a line.
export function prediction(value, classes) {
  if (!Array.isArray(value)) {
    return [typeof value === "number" ? number(value) : String(value)];
  }
  if (classes?.names.length !== value.length) {
    return [value.map((each) => number(each)).join(", ")];
  }
  const ranked = value
    .map((each, at) => [each, classes.names[at]])
    .sort(([one], [other]) => other - one);
  return ranked
    .slice(0, 3)
    .map(([each, name]) => element("div", `${name}: ${number(each)}`));
}

// The rows that a calibration was measured on with about this prediction.
export function binOf(calibration, value) {
  const bins = calibration.bins;
  return bins.find(({ most }) => value <= most) ?? bins.at(-1);
}

// Beside a prediction: where the mean label of such rows lies.
export function band(calibration, value) {
  const { low, high } = binOf(calibration, value);
  const { least } = calibration.bins[0];
  const { most } = calibration.bins.at(-1);
  const isBeyond = value < least || value > most;
  const text = `${number(low)} to ${number(high)}`;
  return element("small", isBeyond ? "beyond the test rows" : text);
}

// The experts with weight, the heaviest first.
export function experts(weights) {
  return weights
    .map((weight, expert) => [weight, expert])
    .filter(([weight]) => weight > 0)
    .sort(([one], [other]) => other - one);
}

// The experts of a row in a line, the largest three.
export function expertLine(weights) {
  const found = experts(weights);
  const line = found
    .slice(0, 3)
    .map(([weight, expert]) => `${expert}: ${percent(weight)}`);
  return line.join(", ") + (found.length > 3 ? `, ${found.length - 3} more` : "");
}
