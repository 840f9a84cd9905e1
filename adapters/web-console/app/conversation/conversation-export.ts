import type { ApiMessage } from "gantry/client";
import { copyToClipboard } from "../parts/clipboard.js";
import type { Console } from "../state/console.js";
import type { WatchedSession } from "../state/watched-session.js";
import { formatConversation } from "./conversation-markdown.js";

/** Messages of each page: the maximum of the server. */
const PAGE_SIZE = 1_000;

/** Copies the whole conversation as Markdown, and shows the result as a notice. */
export async function copyConversation(store: Console, session: WatchedSession): Promise<void> {
  await attempt(store, async () => {
    const markdown = formatConversation(getTitle(session), await loadMessages(store, session.id));
    if (await copyToClipboard(markdown)) store.notify("The conversation was copied as Markdown.");
    else store.notify("The browser does not permit copying.", "error");
  });
}

/** Downloads the whole conversation as a file. An error becomes a notice. */
export async function downloadConversation(
  store: Console,
  session: WatchedSession,
  format: "markdown" | "json",
): Promise<void> {
  await attempt(store, async () => {
    const messages = await loadMessages(store, session.id);
    const [text, ending, type] =
      format === "markdown"
        ? [formatConversation(getTitle(session), messages), "md", "text/markdown"]
        : [JSON.stringify({ session: session.info.peek(), messages }, undefined, 2), "json", "application/json"];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = `${toFileName(getTitle(session))}.${ending}`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
}

async function loadMessages({ client }: Console, sessionId: string): Promise<ApiMessage[]> {
  const messages: ApiMessage[] = [];
  for (;;) {
    const page = await client.sessions.messages(sessionId, { after: messages.at(-1)?.seq ?? 0, limit: PAGE_SIZE });
    messages.push(...page);
    if (page.length < PAGE_SIZE) return messages;
  }
}

async function attempt(store: Console, action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    store.reportError(error);
  }
}

function getTitle(session: WatchedSession): string {
  return session.info.peek()?.title ?? "";
}

function toFileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "conversation";
}
