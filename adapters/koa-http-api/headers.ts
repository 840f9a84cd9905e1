export const JSON_TYPE = "application/json";
export const SESSION_HEADER = "X-Session-Id";
export const RUN_HEADER = "X-Run-Id";
export const MODEL_HEADER = "X-Model";
/** Names fields of a request that nothing was made of: most likely misspelt. */
export const IGNORED_HEADER = "X-Ignored-Fields";
