// What a transport needs that mounts on an HTTP port, ours or its own: the port, what it asks of who comes, bodies, answers.

export type { HttpHost, HttpMount, Refusal } from "../ports/http-host.js";
export { openHttpHost, type HttpHostOptions, type Remedy } from "./http-host.js";
export type { GateOptions } from "./gate.js";
export { answer, endRaw } from "./answers.js";
export { BodyError, gatheredBody, readBody, type GatheredBody } from "./body.js";
export { isJsonType, refusalOf, upgradeRefusalOf, type WebRules } from "./web-safety.js";
