// Requests to the server, with the token where it wants one. The token is kept
// in this page alone, until it is left.
import { byId } from "./element.js";
import { parse, stringify } from "./exact_json.js";

let token = "";

// Returns what a path answers, and the header that says what was left of a
// budget. A body makes it a POST. Until the server has loaded a model, it is
// asked again and again what that is.
export async function ask(path, body) {
  for (;;) {
    const answer = await send(path, body);
    if (answer.status === 401) await askForToken();
    else if (answer.status === 503 && body === undefined) await aSecond();
    else return read(answer);
  }
}

function aSecond() {
  byId("status").textContent = "The server has not loaded a model yet ...";
  return new Promise((resolve) => setTimeout(resolve, 1000));
}

async function send(path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body === undefined) return fetch(path, { headers });
  headers["Content-Type"] = "application/json";
  return fetch(path, { method: "POST", headers, body: stringify(body) });
}

async function read(answer) {
  const text = await answer.text();
  let content;
  try {
    content = parse(text);
  } catch {
    content = { error: `no JSON, with the status ${answer.status}` };
  }
  if (!answer.ok) {
    const gone = answer.status === 404 ? "\nReload the page." : "";
    throw new Error(`${content.error ?? answer.status}${gone}`);
  }
  return { content, cap: answer.headers.get("Budget-Cap") };
}

function askForToken() {
  const form = byId("token");
  const field = byId("token-value");
  byId("status").textContent = token
    ? "The server refused the token."
    : "The server wants a token.";
  form.hidden = false;
  field.focus();
  return new Promise((resolve) => {
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        token = field.value.trim();
        form.hidden = true;
        resolve();
      },
      { once: true },
    );
  });
}
