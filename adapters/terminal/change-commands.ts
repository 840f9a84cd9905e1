import type { ApiChangedFile, ApiHunk } from "gantry/client";
import { compareTexts, type DiffLine } from "./diff-rows.js";
import type { KeyInput } from "./keys.js";
import { Picker, type ListEntry, type Overlay } from "./overlays.js";
import { span, type Line } from "./spans.js";
import type { TerminalStore } from "./store.js";
import { escapeLine, truncate } from "./text.js";

/** Maximum number of files that are listed. */
const MAX_FILES = 100;
/** Number of rows that a page key scrolls. */
const PAGE_ROWS = 5;

/** Adjacent changed lines, and their position in both texts. */
interface Change {
  readonly hunk: ApiHunk;
  readonly lines: readonly DiffLine[];
}

/** A session, and the run whose changes are shown. Undefined: the changes of all runs. */
interface ChangeScope {
  readonly sessionId: string;
  readonly runId: string | undefined;
}

/**
 * `/changes`: lists the files that tools changed, with `run` only those of the last run. Enter shows the changes of a
 * file, which can be undone there.
 */
export function showChanges(store: TerminalStore, argument: string): void {
  const { id: sessionId, mirror } = store.conversation;
  if (sessionId === undefined) return store.showNotice("No session yet; your first prompt creates it.");
  const runId = argument === "run" ? mirror.state?.run?.id : undefined;
  if (argument !== "" && runId === undefined) return store.showNotice("/changes or /changes run");
  const scope = { sessionId, runId };
  store.attempt(async () => {
    const { files, total } = await loadChanges(store, scope, { size: MAX_FILES });
    if (files.length === 0) return store.showNotice("No changed files.");
    const entries = files.map(({ path, kind, added, removed, omitted }): ListEntry => ({
      id: path,
      label: toRelativePath(store, path),
      description: `${kind} ${omitted === "" ? `+${added ?? 0} -${removed ?? 0}` : omitted}`,
    }));
    const pick = ({ id: path }: ListEntry) => {
      const file = files.find((candidate) => candidate.path === path);
      if (file) showFile(store, scope, file);
    };
    const title = `Changed files${total > files.length ? ` (${files.length} of ${total})` : ""}`;
    store.showOverlay(new Picker({ title, entries, pick }));
  });
}

function loadChanges(store: TerminalStore, { sessionId, runId }: ChangeScope, query: { path?: string; size?: number }) {
  return store.options.client.sessions.changes(sessionId, { ...query, ...(runId !== undefined && { runId }) });
}

function showFile(store: TerminalStore, scope: ChangeScope, file: ApiChangedFile): void {
  const overlay = new ChangeOverlay(file, toRelativePath(store, file.path), (hunk) =>
    store.attempt(async () => {
      let nextFile: ApiChangedFile | undefined;
      try {
        await undoChange(store, scope, file, hunk);
        // The changes of a run stay listed after their undo.
        if (scope.runId === undefined) [nextFile] = (await loadChanges(store, scope, { path: file.path })).files;
      } finally {
        // Shows the remaining changes, unless the user has closed the panel.
        if (store.overlay === overlay) store.showOverlay(undefined);
        else nextFile = undefined;
      }
      if (nextFile) showFile(store, scope, nextFile);
    }),
  );
  store.showOverlay(overlay);
}

async function undoChange(
  store: TerminalStore,
  { sessionId, runId }: ChangeScope,
  { path, version }: ApiChangedFile,
  hunk: ApiHunk | undefined,
): Promise<void> {
  const input = {
    path,
    ...(version !== "" && { version }),
    ...(hunk && { hunk }),
    ...(runId !== undefined && { runId }),
  };
  const { outcome, reason } = await store.options.client.sessions.undoChange(sessionId, input);
  const details = reason === "" ? "" : `: ${escapeLine(reason)}`;
  store.showNotice(`${outcome} ${escapeLine(toRelativePath(store, path))}${details}. /redo reverts this.`);
}

/** Returns the path relative to the session's folder, if the folder contains the file. */
function toRelativePath({ conversation }: TerminalStore, path: string): string {
  const folder = `${conversation.mirror.state?.session.project_dir ?? ""}/`;
  return path.startsWith(folder) ? path.slice(folder.length) : path;
}

