import type { ApiUndoResult } from "gantry/client";
import { Confirmation, Picker, type ListEntry } from "./overlays.js";
import { getUserText } from "./outbox.js";
import type { TerminalStore } from "./store.js";
import { escapeLine } from "./text.js";

const NO_SESSION = "No session yet; your first prompt creates it.";
/** Maximum number of files that a confirmation and a notice list. */
const MAX_SHOWN_FILES = 8;

type Files = ApiUndoResult["files"];

/** `/undo` and `/redo`: shows the files that would change, and changes them after a confirmation. */
export function undo(store: TerminalStore, action: "undo" | "redo"): void {
  const { id } = store.conversation;
  if (id === undefined) return store.showNotice(NO_SESSION);
  const { sessions } = store.options.client;
  store.attempt(async () => {
    const { files } = await sessions[action](id, { dryRun: true });
    const conflicts = files.filter(({ outcome }) => outcome === "conflict").length;
    const title = action === "undo" ? "Undo the last run?" : "Redo what was undone?";
    const warning = conflicts === 0 ? "" : ` This overwrites ${conflicts} files that changed outside of the session.`;
    const question = `${title}${files.length === 0 ? " No file changes." : ""}${warning}`;
    const change = async () => {
      const result = await sessions[action](id, { force: conflicts > 0 });
      store.addNotice([action === "undo" ? "Undone. /redo reverts this." : "Redone.", ...describeFiles(result.files)]);
    };
    store.showOverlay(new Confirmation(question, () => store.attempt(change), describeFiles(files)));
  });
}

/** `/fork`: copies the session up to a message that the user picks, and opens the copy. */
export function fork(store: TerminalStore): void {
  const { id, mirror } = store.conversation;
  if (id === undefined) return store.showNotice(NO_SESSION);
  const entries = mirror.messages
    .filter(({ role, finished }) => (role === "user" || role === "assistant") && finished !== false)
    .map((message): ListEntry => ({ id: message.id, label: getUserText(message), description: message.role }))
    .filter(({ label }) => label.trim() !== "")
    .reverse();
  const pick = ({ id: messageId }: ListEntry) =>
    store.attempt(async () => {
      const copy = await store.options.client.sessions.fork(id, { messageId });
      await store.open(copy.id);
      store.showNotice("This session is a copy; the original is unchanged.");
    });
  store.showOverlay(new Picker({ title: "Fork after", entries, pick }));
}

/** `/rewind`: hides a prompt that the user picks and all later messages, and puts its text into the prompt. */
export function rewind(store: TerminalStore): void {
  const { id } = store.conversation;
  if (id === undefined) return store.showNotice(NO_SESSION);
  const chooseFiles = (message: ListEntry) => {
    const entries = [
      { id: "keep", label: "Only the messages", description: "files stay as they are" },
      { id: "restore", label: "Messages and files", description: "restores the files that tools changed since" },
    ];
    const pick = ({ id: choice }: ListEntry) =>
      store.attempt(async () => {
        const { files } = await hideFrom(store, id, message.id, choice === "restore");
        store.restoreTexts([message.label], "");
        store.addNotice(["Rewound. /redo reverts this.", ...describeFiles(files)]);
      });
    store.showOverlay(new Picker({ title: "Rewind", entries, pick }));
  };
  store.showOverlay(new Picker({ title: "Rewind to before", entries: listPrompts(store), pick: chooseFiles }));
}

/** `/retry`: hides the last prompt and its answer, and sends the prompt again. Files stay as they are. */
export function retry(store: TerminalStore): void {
  const { id } = store.conversation;
  const [lastPrompt] = listPrompts(store);
  if (id === undefined || !lastPrompt) return store.showNotice(NO_SESSION);
  const resend = async () => {
    await hideFrom(store, id, lastPrompt.id, false);
    store.send(lastPrompt.label);
  };
  const question = `Send "${lastPrompt.label.slice(0, 80)}" again? Its answer is hidden; changed files stay.`;
  store.showOverlay(new Confirmation(question, () => store.attempt(resend)));
}

/** The user's prompts, newest first. */
function listPrompts({ conversation }: TerminalStore): ListEntry[] {
  return conversation.mirror.messages
    .filter(({ role }) => role === "user")
    .map((message): ListEntry => ({
      id: message.id,
      label: getUserText(message),
      description: message.created_at.slice(0, 16).replace("T", " "),
    }))
    .reverse();
}

async function hideFrom(store: TerminalStore, id: string, messageId: string, files: boolean): Promise<ApiUndoResult> {
  const { mirror } = store.conversation;
  const seq = mirror.messages.find((message) => message.id === messageId)?.seq ?? 1;
  const result = await store.options.client.sessions.rewind(id, { beforeMessageId: messageId, files });
  // The event may arrive later. The next prompt counts the messages that remain.
  mirror.apply({ type: "rewind", after: seq - 1, cursor: undefined });
  store.reportChange();
  return result;
}

function describeFiles(files: Files): string[] {
  const lines = files
    .slice(0, MAX_SHOWN_FILES)
    .map(
      ({ path, outcome, reason }) => `${outcome} ${escapeLine(path)}${reason === "" ? "" : `: ${escapeLine(reason)}`}`,
    );
  return files.length > MAX_SHOWN_FILES ? [...lines, `and ${files.length - MAX_SHOWN_FILES} more`] : lines;
}
