import { signal, type Signal } from "@preact/signals";
import { ApiError, type ApiMessage, type ApiRunInput } from "gantry/client";
import type { PromptFile } from "../state/console.js";
import { toErrorMessage } from "../state/error-message.js";
import { splitContent } from "../timeline/split-content.js";
import { readConflicts } from "./outcomes.js";

/** A sent message that the user changes, to send it again in place of itself and all later messages. */
export interface MessageEdit {
  readonly sessionId: string;
  readonly messageId: string;
  readonly text: Signal<string>;
  /** Images and files of the message, which are sent again. */
  readonly attachments: readonly PromptFile[];
  /** Whether to restore the files that tools changed since the message. */
  readonly withFiles: Signal<boolean>;
  /** Whether to overwrite the files in `conflicts`. */
  readonly force: Signal<boolean>;
  /** Lines about files that prevented the last attempt. */
  readonly conflicts: Signal<readonly string[]>;
}

/** The edit of this window. The unsent text of the session is unchanged below it. */
const currentEdit = signal<MessageEdit | undefined>(undefined);

/** The edit in a session; undefined if there is none. Subscribes the caller to changes. */
export function getMessageEdit(sessionId: string): MessageEdit | undefined {
  const edit = currentEdit.value;
  return edit?.sessionId === sessionId ? edit : undefined;
}

/** Shows a sent message in the prompt field. */
export function startMessageEdit(sessionId: string, { id, content }: ApiMessage): void {
  const { text, parts } = splitContent(content);
  currentEdit.value = {
    ...{ sessionId, messageId: id, text: signal(text) },
    attachments: parts.flatMap((part, index): PromptFile[] => {
      if (part.type === "text") return [];
      const filename = part.type === "file" && part.filename !== "" ? part.filename : `attachment-${index + 1}`;
      return [{ filename, media_type: part.media_type, data: part.data }];
    }),
    ...{ withFiles: signal(false), force: signal(false), conflicts: signal([]) },
  };
  // The field has the text only after it is drawn.
  requestAnimationFrame(() => document.getElementById("prompt")?.focus());
}

/** Ends the edit: it was cancelled or sent. */
export function endMessageEdit(): void {
  currentEdit.value = undefined;
}

/** The run input that hides the edited message. */
export function toRunRewind({ messageId, withFiles, force }: MessageEdit): ApiRunInput["rewind"] {
  return { before_message_id: messageId, files: withFiles.peek(), force: force.peek() };
}

/** Shows an edit again whose request failed. Returns the message for the user. */
export function returnMessageEdit(edit: MessageEdit, error: unknown): string {
  edit.conflicts.value = readConflicts(error);
  edit.force.value = false;
  currentEdit.value = edit;
  if (error instanceof ApiError && error.status === 413) return "Not sent: the files exceed the limit of the server.";
  return `Not sent: ${toErrorMessage(error)}`;
}
