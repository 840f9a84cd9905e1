import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import { SESSION_STREAM, WATCH_ALL_OPERATION } from "./openapi-events.js";
import {
  accessErrors,
  bodyErrors,
  failure,
  header,
  integerFrom,
  notFound,
  pageErrors,
  query,
  queryErrors,
  storeErrors,
  success,
  textSchema,
  type Operation,
} from "./openapi-operation.js";
import { createRewindOperations } from "./openapi-rewind-paths.js";
import { SERVER_OPERATIONS } from "./openapi-server-paths.js";
import { WORK_OPERATIONS } from "./openapi-work-paths.js";
import { RunState } from "./request-shapes.js";

const sizeParameter = query("size", integerFrom(1, { default: 20 }), "At most 100");
const sessionFilter = query("session_id", textSchema, "Only entries of this session");
const seqSchema = integerFrom(0);

const RUN_HEADERS = [RUN_HEADER, SESSION_HEADER, MODEL_HEADER, IGNORED_HEADER] as const;

/** Every operation of the API. */
export const OPERATIONS: readonly Operation[] = [
  ...SERVER_OPERATIONS,
  {
    id: "run",
    path: "/api/run",
    method: "post",
    summary: "Start a run: answer at its end, as a stream, or in the background",
    parameters: [
      header(
        "Idempotency-Key",
        { ...textSchema, pattern: "^[\\x21-\\x7e]{1,256}$" },
        "Requests with the same key and body within a day start one run",
      ),
    ],
    body: "RunRequest",
    responses: {
      200: {
        description: "The result of the run; with `stream`, its events",
        shapes: ["RunResult"],
        events: { agent: "AgentEvent", done: "DoneEvent", error: "Failure" },
        headers: RUN_HEADERS,
      },
      202: { description: "The run has started or is queued", shapes: ["RunAccepted"], headers: RUN_HEADERS },
      ...bodyErrors,
      404: failure("The session or message does not exist, or `session.rewind` is false"),
      409: {
        description: "The session is running, or files are in conflict with a rewind",
        shapes: ["Failure", "UndoConflict"],
        headers: ["Retry-After"],
      },
      422: failure("The key was used with another body"),
      ...storeErrors,
      500: failure("The run failed"),
      504: failure("No model was available in time; `detail` is the last error of each provider"),
    },
  },
  {
    ...{ id: "listRuns", path: "/api/runs", method: "get", summary: "Runs, newest first" },
    parameters: [
      query("state", { enum: RunState.options }, "Only runs in this state"),
      sessionFilter,
      query("before", textSchema, "Id of the last run of the previous page"),
      sizeParameter,
    ],
    responses: { 200: success("One page", "RunList"), ...queryErrors, ...notFound("session"), ...storeErrors },
  },
  {
    ...{ id: "showRun", path: "/api/runs/{id}", method: "get", summary: "One run" },
    responses: { 200: success("The current state", "Run"), ...notFound("run"), ...storeErrors },
  },
  {
    ...{ id: "cancelRun", path: "/api/runs/{id}/cancel", method: "post", summary: "Cancel a run of any client" },
    responses: { 200: success("The new state", "Run"), ...notFound("run"), ...pageErrors, ...storeErrors },
  },
  {
    ...{ id: "listSessions", path: "/api/sessions", method: "get", summary: "Sessions, newest first" },
    parameters: [
      query("page", integerFrom(1, { default: 1 }), "Page number"),
      sizeParameter,
      query("project_dir", textSchema, "Only sessions of this folder"),
      query("search", textSchema, "Part of the title, ignoring case"),
      query("spawned_by", textSchema, "The subagent sessions of this session, which no other list contains"),
      query(
        "archived",
        { enum: ["exclude", "include", "only"], default: "exclude" },
        "Whether to list archived sessions",
      ),
    ],
    responses: { 200: success("One page", "SessionList"), ...queryErrors, ...storeErrors },
  },
  {
    id: "searchMessages",
    path: "/api/search",
    method: "get",
    summary: "Messages of all sessions that contain all words of a text, newest first",
    parameters: [
      query("query", textSchema, "Words, at most 1000 characters; the last one may be the start of a word"),
      query("project_dir", textSchema, "Only sessions of this folder"),
      query("limit", integerFrom(1, { default: 20 }), "At most 100"),
      query("before", textSchema, "`next` of the previous page"),
      query(
        "archived",
        { enum: ["exclude", "include", "only"], default: "exclude" },
        "Whether to search archived sessions",
      ),
    ],
    responses: {
      200: success("One page, which may be empty although `next` is present", "MessageMatchList"),
      ...queryErrors,
      ...storeErrors,
    },
  },
  {
    ...{ id: "showSession", path: "/api/sessions/{id}", method: "get", summary: "One session" },
    responses: {
      200: { ...success("The current state", "Session"), headers: [SESSION_HEADER] },
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "changeSession",
    path: "/api/sessions/{id}",
    method: "patch",
    summary: "Change title, model, reasoning effort, mode or the archive state",
    body: "SessionChange",
    responses: {
      200: { ...success("The new state", "Session"), headers: [SESSION_HEADER] },
      ...bodyErrors,
      ...notFound("session"),
      ...storeErrors,
      504: failure("The model could not be verified in time"),
    },
  },
  {
    id: "deleteSession",
    path: "/api/sessions/{id}",
    method: "delete",
    summary: "Delete a session and cancel its run",
    responses: {
      200: success("The session is deleted", "Deleted"),
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    ...{ id: "listMessages", path: "/api/sessions/{id}/messages", method: "get", summary: "The messages of a session" },
    parameters: [
      query("after", seqSchema, "Only messages with a greater seq"),
      query("before", integerFrom(1), "Only messages with a smaller seq; with a limit, the last ones"),
      query("limit", integerFrom(1), "At most 1000"),
      query("view", { enum: ["all", "model"], default: "all" }, "`model`: only messages that the model sees now"),
    ],
    responses: {
      200: success("Messages by ascending seq", "MessageList"),
      ...queryErrors,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "watch",
    path: "/api/sessions/{id}/events",
    method: "get",
    summary: "Stream the events of a session",
    parameters: [
      query("after", textSchema, "Cursor: the id of the last event received. An invalid cursor is rejected"),
      query(
        "after_seq",
        seqSchema,
        "Only events after the message with this seq, for a client that has all messages up to it; ignored with a cursor",
      ),
      query("follow", { type: "boolean", default: true }, "`false`: end after all stored events"),
      query("can_answer", { type: "boolean", default: false }, "Whether this client can answer questions of runs"),
      header("Last-Event-ID", textSchema, "Like `after`; a cursor past the end restarts the stream"),
    ],
    responses: {
      200: SESSION_STREAM,
      ...queryErrors,
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    ...WATCH_ALL_OPERATION,
    responses: { ...WATCH_ALL_OPERATION.responses, ...queryErrors, ...accessErrors },
  },
  {
    id: "cancelSession",
    path: "/api/sessions/{id}/cancel",
    method: "post",
    summary: "Cancel the active run of a session",
    responses: {
      200: success("The run; null if none was active", "SessionRun"),
      ...notFound("session"),
      ...pageErrors,
      ...storeErrors,
    },
  },
  {
    ...{ id: "steer", path: "/api/sessions/{id}/steer", method: "post", summary: "Send a message to the active run" },
    body: "SteerRequest",
    responses: {
      200: success("The run will receive the message", "SteerAccepted"),
      ...bodyErrors,
      ...notFound("session"),
      409: failure("The session has no active run"),
      ...storeErrors,
    },
  },
  {
    id: "moveToBackground",
    path: "/api/sessions/{id}/background",
    method: "post",
    summary: "Move running commands of the active run to the background",
    body: "BackgroundRequest",
    responses: {
      200: success("The run will move the commands", "BackgroundAccepted"),
      ...bodyErrors,
      ...notFound("session"),
      409: failure("The session has no active run"),
      ...storeErrors,
    },
  },
  ...createRewindOperations(storeErrors, bodyErrors),
  ...WORK_OPERATIONS,
  {
    ...{ id: "listAsks", path: "/api/asks", method: "get", summary: "Questions of runs to users, newest first" },
    parameters: [
      query("state", { enum: ["open", "all"], default: "open" }, "`all`: also answered and withdrawn questions"),
      sessionFilter,
      query(
        "can_answer",
        { type: "boolean", default: false },
        "Whether this client can answer: it counts as connected for 90 s",
      ),
      query("before", textSchema, "Id of the last question of the previous page"),
      sizeParameter,
    ],
    responses: { 200: success("One page", "AskList"), ...queryErrors, ...notFound("session"), ...storeErrors },
  },
  {
    ...{ id: "showAsk", path: "/api/asks/{id}", method: "get", summary: "One question" },
    responses: { 200: success("The current state", "Ask"), ...notFound("ask"), ...storeErrors },
  },
  {
    ...{ id: "answerAsk", path: "/api/asks/{id}", method: "post", summary: "Answer a question: a choice, or a text" },
    body: "AnswerRequest",
    responses: {
      200: success("The new state", "Ask"),
      ...bodyErrors,
      ...notFound("ask"),
      409: success("The question was already answered or withdrawn; with its final state", "AskClosed"),
      ...storeErrors,
    },
  },
];
