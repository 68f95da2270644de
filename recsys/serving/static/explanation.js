// Why a prediction is what it is: each feature left out in turn (occlusion),
// and the weights of experts.
import { columnOf } from "./answer.js";
import { byId, element, table } from "./element.js";
import { textOf } from "./fields.js";
import { itemsOf } from "./model.js";
import { change, experts, number, percent, prediction } from "./shown.js";

// Not a feature: what is not to be recommended.
const SEEN = "seen";

// The request for a row, and the same with each of its features missing.
export function occluded(model, row) {
  const isFeature = (name) =>
    row[name] !== null && name !== "budget" && !(model.recommends && name === SEEN);
  const names = Object.keys(row).filter(isFeature);
  return { names, rows: [row, ...names.map((name) => ({ ...row, [name]: null }))] };
}

// Shows why an item, or a row, is predicted so.
//   row, names: as `occluded` has them
//   place: that of the item among those of the row
//   rows: those of the answer to the request of `occluded`
export function showExplanation(model, name, row, place, names, rows) {
  const lists = rows.map((each) => itemsOf(model, each));
  const [own, ...without] = lists;
  const item = own[place];
  byId("explanation-title").textContent = `Explanation of ${name}`;
  byId("changes").replaceChildren(
    element("h3", "What each feature changed"),
    ...(names.length ? [changes(model, row, names, item, without, own)] : []),
    element(
      "p",
      names.length
        ? "The same request with the feature missing: an id is unknown then, a number the mean. Largest change first."
        : "No feature was given.",
      { class: "notes" },
    ),
  );
  byId("experts").replaceChildren(
    element("h3", "Experts that spoke"),
    weights(model, item),
  );
  byId("explanation").hidden = false;
}

function changes(model, row, names, item, without, own) {
  const columns = [...(model.recommends ? ["score"] : []), ...model.columns];
  const lines = names.map((name, at) => {
    const items = without[at];
    const place = model.recommends
      ? items.findIndex((each) => each.item === item.item)
      : 0;
    return { name, items, place, other: items[place] };
  });
  lines.sort((one, other) => size(columns, item, other) - size(columns, item, one));
  const header = [
    "feature",
    { text: "value", isText: true },
    ...(model.recommends ? ["place without it", "same items"] : []),
    ...columns.map((each) => columnOf(model, each, `${each} without it`)),
  ];
  const body = lines.map(({ name, items, place, other }) => [
    name,
    textOf(row[name]),
    ...(model.recommends
      ? [other ? String(place + 1) : "none", `${common(own, items)} of ${own.length}`]
      : []),
    ...columns.map((column) => changed(model, column, item, other)),
  ]);
  const caption =
    "Predictions without one feature, and by how much it raises or lowers them";
  return table(caption, header, body);
}

// How far a prediction moves at most, for an item that disappears: furthest.
function size(columns, item, { other }) {
  if (!other) return Infinity;
  const moves = columns.map((column) => {
    const [one, two] = [item[column], other[column]];
    if (Array.isArray(one)) {
      return Math.max(...one.map((each, at) => Math.abs(each - two[at])));
    }
    return typeof one === "number" ? Math.abs(one - two) : 0;
  });
  return Math.max(0, ...moves);
}

const common = (own, items) => {
  const there = new Set(items.map(({ item }) => item));
  return own.filter(({ item }) => there.has(item)).length;
};

function changed(model, column, item, other) {
  if (!other) return "";
  const shown = prediction(other[column], model.classes[column]);
  if (typeof item[column] !== "number") return shown;
  return [...shown, element("small", change(item[column] - other[column]))];
}

function weights(model, item) {
  const tasks = Object.entries(model.experts);
  if (tasks.length === 0) {
    return element("p", "This model does not return the weights of its experts.", {
      class: "notes",
    });
  }
  const byTask = tasks.map(([, output]) => item[output]);
  const heaviest = (expert) => Math.max(...byTask.map((each) => each[expert]));
  const used = [...new Set(byTask.flatMap(experts).map(([, expert]) => expert))];
  used.sort((one, other) => heaviest(other) - heaviest(one));
  return table(
    `Weights of the experts by task, of ${byTask[0].length} experts`,
    ["expert", ...tasks.map(([task]) => ({ text: task, isText: true }))],
    used.map((expert) => [
      String(expert),
      ...byTask.map((each) => bar(each[expert])),
    ]),
  );
}

function bar(weight) {
  const share = element("span");
  share.style.setProperty("--share", Math.min(Math.max(weight, 0), 1));
  const drawn = element("span", [share], { class: "bar", "aria-hidden": "true" });
  const text = weight > 0 && weight < 0.005 ? "< 1\u202f%" : percent(weight);
  return [text, drawn];
}
