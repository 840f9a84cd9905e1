import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import type { ShapeName } from "./openapi-shapes.js";
import { RunState, type SESSION_EVENTS } from "./shapes.js";

export interface Answer {
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
  answers: Readonly<Record<number, Answer>>;
}

const text = { type: "string" };
const from = (minimum: number, more = {}) => ({ type: "integer", minimum, ...more });
const query = (name: string, schema: object, about: string): Parameter => ({ in: "query", name, schema, about });
const header = (name: string, schema: object, about: string): Parameter => ({ in: "header", name, schema, about });

export const HEADERS = {
  [SESSION_HEADER]: { schema: text, about: "The session, as lists show it" },
  [RUN_HEADER]: { schema: text, about: "The run's own id" },
  [MODEL_HEADER]: {
    schema: text,
    about: "The pair that answers, `provider/model`; absent while a run waits in line for its session",
  },
  [IGNORED_HEADER]: { schema: text, about: "Fields of the request that nothing was made of; absent without any" },
  "Retry-After": { schema: from(1), about: "Seconds after which to ask again" },
} as const;

const told = (about: string, ...names: ShapeName[]): Answer => ({ about, shapes: names });
const failure = (about: string, ...headers: (keyof typeof HEADERS)[]): Answer => ({
  about,
  shapes: ["Failure"],
  headers,
});

/** Errors of every operation: access denied, server overloaded or stopping. */
const door = {
  401: failure("A required header is absent or wrong"),
  403: failure("The page, the host, the user or the process is not allowed, or only a person may do this"),
  503: failure("A limit was reached, the store is away, or the server stops", "Retry-After"),
};
const stored = { ...door, 500: failure("Something unexpected; the log has it") };
const wrongQuery = { 400: failure("A query parameter is wrong") };
const missing = (what: string) => ({ 404: failure(`There is no such ${what}`) });
const ofPages = { 415: failure("A page's POST that is not declared as JSON") };
const body = {
  400: failure("The body, or a field of it, is wrong"),
  413: failure("The body is too large"),
  415: failure("A page's body that is not declared as JSON, or a compressed one"),
};
const size = query("size", from(1, { default: 20 }), "At most 100");
const ofSession = query("session_id", text, "Those of this session");
const seq = from(0);

const OF_RUN = [RUN_HEADER, SESSION_HEADER, MODEL_HEADER, IGNORED_HEADER] as const;

