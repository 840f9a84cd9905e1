import type { ApiMessageMatch } from "gantry/client";
import { Picker, type ListEntry } from "./overlays.js";
import type { TerminalStore } from "./store.js";

/** Number of matches that are requested at once. */
const PAGE_SIZE = 20;
/** Maximum number of pages of older messages that are loaded to show a match. */
const MAX_OLDER_PAGES = 40;

/** `/search TEXT`: lists messages of all sessions that contain the words. Enter opens the session at the message. */
export function search(store: TerminalStore, text: string): void {
  if (text === "") return store.showNotice("/search TEXT finds messages of all sessions.");
  const { client, projectDir } = store.options;
  let matches: readonly ApiMessageMatch[] = [];
  /** Position of the next page; undefined after the last page. */
  let before: string | undefined;
  let isLoading = false;
  const picker = new Picker({
    title: `Messages with "${text}"`,
    entries: [],
    pick: ({ id }) => {
      const match = matches.find(({ message_id: messageId }) => messageId === id);
      if (match) store.attempt(() => openMatch(store, match));
    },
    loadMore: () => {
      if (before !== undefined) load();
    },
  });
  const load = () => {
    if (isLoading) return;
    isLoading = true;
    store.attempt(async () => {
      try {
        do {
          const page = await client.sessions.search(text, {
            limit: PAGE_SIZE,
            ...(before !== undefined && { before }),
            ...(projectDir !== undefined && { projectDir }),
          });
          matches = [...matches, ...page.matches];
          before = page.next;
          picker.entries = matches.map(toListEntry);
        } while (before !== undefined && matches.length === 0 && store.overlay === picker);
      } finally {
        isLoading = false;
        picker.emptyText = "";
      }
    });
  };
  picker.emptyText = "searching ...";
  store.showOverlay(picker);
  load();
}

function toListEntry({ message_id: id, snippet, title, created_at: createdAt }: ApiMessageMatch): ListEntry {
  return { id, label: snippet, description: `${createdAt.slice(0, 10)} ${title}` };
}

async function openMatch(store: TerminalStore, { session_id: sessionId, seq }: ApiMessageMatch): Promise<void> {
  if (store.conversation.id !== sessionId) await store.open(sessionId);
  const { conversation } = store;
  for (let page = 0; page < MAX_OLDER_PAGES && conversation.hasOlder; page += 1) {
    if ((conversation.mirror.messages[0]?.seq ?? 0) <= seq || (await conversation.loadOlder()) === 0) break;
  }
  store.scroll.scrollToMessage(seq);
  store.reportChange();
}
