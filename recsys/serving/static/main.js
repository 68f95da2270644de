// The page of a model: a form, its answer and why.
import { nameOf, showAnswer } from "./answer.js";
import { ask } from "./api.js";
import { createBudget } from "./budget.js";
import { byId } from "./element.js";
import { parse, stringify } from "./exact_json.js";
import { occluded, showExplanation } from "./explanation.js";
import { createField } from "./fields.js";
import { describe, rowsOf } from "./model.js";

const status = byId("status");
const problem = byId("problem");

// Runs what may fail, one after the other; what is wrong is said.
let running = Promise.resolve();
function attempt(action) {
  running = running.then(async () => {
    problem.textContent = "";
    try {
      await action();
    } catch (error) {
      status.textContent = "";
      problem.textContent = error.message;
    }
  });
  return running;
}

async function start() {
  status.textContent = "Asking the server for its model ...";
  const { content } = await ask("v1/models");
  const address = `v1/models/${encodeURIComponent(content.models[0].name)}`;
  const metadata = await ask(`${address}/metadata`);
  const model = describe(metadata.content);
  document.title = `${model.name}: recsys serve`;
  byId("title").textContent = `${model.name}, version ${model.version}`;
  byId("ask").textContent = model.recommends ? "Recommend" : "Predict";
  byId("panes").hidden = false;
  // All of a page is of one version, also once another one is served.
  listen(model, `${address}/versions/${model.version}:predict`);
  status.textContent = "Ready.";
}

function listen(model, address) {
  const fields = model.inputs.map((input, at) =>
    createField(input, at, model.examples[input.name]),
  );
  let asked = []; // The rows of the last request.
  if (model.budget) {
    const again = () => attempt(() => asked.length && predict(withBudget(asked)));
    const examples = model.examples.budget ?? [];
    fields.push(createBudget(examples, model.numExperts, again));
  }
  byId("fields").replaceChildren(...fields.map((field) => field.element));

  const rowOfForm = () =>
    Object.fromEntries(
      fields
        .map((field) => [field.name, field.read()])
        .filter(([, value]) => value !== undefined),
    );
  const fill = (row) => fields.forEach((field) => field.write(row[field.name]));
  const withBudget = (rows) => {
    const budget = fields.at(-1).read();
    return rows.map((row) => ({ ...row, budget }));
  };

  async function predict(rows) {
    const began = performance.now();
    status.textContent = "Computing ...";
    const { content, cap } = await ask(address, { instances: rows });
    asked = rows;
    const answered = rowsOf(model, content);
    const onExplain = (line) => attempt(() => explain(line, true));
    const { lines, choose } = showAnswer(model, rows, answered, onExplain);
    const what = model.recommends ? "item" : "prediction";
    const spent = (performance.now() - began).toFixed(0);
    const capped = cap ? ` Under load, the budget was lowered to ${cap}.` : "";

    async function explain(line, isAsked) {
      const name = nameOf(model, rows, line);
      const { names, rows: variants } = occluded(model, rows[line.at]);
      const answer = await ask(address, { instances: variants });
      const own = rowsOf(model, answer.content);
      showExplanation(model, name, variants[0], line.place, names, own);
      choose(lines.indexOf(line));
      if (!isAsked) return;
      status.textContent = `Explained ${name}.`;
      byId("explanation-title").focus();
    }

    if (lines.length) await explain(lines[0], false);
    byId("explanation").hidden = lines.length === 0;
    status.textContent = `${counted(lines.length, what)} in ${spent} ms.${capped}`;
  }

  byId("request").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => predict([rowOfForm()]));
  });
  byId("clear").addEventListener("click", () => fill({}));
  const example = byId("example");
  example.hidden = Object.keys(model.examples).length === 0;
  example.addEventListener("click", () => fill(drawn(model)));
  byId("rows").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => predict(pastedRows()));
  });
  byId("fill").addEventListener("click", () =>
    attempt(() => fill(pastedRows()[0])),
  );
}

const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

// A row with one of the examples of each input but the budget.
function drawn(model) {
  return Object.fromEntries(
    model.inputs
      .map(({ name }) => [name, model.examples[name] ?? []])
      .filter(([, values]) => values.length)
      .map(([name, values]) => [
        name,
        values[Math.floor(Math.random() * values.length)],
      ]),
  );
}

// The rows in the text field: alone, in a list, or in a request.
function pastedRows() {
  let content;
  try {
    content = parse(byId("rows-text").value);
  } catch (error) {
    throw new Error(`Rows as JSON: ${error.message}`, { cause: error });
  }
  const { budget } = content ?? {};
  const isRequest = Array.isArray(content?.instances);
  const rows = isRequest ? content.instances : [content].flat();
  const isRow = (row) => row !== null && typeof row === "object" && !Array.isArray(row);
  if (rows.length === 0 || !rows.every(isRow)) {
    throw new Error(
      `Rows as JSON: expected rows such as {"user": 7}. Received: ${stringify(content).slice(0, 80)}`,
    );
  }
  return isRequest && budget !== undefined
    ? rows.map((row) => ({ budget, ...row }))
    : rows;
}

attempt(start);
