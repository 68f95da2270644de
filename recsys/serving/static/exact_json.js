// JSON whose integers are exact: those beyond 2^53 become BigInt.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
// A key that no text has by chance.
const MARK = `integer ${Math.random()}`;

function isLarge(token) {
  return /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
}

export function parse(text) {
  const marked = text.replace(TOKEN, (token) =>
    isLarge(token) ? `{"${MARK}":"${token}"}` : token,
  );
  return JSON.parse(marked, (_, value) =>
    typeof value?.[MARK] === "string" ? BigInt(value[MARK]) : value,
  );
}

export function stringify(value) {
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map(stringify).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([key, each]) => `${JSON.stringify(key)}: ${stringify(each)}`,
  );
  return `{${members.join(", ")}}`;
}
