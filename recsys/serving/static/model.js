// What a model takes and returns, from its metadata in the API.

const EXPERTS = "/experts";
const BUDGET = "budget";
const INTEGERS = ["DT_INT32", "DT_INT64"];
const FLOATS = ["DT_FLOAT", "DT_DOUBLE"];

// Returns
//   name, version
//   inputs: [{name, type, sizes}], type "integer", "number", "text" or
//     "truth", sizes those of a row, -1 for any
//   budget: the input of that name, undefined without one
//   columns: names of the outputs with predictions
//   experts: {task: name of its output with the weights of experts}
//   numExperts: how many there are, undefined without such outputs
//   classes, calibration, examples: as in the metadata, {} without
//   recommends: whether it finds items, rather than ranking given ones
export function describe({ model_spec: spec, metadata }) {
  const { inputs, outputs } =
    metadata.signature_def.signature_def.serving_default;
  const classes = metadata.classes ?? {};
  const all = Object.entries(inputs).map(input).sort(byName);
  const budget = all.find(({ name }) => name === BUDGET);
  const recommends = ["item", "score"].every(
    (name) => name in outputs && sizes(outputs[name]).length === 1,
  );
  const experts = Object.keys(outputs)
    .filter((name) => name.endsWith(EXPERTS))
    .map((name) => [name.slice(0, -EXPERTS.length), name])
    .filter(([task]) => task in outputs || Object.hasOwn(classes, task));
  const others = new Set(experts.map(([, name]) => name));
  if (recommends) others.add("item").add("score");
  return {
    name: spec.name,
    version: spec.version,
    inputs: all.filter(({ name }) => name !== BUDGET),
    budget,
    columns: Object.keys(outputs).filter((name) => !others.has(name)),
    numOutputs: Object.keys(outputs).length,
    experts: Object.fromEntries(experts),
    numExperts: experts.length ? sizes(outputs[experts[0][1]]).at(-1) : undefined,
    classes,
    calibration: metadata.calibration ?? {},
    examples: metadata.examples ?? {},
    recommends,
  };
}

function sizes({ tensor_shape: { dim } }) {
  return dim.slice(1).map(({ size }) => Number(size));
}

function input([name, tensor]) {
  let type = "text";
  if (INTEGERS.includes(tensor.dtype)) type = "integer";
  if (FLOATS.includes(tensor.dtype)) type = "number";
  if (tensor.dtype === "DT_BOOL") type = "truth";
  return { name, type, sizes: sizes(tensor) };
}

// Ids before lists and numbers: whom it is about comes first.
function byName(one, other) {
  const rank = ({ type, sizes: of }) => of.length * 2 + (type === "number");
  return rank(one) - rank(other) || (one.name < other.name ? -1 : 1);
}

// Returns the rows of an answer, each {output: value}.
export function rowsOf(model, content) {
  if (model.numOutputs > 1) return content.predictions;
  const [name] = [...model.columns, ...Object.values(model.experts)];
  return content.predictions.map((value) => Object.fromEntries([[name, value]]));
}

// Returns the items that a row of an answer has, the best first, each
// {item, score, output: value}; a ranker's row is its own and only item.
export function itemsOf(model, row) {
  if (!model.recommends) return [row];
  return row.item
    .map((_, at) =>
      Object.fromEntries(
        Object.entries(row).map(([name, values]) => [name, values[at]]),
      ),
    )
    .filter(({ item }) => item !== "" && item !== -(2n ** 63n));
}
