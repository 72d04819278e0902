// Requests to the REST API.

// A refused or failed request. `field` names the first wrong part of the request, `allowed` what it may be;
// `errors` has all of them.
class RestError extends Error {
  constructor({ detail, field, allowed, errors = [] }, status) {
    super(detail || `the service answered ${status}`);
    Object.assign(this, { status, field, allowed, errors });
  }
}

/** Return all errors of a refused request as lines of text. */
export function formatErrors(error) {
  if (!error.errors || error.errors.length < 2) return error.message;
  return error.errors.map(formatFieldError).join("\n");
}

function formatFieldError({ field, allowed, line, column }) {
  const position = line ? `line ${line}, column ${column}: ` : "";
  return `${position}${field}: ${allowed}`;
}

async function send(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RestError({ detail: "The service does not answer." }, 0);
  }
  if (response.status === 401 && path !== "/v1/session") location.reload(); // the page then asks for a token
  if (response.ok) return response;
  throw new RestError(await response.json().catch(() => ({})), response.status);
}

async function sendForJson(path, options) {
  const response = await send(path, options);
  return response.status === 204 ? null : response.json();
}

/** Get a JSON document. */
export function getJson(path) {
  return sendForJson(path);
}

/** Get a file. */
export async function getBlob(path) {
  const response = await send(path);
  return response.blob();
}

/** Post an object as JSON, or a text as it is; `key` makes the request idempotent. */
export function post(path, body, { signal, type = "application/json", key } = {}) {
  const headers = { "Content-Type": type };
  if (key) headers["Idempotency-Key"] = key;
  const text = typeof body === "string" ? body : JSON.stringify(body ?? {});
  return sendForJson(path, { method: "POST", headers, body: text, signal });
}

/** Change some fields of a resource. */
export function sendPatch(path, change) {
  const headers = { "Content-Type": "application/json" };
  return sendForJson(path, { method: "PATCH", headers, body: JSON.stringify(change) });
}

/** Delete a resource. */
export function sendDelete(path) {
  return sendForJson(path, { method: "DELETE" });
}