/** The changes of a file. Enter undoes the selected change, `u` the file. The panel is closed by the callback then. */
class ChangeOverlay implements Overlay {
  readonly #file: ApiChangedFile;
  readonly #title: string;
  readonly #undo: (hunk?: ApiHunk) => void;
  readonly #changes: readonly Change[];
  #selectedIndex = 0;
  /** Number of hidden rows before the visible rows. */
  #topRow = 0;
  #isUndoing = false;

  constructor(file: ApiChangedFile, title: string, undo: (hunk?: ApiHunk) => void) {
    this.#file = file;
    this.#title = title;
    this.#undo = undo;
    this.#changes = file.omitted === "" ? findChanges(compareTexts(file.old_text, file.new_text)) : [];
  }

  renderRows(columns: number, rows: number): Line[] {
    const { omitted } = this.#file;
    const changeRows = this.#changes
      .slice(this.#selectedIndex)
      .flatMap(({ hunk, lines }, i): Line[] => [
        [span(i === 0 ? "❯ " : "  ", "accent"), span(`line ${hunk.new_start}`, i === 0 ? "selected" : "dim")],
        ...lines.map(({ sign, text }): Line => [
          span(truncate(`    ${sign} ${escapeLine(text)}`, columns), sign === "+" ? "good" : "bad"),
        ]),
      ]);
    if (omitted !== "") changeRows.push([span(`  no text: ${omitted}`, "dim")]);
    const position = this.#changes.length > 1 ? ` ${this.#selectedIndex + 1}/${this.#changes.length}` : "";
    const visibleCount = Math.max(1, rows - 2);
    this.#topRow = Math.max(0, Math.min(this.#topRow, changeRows.length - visibleCount));
    const keys = this.#isUndoing ? "undoing ..." : "↑↓ change, Enter undoes it, u undoes the file, Esc closes";
    return [
      [span(truncate(` ${escapeLine(this.#title)}${position}`, columns), "heading")],
      ...changeRows.slice(this.#topRow, this.#topRow + visibleCount),
      [span(truncate(`  ${keys}`, columns), "dim")],
    ];
  }

  press(input: KeyInput): boolean {
    if (input.type === "wheel") this.#topRow -= input.rows;
    else if (input.type === "text" && input.text === "u") this.#startUndo();
    else if (input.type !== "key") return false;
    else if (input.name === "up" || input.name === "down") this.#select(input.name === "up" ? -1 : 1);
    else if (input.name === "pageup" || input.name === "pagedown")
      this.#topRow += input.name === "pageup" ? -PAGE_ROWS : PAGE_ROWS;
    else if (input.name === "enter") {
      const change = this.#changes[this.#selectedIndex];
      if (change) this.#startUndo(change.hunk);
    } else return input.name === "escape" || (input.ctrl && input.name === "c");
    return false;
  }

  #select(offset: number): void {
    this.#selectedIndex = Math.max(0, Math.min(this.#changes.length - 1, this.#selectedIndex + offset));
    this.#topRow = 0;
  }

  /** Without a hunk, undoes the file. */
  #startUndo(hunk?: ApiHunk): void {
    if (this.#isUndoing) return;
    this.#isUndoing = true;
    this.#undo(hunk);
  }
}

/** Groups adjacent changed lines. The line numbers of a hunk start at 1. */
function findChanges(diffLines: readonly DiffLine[]): Change[] {
  const changes: Change[] = [];
  let [oldLine, newLine] = [1, 1];
  let group: DiffLine[] = [];
  for (const line of [...diffLines, { sign: " ", text: "" } as const]) {
    if (line.sign !== " ") {
      group.push(line);
      continue;
    }
    const removedLines = group.filter(({ sign }) => sign === "-").length;
    const addedLines = group.length - removedLines;
    if (group.length > 0) {
      const hunk = { old_start: oldLine, old_lines: removedLines, new_start: newLine, new_lines: addedLines };
      changes.push({ hunk, lines: group });
    }
    oldLine += removedLines + 1;
    newLine += addedLines + 1;
    group = [];
  }
  return changes;
}
