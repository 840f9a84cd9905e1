// Shapes of the events of `GET /api/events`.

import * as v from "valibot";
import * as events from "./event-shapes.js";
import { AskList, Session } from "./response-shapes.js";
import { count, describe, extend, string, text } from "./shape-builders.js";

/** Fields that tell to which watched session an event belongs. */
const WATCH_FIELDS = {
  session_id: text("the session as requested in `watch`"),
  watch: describe(count, "index of the `watch` parameter, from 0"),
};

export const WatchedStateEvent = extend(events.StateEvent, WATCH_FIELDS);
export const WatchedMessageEvent = extend(events.MessageEvent, WATCH_FIELDS);
export const WatchedDeltaEvent = extend(events.DeltaEvent, WATCH_FIELDS);
export const WatchedMessageEndEvent = extend(events.MessageEndEvent, WATCH_FIELDS);
export const WatchedRewindEvent = extend(events.RewindEvent, WATCH_FIELDS);
export const WatchedToolProgressEvent = extend(events.ToolProgressEvent, WATCH_FIELDS);
export const WatchedDeletedEvent = extend(events.DeletedEvent, WATCH_FIELDS);
export const WatchFailedEvent = v.object({
  ...WATCH_FIELDS,
  status: describe(count, "HTTP status of the error"),
  error: text("message for users"),
  code: text("stable error code for programs"),
});
export const SessionChangedEvent = v.object({ session: Session });
export const SessionRemovedEvent = v.object({ session_id: string });

/** Shapes of events by event name. */
export const ALL_EVENTS = {
  state: WatchedStateEvent,
  message: WatchedMessageEvent,
  delta: WatchedDeltaEvent,
  message_end: WatchedMessageEndEvent,
  rewind: WatchedRewindEvent,
  tool_progress: WatchedToolProgressEvent,
  deleted: WatchedDeletedEvent,
  watch_failed: WatchFailedEvent,
  asks: AskList,
  session: SessionChangedEvent,
  session_removed: SessionRemovedEvent,
} as const;
