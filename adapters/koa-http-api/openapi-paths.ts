import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import type { ShapeName } from "./openapi-shapes.js";
import { RunState, type SESSION_EVENTS } from "./shapes.js";

export interface ResponseDescription {
  /**
   * Shapes of the body; `Failure` for errors. Undefined if the answer has `events`, or is described by `about` alone.
   */
  shapes?: readonly ShapeName[];
  /** The shape of each event by its name, if the answer may be a stream. */
  events?: Readonly<Record<string, ShapeName>>;
  headers?: readonly (keyof typeof HEADERS)[];
  about: string;
}

/** A query parameter or a request header. */
interface Parameter {
  in: "query" | "header";
  name: string;
  schema: object;
  about: string;
}

/** A path with one of its methods. */
export interface Operation {
  id: string;
  path: string;
  method: "get" | "post" | "patch" | "delete";
  about: string;
  parameters?: readonly Parameter[];
  body?: ShapeName;
  answers: Readonly<Record<number, ResponseDescription>>;
}

const text = { type: "string" };
const integerFrom = (minimum: number, extraKeywords = {}) => ({ type: "integer", minimum, ...extraKeywords });
const query = (name: string, schema: object, about: string): Parameter => ({ in: "query", name, schema, about });
const header = (name: string, schema: object, about: string): Parameter => ({ in: "header", name, schema, about });

export const HEADERS = {
  [SESSION_HEADER]: { schema: text, about: "Id of the session, as in lists" },
  [RUN_HEADER]: { schema: text, about: "Id of the run" },
  [MODEL_HEADER]: {
    schema: text,
    about: "The model that answers, as `provider/model`; absent while the run is queued",
  },
  [IGNORED_HEADER]: { schema: text, about: "Request fields that were ignored; absent if there are none" },
  "Retry-After": { schema: integerFrom(1), about: "Seconds to wait before the next request" },
} as const;

const success = (about: string, ...names: ShapeName[]): ResponseDescription => ({ about, shapes: names });
const failure = (about: string, ...headers: (keyof typeof HEADERS)[]): ResponseDescription => ({
  about,
  shapes: ["Failure"],
  headers,
});

/** Errors of every operation: access denied, server overloaded or stopping. */
const accessErrors = {
  401: failure("A required header is absent or wrong"),
  403: failure("The page, host, user or process is not allowed, or the request requires a person"),
  503: failure("A limit is reached, the store is unavailable, or the server is stopping", "Retry-After"),
};
const storeErrors = { ...accessErrors, 500: failure("Unexpected error; the log has the details") };
const wrongQuery = { 400: failure("A query parameter is invalid") };
const notFound = (what: string) => ({ 404: failure(`The ${what} does not exist`) });
const pageErrors = { 415: failure("A browser page sent a POST without a JSON content type") };
const body = {
  400: failure("The body or one of its fields is invalid"),
  413: failure("The body is too large"),
  415: failure("A browser page sent a body without a JSON content type, or the body is compressed"),
};
const size = query("size", integerFrom(1, { default: 20 }), "At most 100");
const sessionFilter = query("session_id", text, "Only entries of this session");
const seq = integerFrom(0);

const RUN_HEADERS = [RUN_HEADER, SESSION_HEADER, MODEL_HEADER, IGNORED_HEADER] as const;

