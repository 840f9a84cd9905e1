export const JSON_TYPE = "application/json";
export const SESSION_HEADER = "X-Session-Id";
export const RUN_HEADER = "X-Run-Id";
export const MODEL_HEADER = "X-Model";
/** Response header with the names of the request fields that were ignored, because they are most likely misspelled. */
export const IGNORED_HEADER = "X-Ignored-Fields";
