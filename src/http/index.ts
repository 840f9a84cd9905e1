// HTTP listener, client checks, request bodies and responses, for built-in and third-party transports.

export type { HttpHost, HttpMount, Refusal } from "../ports/http-host.js";
export { openHttpHost, type HttpHostOptions, type Remedy } from "./http-host.js";
export type { GateOptions } from "./gate.js";
export type { UserOptions } from "./request-users.js";
export { answer, endRaw } from "./answers.js";
export { BodyError, rechunkBody, readBody, type RechunkedBody } from "./body.js";
export { getLogFields } from "./request-fields.js";
export { logRefusal } from "./refusals.js";
export { isJsonType, isLoopback, refusalOf, upgradeRefusalOf, type WebRules } from "./web-safety.js";