/** Every operation of the API. */
export const OPERATIONS: readonly Operation[] = [
  {
    ...{ id: "health", path: "/api/health", method: "get", about: "Whether the process is alive" },
    answers: { 200: success("The process is alive", "Health"), ...accessErrors },
  },
  {
    ...{ id: "ready", path: "/api/ready", method: "get", about: "Whether the server accepts runs" },
    answers: {
      ...accessErrors,
      200: success("The server accepts runs", "Ready"),
      503: { about: "The server accepts no runs; with all reasons", shapes: ["NotReady"], headers: ["Retry-After"] },
    },
  },
  {
    ...{ id: "describe", path: "/api/openapi.json", method: "get", about: "This document" },
    answers: { 200: { about: "OpenAPI 3.1" }, ...accessErrors },
  },
  {
    ...{ id: "listModels", path: "/api/models", method: "get", about: "The models of every provider" },
    answers: { 200: success("The available models", "ModelList"), ...storeErrors },
  },
  {
    ...{ id: "listCommands", path: "/api/commands", method: "get", about: "The slash commands (`/name arguments`)" },
    parameters: [
      query("session_id", text, "A session: commands of its folder and of its MCP servers"),
      query("project_dir", text, "A folder: commands of this folder"),
    ],
    answers: {
      200: success("The commands of the session or folder, else of a new session", "CommandList"),
      ...wrongQuery,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "run",
    path: "/api/run",
    method: "post",
    about: "Start a run: answer at its end, as a stream, or in the background",
    parameters: [
      header(
        "Idempotency-Key",
        { ...text, pattern: "^[\\x21-\\x7e]{1,256}$" },
        "Requests with the same key and body within a day start one run",
      ),
    ],
    body: "RunRequest",
    answers: {
      200: {
        about: "The result of the run; with `stream`, its events",
        shapes: ["RunResult"],
        events: { agent: "AgentEvent", done: "DoneEvent", error: "Failure" },
        headers: RUN_HEADERS,
      },
      202: { about: "The run has started or is queued", shapes: ["RunAccepted"], headers: RUN_HEADERS },
      ...body,
      ...notFound("session"),
      409: failure("The session is running", "Retry-After"),
      422: failure("The key was used with another body"),
      ...storeErrors,
      500: failure("The run failed"),
      504: failure("No model was available in time; `detail` is the last error of each provider"),
    },
  },
  {
    ...{ id: "listRuns", path: "/api/runs", method: "get", about: "Runs, newest first" },
    parameters: [
      query("state", { enum: RunState.options }, "Only runs in this state"),
      sessionFilter,
      query("before", text, "Id of the last run of the previous page"),
      size,
    ],
    answers: { 200: success("One page", "RunList"), ...wrongQuery, ...notFound("session"), ...storeErrors },
  },
  {
    ...{ id: "showRun", path: "/api/runs/{id}", method: "get", about: "One run" },
    answers: { 200: success("The current state", "Run"), ...notFound("run"), ...storeErrors },
  },
  {
    ...{ id: "cancelRun", path: "/api/runs/{id}/cancel", method: "post", about: "Cancel a run of any client" },
    answers: { 200: success("The new state", "Run"), ...notFound("run"), ...pageErrors, ...storeErrors },
  },
  {
    ...{ id: "listSessions", path: "/api/sessions", method: "get", about: "Sessions, newest first" },
    parameters: [
      query("page", integerFrom(1, { default: 1 }), "Page number"),
      size,
      query("project_dir", text, "Only sessions of this folder"),
      query("search", text, "Part of the title, ignoring case"),
      query("spawned_by", text, "The subagent sessions of this session, which no other list contains"),
    ],
    answers: { 200: success("One page", "SessionList"), ...wrongQuery, ...storeErrors },
  },
  {
    ...{ id: "showSession", path: "/api/sessions/{id}", method: "get", about: "One session" },
    answers: {
      200: { ...success("The current state", "Session"), headers: [SESSION_HEADER] },
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "changeSession",
    path: "/api/sessions/{id}",
    method: "patch",
    about: "Change title, model, reasoning effort or mode",
    body: "SessionChange",
    answers: {
      200: { ...success("The new state", "Session"), headers: [SESSION_HEADER] },
      ...body,
      ...notFound("session"),
      ...storeErrors,
      504: failure("The model could not be verified in time"),
    },
  },
  {
    id: "deleteSession",
    path: "/api/sessions/{id}",
    method: "delete",
    about: "Delete a session and cancel its run",
    answers: {
      200: success("The session is deleted", "Deleted"),
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    ...{ id: "listMessages", path: "/api/sessions/{id}/messages", method: "get", about: "The messages of a session" },
    parameters: [
      query("after", seq, "Only messages with a greater seq"),
      query("before", integerFrom(1), "Only messages with a smaller seq; with a limit, the last ones"),
      query("limit", integerFrom(1), "At most 1000"),
      query("view", { enum: ["all", "model"], default: "all" }, "`model`: only messages that the model sees now"),
    ],
    answers: {
      200: success("Messages by ascending seq", "MessageList"),
      ...wrongQuery,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "watch",
    path: "/api/sessions/{id}/events",
    method: "get",
    about: "Stream the events of a session",
    parameters: [
      query("after", text, "Cursor: the id of the last event received. An invalid cursor is rejected"),
      query(
        "after_seq",
        seq,
        "Only events after the message with this seq, for a client that has all messages up to it; ignored with a cursor",
      ),
      query("follow", { type: "boolean", default: true }, "`false`: end after all stored events"),
      query("can_answer", { type: "boolean", default: false }, "Whether this client can answer questions of runs"),
      header("Last-Event-ID", text, "Like `after`; a cursor past the end restarts the stream"),
    ],
    answers: {
      200: {
        about: "Events; the id of an event is a cursor",
        events: {
          state: "StateEvent",
          message: "MessageEvent",
          delta: "DeltaEvent",
          message_end: "MessageEndEvent",
          rewind: "RewindEvent",
          tool_progress: "ToolProgressEvent",
          deleted: "DeletedEvent",
        } satisfies Record<keyof typeof SESSION_EVENTS, ShapeName>,
      },
      ...wrongQuery,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "cancelSession",
    path: "/api/sessions/{id}/cancel",
    method: "post",
    about: "Cancel the active run of a session",
    answers: {
      200: success("The run; null if none was active", "SessionRun"),
      ...notFound("session"),
      ...pageErrors,
      ...storeErrors,
    },
  },
  {
    ...{ id: "steer", path: "/api/sessions/{id}/steer", method: "post", about: "Send a message to the active run" },
    body: "SteerRequest",
    answers: {
      200: success("The run will receive the message", "SteerAccepted"),
      ...body,
      ...notFound("session"),
      409: failure("The session has no active run"),
      ...storeErrors,
    },
  },
  {
    ...{ id: "listAsks", path: "/api/asks", method: "get", about: "Questions of runs to users, newest first" },
    parameters: [
      query("state", { enum: ["open", "all"], default: "open" }, "`all`: also answered and withdrawn questions"),
      sessionFilter,
      query(
        "can_answer",
        { type: "boolean", default: false },
        "Whether this client can answer: it counts as connected for 90 s",
      ),
      query("before", text, "Id of the last question of the previous page"),
      size,
    ],
    answers: { 200: success("One page", "AskList"), ...wrongQuery, ...notFound("session"), ...storeErrors },
  },
  {
    ...{ id: "showAsk", path: "/api/asks/{id}", method: "get", about: "One question" },
    answers: { 200: success("The current state", "Ask"), ...notFound("ask"), ...storeErrors },
  },
  {
    ...{ id: "answerAsk", path: "/api/asks/{id}", method: "post", about: "Answer a question: a choice, or a text" },
    body: "AnswerRequest",
    answers: {
      200: success("The new state", "Ask"),
      ...body,
      ...notFound("ask"),
      409: success("The question was already answered or withdrawn; with its final state", "AskClosed"),
      ...storeErrors,
    },
  },
];
