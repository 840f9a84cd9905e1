import type { FileDifference, ChangedFiles, ChangesQuery } from "../ports/file-history.js";
import { hashOf } from "./content-store.js";
import type { StoredFileState } from "./journal.js";
import { comparePaths } from "./plan.js";
import { forEachConcurrently } from "./restore-files.js";
import { readCurrentState } from "./restore.js";
import { isSame, toStoredState } from "./session-files.js";
import type { RecordedFiles } from "./target-plan.js";
import { countChangedLines, decodeText } from "./text.js";

/** Maximum bytes of one text. */
const MAX_TEXT_BYTES = 256 * 1024;
/** Maximum bytes of all texts of an answer. */
const MAX_TOTAL_BYTES = 8 * 1024 * 1024;

/** A path that tools changed. */
interface PathChanges {
  path: string;
  runIds: Set<string>;
  before: StoredFileState;
  /** State after the selected runs. Undefined: the current state. */
  after: StoredFileState | undefined;
}

type Content = { kind: "none" } | { kind: "text"; text: string } | { kind: "binary" | "too_large" | "lost" };

/** Lists the files whose content differs before and after the selected changes. */
export async function listChanges(query: ChangesQuery, files: RecordedFiles): Promise<ChangedFiles> {
  const changedPaths: PathChanges[] = [];
  await forEachConcurrently(collectPaths(query, files), async (change) => {
    const after = change.after ?? (await readState(change.path, files));
    const isFile = [change.before, after].some(({ kind }) => kind === "file" || kind === "link");
    if (isFile && !isSame(change.before, after)) changedPaths.push({ ...change, after });
  });
  changedPaths.sort(comparePaths);
  const pagePaths = changedPaths.slice(query.offset, query.offset + query.limit);
  const changedFiles: FileDifference[] = [];
  let remainingBytes = MAX_TOTAL_BYTES;
  for (const { path, runIds, before, after = before } of pagePaths) {
    const oldContent = await readContent(path, before, files);
    const newContent = await readContent(path, after, files);
    const file = createChangedFile({ path, runIds, before, after }, [oldContent, newContent], remainingBytes);
    remainingBytes -= (file.oldText?.length ?? 0) + (file.newText?.length ?? 0);
    changedFiles.push(file);
  }
  return { files: changedFiles, total: changedPaths.length };
}

function collectPaths({ runIds, path: requestedPath }: ChangesQuery, { journal }: RecordedFiles): PathChanges[] {
  const changesByPath = new Map<string, PathChanges>();
  for (const { change, run, undo, steps } of journal.changes)
    for (const { path, before, after, isWay } of steps) {
      if (requestedPath !== undefined && path !== requestedPath) continue;
      const pathChanges = changesByPath.get(path);
      if (undo === "" && isWay !== true && (runIds?.has(run) ?? true)) {
        const entry = pathChanges ?? { path, runIds: new Set(), before, after: undefined };
        entry.runIds.add(run);
        // Whether an unconfirmed change was made is known from the state before the next change, or from the disk.
        entry.after = runIds && journal.confirmedChangeIds.has(change) ? after : undefined;
        changesByPath.set(path, entry);
      } else if (pathChanges && runIds) pathChanges.after ??= before;
    }
  return [...changesByPath.values()];
}

/** Reads the current state of a path. An unreadable path counts as a file with an unknown content. */
async function readState(path: string, { guard }: RecordedFiles): Promise<StoredFileState> {
  const { state } = await readCurrentState(guard, path).catch(() => ({ state: undefined }));
  return state ? toStoredState(state) : { kind: "file", hash: "", mode: 0, uid: 0, gid: 0 };
}

/** Reads the text of a recorded state from the copies, or from the file if its content is the same. */
async function readContent(
  path: string,
  state: StoredFileState,
  { guard, sessionFiles, journal }: RecordedFiles,
): Promise<Content> {
  if (state.kind === "link") return { kind: "binary" };
  if (state.kind !== "file") return { kind: "none" };
  if (state.hash === "") return { kind: "too_large" };
  let content = await sessionFiles.readContent(state.hash, journal);
  if (!content) {
    const current = await readCurrentState(guard, path).catch(() => undefined);
    if (current?.state.kind === "file" && current.state.content && hashOf(current.state.content) === state.hash)
      content = current.state.content;
  }
  if (!content) return { kind: "lost" };
  if (content.length > MAX_TEXT_BYTES) return { kind: "too_large" };
  const text = decodeText(content);
  return text === undefined ? { kind: "binary" } : { kind: "text", text };
}

function createChangedFile(
  { path, runIds, before, after }: PathChanges & { after: StoredFileState },
  contents: readonly [Content, Content],
  remainingBytes: number,
): FileDifference {
  const [oldText, newText] = contents.map((content) => (content.kind === "text" ? content.text : null));
  const textLength = (oldText?.length ?? 0) + (newText?.length ?? 0);
  const omission = contents.map(({ kind }) => (kind === "none" || kind === "text" ? "" : kind)).find(Boolean);
  const omitted = omission ?? (textLength > remainingBytes ? "too_large" : "");
  const counts = omitted === "" ? countChangedLines(oldText ?? "", newText ?? "") : { added: null, removed: null };
  return {
    path,
    kind: before.kind === "none" ? "created" : after.kind === "none" ? "deleted" : "changed",
    runIds: [...runIds],
    oldText: omitted === "" ? (oldText ?? null) : null,
    newText: omitted === "" ? (newText ?? null) : null,
    omitted,
    version: after.kind === "file" ? after.hash : "",
    ...counts,
  };
}
