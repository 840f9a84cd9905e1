import type { PaletteCommand } from "../palette-command.js";
import type { Console } from "../state/console.js";
import type { WatchedSession } from "../state/watched-session.js";
import { copyConversation, downloadConversation } from "./conversation-export.js";

/** Commands of the palette for the whole conversation. */
export function listConversationCommands(store: Console, session: WatchedSession): PaletteCommand[] {
  return [
    { id: "first-message", label: "Go to the first message", note: "g t", run: () => session.jump.toFirst() },
    { id: "last-message", label: "Go to the end", note: "g e", run: () => session.jump.toEnd() },
    {
      id: "copy-conversation",
      label: "Copy the conversation as Markdown",
      note: "session",
      run: () => void copyConversation(store, session),
    },
    {
      id: "download-conversation",
      label: "Download the conversation as Markdown",
      note: "session",
      run: () => void downloadConversation(store, session, "markdown"),
    },
  ];
}
