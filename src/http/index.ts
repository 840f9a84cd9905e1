// For transports that mount on an HTTP port, built-in or their own: the port, its client checks, request bodies,
// responses.

export type { HttpHost, HttpMount, Refusal } from "../ports/http-host.js";
export { openHttpHost, type HttpHostOptions, type Remedy } from "./http-host.js";
export type { GateOptions } from "./gate.js";
export { answer, endRaw } from "./answers.js";
export { BodyError, gatheredBody, readBody, type GatheredBody } from "./body.js";
export { isJsonType, refusalOf, upgradeRefusalOf, type WebRules } from "./web-safety.js";
