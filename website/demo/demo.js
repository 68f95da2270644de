// The demonstration: two ONNX files, run by onnxruntime-web.
import * as ort from "./ort.mjs";

const EXPERTS = 8;
const SHOWN = 10;
const here = new URL("./", import.meta.url);
ort.env.wasm.numThreads = 1; // More threads need headers of the server.
ort.env.wasm.wasmPaths = here.href;

async function load() {
  const file = (name) => new URL(name, here).href;
  const [retrieval, ranker, described] = await Promise.all([
    ort.InferenceSession.create(file("retrieval.onnx")),
    ort.InferenceSession.create(file("ranker.onnx")),
    fetch(file("demo.json")).then((answer) => answer.json()),
  ]);
  return { retrieval, ranker, ...described };
}

// The best items for a user, each with its predictions and experts.
async function recommend(model, user, budget) {
  const of = (type, values) => new ort.Tensor(type, values, [values.length]);
  const found = await model.retrieval.run({
    user: of("int64", BigInt64Array.of(BigInt(user))),
  });
  const ids = Array.from(found.items.data, (at) => model.items[Number(at)]);
  const fill = (value) => new Float32Array(ids.length).fill(value);
  const outputs = await model.ranker.run({
    user: of("int64", BigInt64Array.from(ids, () => BigInt(user))),
    item: of("int64", BigInt64Array.from(ids, BigInt)),
    age: of("float32", fill(model.ages[user] ?? NaN)),
    budget: of("float32", fill(budget)),
  });
  const experts = outputs["watch/experts"].data;
  const rows = ids.map((item, n) => {
    const watch = outputs.watch.data[n];
    const rating = outputs.rating.data[n];
    const weights = Array.from(
      experts.slice(n * EXPERTS, (n + 1) * EXPERTS),
    );
    return { item, watch, rating, weights, score: watch ** 0.7 * rating };
  });
  return rows.sort((one, other) => other.score - one.score).slice(0, SHOWN);
}

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  return made;
}

function tableRow(row) {
  const line = element("tr", "", {
    "data-item": row.item,
    "data-score": row.score,
    "data-watch": row.watch,
    "data-rating": row.rating,
  });
  const cell = element("td", "", { class: "demo-experts" });
  row.weights.forEach((weight, expert) => {
    const title = `expert ${expert}: ${weight.toFixed(2)}`;
    const cellOfExpert = element("span", "", { title });
    // What is computed is never white.
    const shade = weight > 0 ? 0.15 + 0.85 * weight : 0;
    cellOfExpert.style.setProperty("--weight", shade);
    cell.append(cellOfExpert);
  });
  line.append(
    element("td", `item ${row.item}`),
    element("td", row.score.toFixed(2)),
    element("td", `${(100 * row.watch).toFixed(0)} %`),
    element("td", row.rating.toFixed(2)),
    cell,
  );
  return line;
}

async function start(root) {
  root.replaceChildren(element("p", "Loading the model (14 MB) ..."));
  const began = performance.now();
  const model = await load();
  const user = element("input", "", {
    type: "number",
    min: 0,
    max: model.ages.length - 1,
    value: 17,
    "aria-label": "user",
  });
  const budget = element("input", "", {
    type: "range",
    min: 1,
    max: EXPERTS,
    step: 0.5,
    value: 2,
    "aria-label": "budget",
  });
  const [age, chosen, status] = ["span", "span", "p"].map((tag) =>
    element(tag),
  );
  const controls = element("p", "", { class: "demo-controls" });
  controls.append("User ", user, age, " Budget ", budget, chosen);
  const table = element("table", "", { class: "demo-items" });
  const head = element("tr");
  for (const title of ["item", "score", "watch", "rating", `experts 0 to ${EXPERTS - 1}`]) {
    head.append(element("th", title));
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  table.append(top, body);
  const scrolled = element("div", "", { class: "demo-table" });
  scrolled.append(table);
  root.replaceChildren(controls, scrolled, status);

  let running = Promise.resolve();
  async function show() {
    const most = model.ages.length - 1;
    const number = Math.min(Math.max(Math.trunc(user.value) || 0, 0), most);
    const experts = Number(budget.value);
    const asked = performance.now();
    const rows = await recommend(model, number, experts);
    const known = model.ages[number];
    age.textContent = known === null ? "" : ` (age ${Math.round(known)})`;
    chosen.textContent = ` ${experts} experts per row on average`;
    body.replaceChildren(...rows.map(tableRow));
    const now = performance.now();
    root.dataset.first ??= now - began;
    root.dataset.milliseconds = now - asked;
    root.dataset.shown = `${number}:${experts}`;
    status.textContent =
      `${(now - asked).toFixed(0)} ms for 100 candidates of user ${number}` +
      `; the first list after ${(root.dataset.first / 1000).toFixed(1)} s`;
  }
  // One run of a session at a time.
  const next = () => (running = running.then(show));
  user.addEventListener("input", next);
  budget.addEventListener("input", next);
  await next();
}

const root = document.getElementById("demo");
if (root) {
  start(root).catch((error) => {
    root.replaceChildren(element("p", `The model does not run here: ${error}`));
  });
}
