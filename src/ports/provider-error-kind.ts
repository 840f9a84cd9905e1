/**
 * Category of a provider error. `too_large`: the content exceeds a fixed limit, so that a retry would fail too.
 * `malformed_answer`: the answer is invalid, for instance empty or with an unreadable call. A retry with a hint mostly
 * succeeds.
 */
export type ProviderErrorKind =
  | ("authentication" | "permission" | "not_found" | "bad_request" | "context_length" | "content_filter" | "rate_limit")
  | ("overloaded" | "server" | "network" | "timeout" | "protocol" | "too_large" | "malformed_answer");
