import { query, textSchema, type Operation, type ResponseDescription } from "./openapi-operation.js";
import type { ShapeName } from "./openapi-shapes.js";
import type { ALL_EVENTS, SESSION_EVENTS } from "./shapes.js";

/** The answer of `GET /api/sessions/{id}/events`. */
export const SESSION_STREAM: ResponseDescription = {
  description: "Events; the id of an event is a cursor",
  events: {
    state: "StateEvent",
    message: "MessageEvent",
    delta: "DeltaEvent",
    message_end: "MessageEndEvent",
    rewind: "RewindEvent",
    tool_progress: "ToolProgressEvent",
    deleted: "DeletedEvent",
  } satisfies Record<keyof typeof SESSION_EVENTS, ShapeName>,
};

/** `GET /api/events`, without its errors. */
export const WATCH_ALL_OPERATION: Operation = {
  id: "watchAll",
  path: "/api/events",
  method: "get",
  summary: "Stream the events of many sessions, all open questions, and changes of listed sessions",
  parameters: [
    query(
      "watch",
      { type: "array", items: textSchema, maxItems: 64 },
      "A session to watch, as `<id>` or `<id>@<position>`. The position is a cursor, or the seq of the client's last message",
    ),
    query("can_answer", { type: "boolean", default: false }, "Whether this client can answer questions of runs"),
  ],
  responses: {
    200: {
      description: "Events; the id of an event is the value of `watch` that continues after it",
      events: {
        state: "WatchedStateEvent",
        message: "WatchedMessageEvent",
        delta: "WatchedDeltaEvent",
        message_end: "WatchedMessageEndEvent",
        rewind: "WatchedRewindEvent",
        tool_progress: "WatchedToolProgressEvent",
        deleted: "WatchedDeletedEvent",
        watch_failed: "WatchFailedEvent",
        asks: "AskList",
        session: "SessionChangedEvent",
        session_removed: "SessionRemovedEvent",
      } satisfies Record<keyof typeof ALL_EVENTS, ShapeName>,
    },
  },
};
