// Elements of the page. Whatever comes from a model or a user becomes text.

export function element(tag, content = [], attributes = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...[content].flat().map((each) => each ?? ""));
  return made;
}

export const byId = (id) => document.getElementById(id);

// A table that is scrolled by itself where it is too wide.
//   caption: text
//   header: for each column, its text, or {text, isText} for one of texts
//   rows: lists of cells: text or an element; the first one heads the row
export function table(caption, header, rows) {
  const columns = header.map((each) =>
    typeof each === "string" ? { text: each, isText: false } : each,
  );
  const className = (at) => (at === 0 || columns[at].isText ? "text" : "");
  const head = element(
    "tr",
    columns.map((column, at) =>
      element("th", column.text, { scope: "col", class: className(at) }),
    ),
  );
  const body = rows.map((cells) =>
    element(
      "tr",
      cells.map((cell, at) =>
        at === 0
          ? element("th", cell, { scope: "row" })
          : element("td", cell, { class: className(at) }),
      ),
    ),
  );
  const whole = element("table", [
    element("caption", element("span", caption)),
    element("thead", [head]),
    element("tbody", body),
  ]);
  return element("div", [whole], {
    class: "wide",
    tabindex: "0",
    role: "region",
    "aria-label": caption,
  });
}
