// The API as openapi.json describes it.
import { ask } from "./api.js";
import { byId, element, table } from "./element.js";
import { stringify } from "./exact_json.js";

const LARGEST = 3e38; // Bounds of float32 say no more than its type.

async function start() {
  byId("status").textContent = "Asking the server ...";
  const { content } = await ask("openapi.json");
  document.title = `API of ${content.info.title}`;
  byId("title").textContent = `API of ${content.info.title}`;
  const operations = Object.entries(content.paths).flatMap(([path, methods]) =>
    ["get", "post"]
      .filter((method) => method in methods)
      .map((method) => ({
        path,
        method: method.toUpperCase(),
        parameters: methods.parameters ?? [],
        ...methods[method],
      })),
  );
  byId("operations").replaceChildren(...operations.map(operation));
  const links = operations.map(({ operationId, method, path }) =>
    element("li", element("a", `${method} ${path}`, { href: `#${operationId}` })),
  );
  byId("contents").replaceChildren(element("ul", links));
  byId("contents").hidden = false;
  byId("status").textContent = `${operations.length} operations.`;
}

function operation({ path, method, operationId, parameters, requestBody, responses }) {
  const heading = element("h2", `${method} ${path}`, {
    id: `${operationId}-title`,
  });
  const { 200: right, ...wrong } = responses;
  const parts = [heading, element("p", `${right.description}.`)];
  if (parameters.length) {
    const rows = parameters.map(({ name, in: place, schema: of }) => [
      name,
      `${place}, ${briefly(of)}`,
    ]);
    parts.push(table("Parameters", ["name", { text: "what", isText: true }], rows));
  }
  if (requestBody) parts.push(body("Request", requestBody));
  parts.push(body("Answer", right));
  const headers = Object.entries(right.headers ?? {});
  if (headers.length) {
    const rows = headers.map(([name, { description }]) => [name, description]);
    parts.push(table("Headers of the answer", ["name", { text: "what", isText: true }], rows));
  }
  if (Object.keys(wrong).length) {
    const rows = Object.entries(wrong).map(([status, { description }]) => [
      status,
      description,
    ]);
    const header = ["status", { text: "what", isText: true }];
    const errors = table('Errors, answered as {"error": "what is wrong"}', header, rows);
    parts.push(element("details", [element("summary", "Errors"), errors]));
  }
  return element("section", parts, {
    id: operationId,
    class: "operation",
    "aria-labelledby": heading.id,
  });
}

function body(title, { content }) {
  const parts = Object.entries(content).map(([type, { schema: of }]) =>
    element("li", [`${type}: ${briefly(of)}`, ...inside(of)]),
  );
  return element("div", [
    element("h3", title),
    element("ul", parts, { class: "schema" }),
  ]);
}

// A schema in a few words, without what is inside of it.
function briefly(of) {
  const { value, isNullable } = withoutNull(of);
  if (isNullable) return `${briefly(value)} or null`;
  const said = [of.type ?? (of.enum ? "one of" : ofAlternatives(of))];
  if (of.enum) said.push(of.enum.map((each) => stringify(each)).join(", "));
  const [least, most] = [of.minItems ?? of.minimum, of.maxItems ?? of.maximum];
  const unit = of.type === "array" ? " items" : "";
  if (least !== undefined && least === most) said.push(`of ${least}${unit}`);
  else if (least !== undefined && most !== undefined && most < LARGEST) {
    said.push(`from ${least} to ${most}${unit}`);
  } else if (least > -LARGEST) said.push(`from ${least}${unit}`);
  const words = said.filter(Boolean).join(" ") || "anything";
  const names = of["x-classes"] ? ` (${of["x-classes"].join(", ")})` : "";
  return of.description ? `${words}. ${of.description}${names}` : words;
}

function ofAlternatives(of) {
  const several = of.oneOf ?? of.anyOf;
  if (!several) return "";
  const isShort = several.every((each) => !each.properties && !each.items);
  return isShort ? several.map(briefly).join(" or ") : "one of";
}

// A schema that may be null otherwise, alone.
function withoutNull(of) {
  const several = of.anyOf ?? [];
  const values = several.filter(({ type }) => type !== "null");
  const isNullable = several.length === 2 && values.length === 1;
  return { value: isNullable ? values[0] : of, isNullable };
}

// What is inside of a schema, as a list; nothing in one without parts.
function inside(whole) {
  const of = withoutNull(whole).value;
  const required = new Set(of.required ?? []);
  const properties = Object.entries(of.properties ?? {}).map(([name, each]) =>
    part([element("code", name), required.has(name) ? ", required: " : ": "], each),
  );
  const items = of.items ? [part(["each: "], of.items)] : [];
  const several = of.oneOf ?? of.anyOf ?? [];
  const isShort = several.every((each) => !each.properties && !each.items);
  const alternatives = isShort ? [] : several.map((each) => part([], each));
  const all = [...properties, ...items, ...alternatives];
  return all.length ? [element("ul", all, { class: "schema" })] : [];
}

const part = (before, of) =>
  element("li", [...before, briefly(of), ...inside(of)]);

start().catch((error) => {
  byId("status").textContent = "";
  byId("problem").textContent = error.message;
});
