import type { ApiMessage, ApiToolCall } from "gantry/client";
import type { Row } from "../state/rows.js";
import { parseArguments } from "../timeline/tool-labels.js";
import type { FileReference } from "./file-reference.js";

/** Tools whose locations are folders, or files that no longer exist. */
const TOOLS_WITHOUT_FILES: ReadonlySet<string> = new Set(["list", "glob", "grep", "delete", "bash", "task"]);
const PATH_ARGUMENTS = ["filePath", "path", "file_path"];

/** The files of a call: of its result, or of its arguments while it has none. */
export function listCallFiles(call: ApiToolCall, result: ApiMessage | undefined): readonly FileReference[] {
  if (TOOLS_WITHOUT_FILES.has(call.function.name)) return [];
  if (result?.locations?.length) return result.locations.map(({ path, line }) => ({ path, ...(line && { line }) }));
  if (result?.diff?.length) return result.diff.map(({ path }) => ({ path }));
  const values = parseArguments(call.function.arguments) ?? {};
  const [path] = PATH_ARGUMENTS.flatMap((name) => {
    const value = values[name];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
  return path === undefined ? [] : [{ path }];
}

/** The files that the loaded tool calls of a session name. */
export class KnownFiles {
  readonly #getRows: () => readonly Row[];
  readonly #getResult: (callId: string) => ApiMessage | undefined;
  readonly #paths = new Set<string>();
  readonly #readMessages = new WeakSet<ApiMessage>();
  #readRows: readonly Row[] | undefined;

  constructor(getRows: () => readonly Row[], getResult: (callId: string) => ApiMessage | undefined) {
    this.#getRows = getRows;
    this.#getResult = getResult;
  }

  /** Whether a call names the path. `projectDir`: the folder of relative paths. */
  has(path: string, projectDir: string): boolean {
    this.#readNewRows();
    const absolutePath = path.startsWith("/") ? path : `${projectDir}/${path}`;
    const relativePath = path.startsWith(`${projectDir}/`) ? path.slice(projectDir.length + 1) : path;
    return this.#paths.has(absolutePath) || this.#paths.has(relativePath);
  }

  #readNewRows(): void {
    const rows = this.#getRows();
    if (rows === this.#readRows) return;
    this.#readRows = rows;
    for (const { message } of rows) {
      const value = message.peek();
      if (this.#readMessages.has(value) || value.tool_calls.length === 0) continue;
      // A message that still grows may receive more calls, and a result may name more files.
      const isComplete = value.finished !== false && value.tool_calls.every(({ id }) => this.#getResult(id));
      if (isComplete) this.#readMessages.add(value);
      for (const call of value.tool_calls)
        for (const { path } of listCallFiles(call, this.#getResult(call.id)))
          this.#paths.add(path.replace(/^(?:\.\/)+/, ""));
    }
  }
}
