import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { waitFor } from "./wait.js";

// The first recursive removal loads a module of Node that keeps the current `setTimeout` for its retries. If a test has
// mocked it by then, later removals of folders in use would never end.
await rm(path.join(tmpdir(), "gantry-no-such-folder"), { recursive: true, force: true });

/** Registers work for the end of a test: a test's context, or `{ after }` of `node:test` for a whole file. */
export interface Hooks {
  after(run: () => Promise<void> | void): void;
}

/** A temporary folder. With `await using folder = await makeTempDir()`, the end of the block removes the folder. */
export interface TempDir extends AsyncDisposable {
  /** Absolute path with symlinks resolved. */
  readonly path: string;
  /** Absolute path of an entry in the folder. */
  at(...parts: string[]): string;
  /** Writes files and creates folders as needed: `{ "src/a.ts": "text" }`. */
  write(files: Readonly<Record<string, string | Uint8Array>>): Promise<void>;
  /** Text of a file in the folder. */
  read(file: string): Promise<string>;
  /**
   * Waits until another process has written to a file. Returns the first non-empty text, which can be incomplete if the
   * process writes in several steps.
   */
  readWhenWritten(file: string): Promise<string>;
  remove(): Promise<void>;
}

/** Creates an empty folder; the caller removes the folder. */
export async function makeTempDir(prefix = "gantry-"): Promise<TempDir> {
  // Resolved, because a temporary folder is often a symlink (macOS) and tests compare paths.
  const root = await realpath(await mkdtemp(path.join(tmpdir(), prefix)));
  const remove = () => rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  return {
    path: root,
    at: (...parts) => path.join(root, ...parts),
    async write(files) {
      for (const [name, content] of Object.entries(files)) {
        const file = path.join(root, name);
        await mkdir(path.dirname(file), { recursive: true });
        await writeFile(file, content);
      }
    },
    read: (file) => readFile(path.join(root, file), "utf8"),
    readWhenWritten: (file) =>
      waitFor(`text in ${file}`, async () => {
        const text = await readFile(path.join(root, file), "utf8").catch(() => "");
        return text === "" ? undefined : text;
      }),
    remove,
    [Symbol.asyncDispose]: remove,
  };
}

/** Creates a folder with these files. The folder is removed after the test. */
export async function tempDir(
  hooks: Hooks,
  files: Readonly<Record<string, string | Uint8Array>> = {},
): Promise<TempDir> {
  const folder = await makeTempDir();
  hooks.after(() => folder.remove());
  await folder.write(files);
  return folder;
}