/** Every operation of the API. */
export const OPERATIONS: readonly Operation[] = [
  {
    ...{ id: "health", path: "/api/health", method: "get", about: "Whether the process lives" },
    answers: { 200: told("It does", "Health"), ...door },
  },
  {
    ...{ id: "ready", path: "/api/ready", method: "get", about: "Whether runs should be sent here" },
    answers: {
      ...door,
      200: told("They should", "Ready"),
      503: { about: "They should not: every reason why", shapes: ["NotReady"], headers: ["Retry-After"] },
    },
  },
  {
    ...{ id: "describe", path: "/api/openapi.json", method: "get", about: "This document" },
    answers: { 200: { about: "OpenAPI 3.1" }, ...door },
  },
  {
    ...{ id: "listModels", path: "/api/models", method: "get", about: "The models of every provider" },
    answers: { 200: told("Those that can be had", "ModelList"), ...stored },
  },
  {
    ...{ id: "listCommands", path: "/api/commands", method: "get", about: "What can be said by `/name words`" },
    parameters: [
      query("session_id", text, "of a session: its folder, and what its servers of tools offer"),
      query("project_dir", text, "of a folder"),
    ],
    answers: {
      200: told("Those of the session, or of a new one", "CommandList"),
      ...wrongQuery,
      ...missing("session"),
      ...stored,
    },
  },
  {
    id: "run",
    path: "/api/run",
    method: "post",
    about: "A run: one answer at its end, a stream, or in the background",
    parameters: [
      header(
        "Idempotency-Key",
        { ...text, pattern: "^[\\x21-\\x7e]{1,256}$" },
        "The same key and body within a day are one run, however often it is asked for",
      ),
    ],
    body: "RunRequest",
    answers: {
      200: {
        about: "The run's result; with `stream` its events",
        shapes: ["RunResult"],
        events: { agent: "AgentEvent", done: "DoneEvent", error: "Failure" },
        headers: OF_RUN,
      },
      202: { about: "It has begun, or waits in line", shapes: ["RunAccepted"], headers: OF_RUN },
      ...body,
      ...missing("session"),
      409: failure("The session is running", "Retry-After"),
      422: failure("The key was used with another body"),
      ...stored,
      500: failure("The run failed"),
      504: failure("No model was found in time; `detail` is what each provider said last"),
    },
  },
  {
    ...{ id: "listRuns", path: "/api/runs", method: "get", about: "Runs, newest first" },
    parameters: [
      query("state", { enum: RunState.options }, "Those in this state"),
      ofSession,
      query("before", text, "Id of the last run of the page before"),
      size,
    ],
    answers: { 200: told("A page of them", "RunList"), ...wrongQuery, ...missing("session"), ...stored },
  },
  {
    ...{ id: "showRun", path: "/api/runs/{id}", method: "get", about: "One run" },
    answers: { 200: told("As it is", "Run"), ...missing("run"), ...stored },
  },
  {
    ...{ id: "cancelRun", path: "/api/runs/{id}/cancel", method: "post", about: "End a run, whoever began it" },
    answers: { 200: told("As it is then", "Run"), ...missing("run"), ...ofPages, ...stored },
  },
  {
    ...{ id: "listSessions", path: "/api/sessions", method: "get", about: "Sessions, newest first" },
    parameters: [
      query("page", from(1, { default: 1 }), "Which page"),
      size,
      query("project_dir", text, "Those of this folder"),
      query("search", text, "Part of the title, in any case of letters"),
      query("spawned_by", text, "The helpers of this session, which are in no other list"),
    ],
    answers: { 200: told("A page of them", "SessionList"), ...wrongQuery, ...stored },
  },
  {
    ...{ id: "showSession", path: "/api/sessions/{id}", method: "get", about: "One session" },
    answers: {
      200: { ...told("As it is", "Session"), headers: [SESSION_HEADER] },
      ...missing("session"),
      ...stored,
    },
  },
  {
    id: "changeSession",
    path: "/api/sessions/{id}",
    method: "patch",
    about: "Another title, model, effort or mode",
    body: "SessionChange",
    answers: {
      200: { ...told("As it is then", "Session"), headers: [SESSION_HEADER] },
      ...body,
      ...missing("session"),
      ...stored,
      504: failure("Whether there is such a model could not be found out in time"),
    },
  },
  {
    id: "deleteSession",
    path: "/api/sessions/{id}",
    method: "delete",
    about: "Delete a session; a run in it ends",
    answers: {
      200: told("It is gone", "Deleted"),
      ...missing("session"),
      ...stored,
    },
  },
  {
    ...{ id: "listMessages", path: "/api/sessions/{id}/messages", method: "get", about: "What was said in a session" },
    parameters: [
      query("after", seq, "Those with a greater seq"),
      query("before", from(1), "Those with a smaller seq, the last ones where there is a limit"),
      query("limit", from(1), "At most 1000"),
      query("view", { enum: ["all", "model"], default: "all" }, "`model`: what the model now sees"),
    ],
    answers: { 200: told("By ascending seq", "MessageList"), ...wrongQuery, ...missing("session"), ...stored },
  },
  {
    id: "watch",
    path: "/api/sessions/{id}/events",
    method: "get",
    about: "What is said in a session, as a stream",
    parameters: [
      query("after", text, "Cursor, the id of the last event that the reader has; refused where it is none"),
      query(
        "after_seq",
        seq,
        "Only what was said behind the message with this seq, of a reader that has those up to it; ignored beside a cursor",
      ),
      query("follow", { type: "boolean", default: true }, "`false`: end when all was told"),
      query("can_answer", { type: "boolean", default: false }, "Whether this reader answers what runs ask"),
      header("Last-Event-ID", text, "As `after`; one past the end begins anew"),
    ],
    answers: {
      200: {
        about: "The id of an event is a cursor",
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
      ...missing("session"),
      ...stored,
    },
  },
  {
    id: "cancelSession",
    path: "/api/sessions/{id}/cancel",
    method: "post",
    about: "End the run under way in a session",
    answers: { 200: told("The run; null without one", "SessionRun"), ...missing("session"), ...ofPages, ...stored },
  },
  {
    ...{ id: "steer", path: "/api/sessions/{id}/steer", method: "post", about: "Tell the run under way something" },
    body: "SteerRequest",
    answers: {
      200: told("It will hear it", "SteerAccepted"),
      ...body,
      ...missing("session"),
      409: failure("No run is under way"),
      ...stored,
    },
  },
  {
    ...{ id: "listAsks", path: "/api/asks", method: "get", about: "What runs ask people, newest first" },
    parameters: [
      query("state", { enum: ["open", "all"], default: "open" }, "`all`: also what was answered or withdrawn"),
      ofSession,
      query(
        "can_answer",
        { type: "boolean", default: false },
        "Whether this client answers: questions wait for it for 90 s",
      ),
      query("before", text, "Id of the last ask of the page before"),
      size,
    ],
    answers: { 200: told("A page of them", "AskList"), ...wrongQuery, ...missing("session"), ...stored },
  },
  {
    ...{ id: "showAsk", path: "/api/asks/{id}", method: "get", about: "One question" },
    answers: { 200: told("As it is", "Ask"), ...missing("ask"), ...stored },
  },
  {
    ...{ id: "answerAsk", path: "/api/asks/{id}", method: "post", about: "Answer a question: a choice, or a text" },
    body: "AnswerRequest",
    answers: {
      200: told("As it is then", "Ask"),
      ...body,
      ...missing("ask"),
      409: told("It was answered or withdrawn before: how", "AskClosed"),
      ...stored,
    },
  },
];
