// Shapes of the search in messages.

import * as v from "valibot";
import { count, describe, oneOf, optional, string, text, time } from "./shape-builders.js";

export const MessageMatch = v.object({
  session_id: text("id of the session, as in lists"),
  title: text("title of the session"),
  message_id: string,
  seq: describe(count, "position of the message within the conversation"),
  role: oneOf(["user", "assistant", "system", "tool"]),
  created_at: time("time of creation of the message"),
  snippet: text("plain text around a match, on one line"),
  ranges: describe(
    v.array(v.object({ start: count, end: count })),
    "the matches in the snippet, in UTF-16 code units, ascending, without overlap",
  ),
});
export const MessageMatchList = v.object({
  matches: v.array(MessageMatch),
  next: optional(text("`before` of the next page; absent after the last page")),
  incomplete: describe(v.boolean(), "the time limit of a request ended this page early: continue with `next`"),
});

/** A message that a search found. */
export type ApiMessageMatch = v.InferOutput<typeof MessageMatch>;
/** A page of a search. */
export type MessageMatchList = v.InferOutput<typeof MessageMatchList>;
