// Fields of a form for the inputs of a model.
import { element } from "./element.js";
import { parse, stringify } from "./exact_json.js";

const INTEGER = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const TRUTHS = { true: true, false: false };

// A field of an input as `describe` of model.js has it.
//   element: what goes into the form
//   read(): the value for a row, undefined if missing; throws what is wrong,
//     and says it beside the field
//   write(value): shows a value of a row; nothing for a missing one
export function createField(input, at, examples = []) {
  const id = `field-${at}`;
  const hint = element("span", hintOf(input), { class: "hint", id: `${id}-hint` });
  const wrong = element("span", "", { class: "wrong", id: `${id}-wrong` });
  const control = createControl(input, id);
  control.setAttribute("aria-describedby", `${hint.id} ${wrong.id}`);
  const label = element("label", input.name, { for: id });
  const made = element("div", [label, control, hint, wrong], { class: "field" });
  if (examples.length && control.tagName === "INPUT") {
    const list = element(
      "datalist",
      examples.map((each) => element("option", "", { value: textOf(each) })),
      { id: `${id}-list` },
    );
    control.setAttribute("list", list.id);
    made.append(list);
  }
  return {
    name: input.name,
    element: made,
    read() {
      wrong.textContent = "";
      control.removeAttribute("aria-invalid");
      try {
        return valueOf(control.value, input);
      } catch (error) {
        wrong.textContent = error.message;
        control.setAttribute("aria-invalid", "true");
        control.focus();
        throw new Error(`${input.name}: ${error.message}`, { cause: error });
      }
    },
    write(value) {
      control.value = value === undefined || value === null ? "" : textOf(value);
    },
  };
}

function createControl({ type, sizes }, id) {
  if (type === "truth" && sizes.length === 0) {
    const options = ["", ...Object.keys(TRUTHS)];
    return element("select", options.map((each) => element("option", each)), { id });
  }
  const mode = type === "number" && sizes.length === 0 ? "decimal" : "text";
  return element("input", "", {
    id,
    type: "text",
    inputmode: mode,
    autocomplete: "off",
    spellcheck: "false",
  });
}

const ONE = { integer: "integer", number: "number", text: "text", truth: "true or false" };
const SEVERAL = { integer: "integers", number: "numbers", text: "texts", truth: "true or false" };

function hintOf({ type, sizes }) {
  if (sizes.length === 0) return ONE[type];
  if (sizes.length > 1) return `lists of ${SEVERAL[type]}, as JSON`;
  const count = sizes[0] < 0 ? "" : `${sizes[0]} `;
  return `${count}${SEVERAL[type]}, with commas between, or a JSON list`;
}

function valueOf(text, { type, sizes }) {
  // Spaces may belong to a text.
  if (sizes.length === 0 && type === "text") return text === "" ? undefined : text;
  const given = text.trim();
  if (given === "") return undefined;
  if (sizes.length === 0) return parsedElement(given, type);
  if (given.startsWith("[")) return parse(given);
  if (sizes.length > 1) throw new Error(`expected JSON. Received: ${given}`);
  return given.split(",").map((each) => parsedElement(each.trim(), type));
}

// An element from its text.
function parsedElement(text, type) {
  const wrong = () => new Error(`expected ${ONE[type]}. Received: ${text}`);
  if (type === "text") return text;
  if (type === "truth") {
    if (!Object.hasOwn(TRUTHS, text)) throw wrong();
    return TRUTHS[text];
  }
  if (type === "integer") {
    if (!INTEGER.test(text)) throw wrong();
    const exact = BigInt(text.replace("+", ""));
    return Number.isSafeInteger(Number(exact)) ? Number(exact) : exact;
  }
  if (!NUMBER.test(text)) throw wrong();
  return Number(text);
}

// The text of a value, as a field shows and takes it.
export function textOf(value) {
  return typeof value === "object" ? stringify(value) : String(value);
}
