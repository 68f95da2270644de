// The table of predictions, or of recommended items.
import { byId, element, table } from "./element.js";
import { textOf } from "./fields.js";
import { itemsOf } from "./model.js";
import { band, expertLine, number, prediction } from "./shown.js";

// Shows an answer.
//   given: the rows of the request
//   rows: those of the answer
//   onExplain: called with the numbers of a row and of an item in it
export function showAnswer(model, given, rows, onExplain) {
  const lines = rows.flatMap((row, at) =>
    itemsOf(model, row).map((item, place) => ({ at, place, item })),
  );
  const header = [
    model.recommends ? "item" : "row",
    ...(model.recommends && rows.length > 1 ? ["row"] : []),
    ...(model.recommends ? ["score"] : []),
    ...model.columns.map((column) => columnOf(model, column)),
    ...Object.keys(model.experts).map((task) => ({
      text: `experts of ${task}`,
      isText: true,
    })),
    { text: "explanation", isText: true },
  ];
  const what = model.recommends ? "Recommended items" : "Predictions";
  const shown = table(
    `${what} of version ${model.version}, in the order of the answer`,
    header,
    lines.map((line) => cells(model, given, rows, line, onExplain)),
  );
  byId("answer-title").textContent = what;
  byId("answer-table").replaceChildren(shown);
  byId("answer-notes").replaceChildren(...notes(model).map((text) => element("p", text)));
  byId("answer").hidden = false;
  const bodies = shown.querySelectorAll("tbody tr");
  return {
    lines,
    // Marks the line that is explained.
    choose: (at) =>
      bodies.forEach((row, n) => row.classList.toggle("chosen", n === at)),
  };
}

// The header of a column of predictions; classes are texts.
export const columnOf = (model, column, text = column) => ({
  text,
  isText: Object.hasOwn(model.classes, column),
});

// What a row is about, for its heading.
export function nameOf(model, given, { at, item }) {
  if (model.recommends) return textOf(item.item);
  const values = Object.entries(given[at]).slice(0, 2);
  return values.map(([name, value]) => `${name} ${textOf(value)}`).join(", ");
}

function cells(model, given, rows, line, onExplain) {
  const { at, item } = line;
  const name = nameOf(model, given, line);
  const button = element("button", "Explain", {
    type: "button",
    "aria-label": `Explain ${name}`,
  });
  button.addEventListener("click", () => onExplain(line));
  return [
    name,
    ...(model.recommends && rows.length > 1 ? [String(at + 1)] : []),
    ...(model.recommends ? [number(item.score)] : []),
    ...model.columns.map((column) => predictionCell(model, column, item[column])),
    ...Object.values(model.experts).map((output) => expertLine(item[output])),
    button,
  ];
}

function predictionCell(model, column, value) {
  const shown = prediction(value, model.classes[column]);
  const calibration = model.calibration[column];
  return calibration ? [...shown, band(calibration, value)] : shown;
}

function notes(model) {
  const found = [];
  const measured = Object.entries(model.calibration);
  for (const [task, { rows, method }] of measured) {
    const fitted = method ? `calibrated (${method})` : "not calibrated";
    found.push(
      `${task}, below: the 95\u202f% interval of the mean label of test rows ` +
        `with about the same prediction, of ${rows} rows in all. ` +
        `The model is ${fitted} for it.`,
    );
  }
  if (measured.length === 0) {
    found.push(
      "No calibration band: this model was exported without the data of its " +
        "run, or has no task with one number.",
    );
  }
  if (Object.keys(model.experts).length === 0) {
    found.push(
      "No experts: this model does not return their weights. One with " +
        "experts does if it is exported with --expert-weights.",
    );
  } else {
    found.push("Experts: number and weight, the heaviest first.");
  }
  return found;
}
