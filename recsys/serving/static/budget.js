// The slider of a model's budget: experts of each row on average.
import { element } from "./element.js";

const ID = "budget";
const MOST = 16; // Where the model does not say how many experts it has.

// A slider, as `createField` of fields.js has it.
//   examples: the least budget, the model's own and the largest, if it says so
//   numExperts: how many experts it has, undefined if it does not say so
export function createBudget(examples, numExperts, onChange) {
  const [least, own, most] = examples.length === 3 ? examples : [1, undefined, numExperts ?? MOST];
  const shown = element("output", "", { for: ID });
  const slider = element("input", "", {
    id: ID,
    type: "range",
    min: least,
    max: most,
    step: "any",
  });
  let isGiven = false;
  const show = () => {
    const value = Number(slider.value).toFixed(1);
    const experts = isGiven ? `${value} experts per row on average` : `the model's own${own === undefined ? "" : `, ${own}`}`;
    shown.textContent = experts;
    slider.setAttribute("aria-valuetext", experts);
  };
  slider.addEventListener("input", () => {
    isGiven = true;
    show();
  });
  slider.addEventListener("change", onChange);
  const label = element("label", "budget", { for: ID });
  const field = {
    name: ID,
    element: element("div", [label, slider, shown], { class: "field" }),
    read: () => (isGiven ? Number(Number(slider.value).toFixed(1)) : undefined),
    write(value) {
      isGiven = value !== undefined && value !== null;
      slider.value = isGiven ? value : (own ?? least);
      show();
    },
  };
  field.write(undefined);
  return field;
}
