import { createHash, randomUUID } from "node:crypto";
import { appendFile, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { UnsentTexts } from "./outbox.js";

/** Maximum number of prompts in the history. Older prompts are dropped at the next start. */
const MAX_HISTORY_ENTRIES = 1_000;
/** Maximum characters of a prompt in the history. Longer prompts are not stored. */
const MAX_HISTORY_CHARACTERS = 20_000;

/** Settings of the terminal that apply to all servers and folders. */
export interface TerminalSettings {
  /** Whether the terminal bell rings for a new question and at the end of a run. Default: for questions. */
  readonly bell?: "on" | "off";
}

/**
 * Files of the terminal in its state folder: unsent texts by server and session, the history of prompts by server, and
 * settings. Only the user can read the files.
 */
export class StateFiles {
  readonly #folder: string;
  readonly #serverFolder: string;
  /** Ends the names of this terminal's files. A file without a running process has no owner. */
  #owner = createOwner();

  /** `location`: the folder or server of the terminal. */
  constructor(folder: string, location: string) {
    this.#folder = folder;
    this.#serverFolder = join(folder, createHash("sha256").update(location).digest("hex").slice(0, 16));
  }

  /** Creates the folders. Rejects if that is not possible. */
  async prepare(): Promise<void> {
    await mkdir(this.#serverFolder, { recursive: true, mode: 0o700 });
  }

  /**
   * Returns the texts of a session whose terminals have ended, or that this terminal has left. `release` removes their
   * files: call it after the texts are stored again, so that a kill in between loses nothing.
   */
  async take(key: string): Promise<{ texts: UnsentTexts[]; release: () => Promise<void> }> {
    const texts: UnsentTexts[] = [];
    const paths: string[] = [];
    for (const name of await readdir(this.#serverFolder)) {
      const path = join(this.#serverFolder, name);
      const owner = /^(.+)\.(\d+)\.[0-9a-f]{8}\.json$/.exec(name);
      if (owner?.[1] !== key || path === this.#getTextsPath(key) || isOtherProcessRunning(Number(owner[2]))) continue;
      // The rename is atomic: of two terminals that start together, one takes the file.
      const takenPath = join(this.#serverFolder, `${key}.${createOwner()}.json`);
      try {
        await rename(path, takenPath);
      } catch {
        continue;
      }
      paths.push(takenPath);
      const unsentTexts = await readTexts(takenPath);
      if (unsentTexts) texts.push(unsentTexts);
    }
    const release = async () => {
      for (const path of paths) await rm(path, { force: true });
    };
    return { texts, release };
  }

  /** Stores the texts of the next session, then those of the session that the terminal leaves. */
  async switchSession(key: string, texts: UnsentTexts, nextKey: string, nextTexts: UnsentTexts): Promise<void> {
    const path = this.#getTextsPath(key);
    // Another name, because the terminal may have left texts in the next session before.
    this.#owner = createOwner();
    await this.write(nextKey, nextTexts);
    await writeTexts(path, texts);
  }

  /** Replaces the texts of a session. Texts without content remove the file. */
  async write(key: string, texts: UnsentTexts): Promise<void> {
    await writeTexts(this.#getTextsPath(key), texts);
  }

  async remove(key: string): Promise<void> {
    await rm(this.#getTextsPath(key), { force: true });
  }

  /** Returns the stored prompts, oldest first. */
  async readHistory(): Promise<string[]> {
    const path = this.#historyPath;
    const content = await readFile(path, "utf8").catch(() => "");
    const lines = content.split("\n").filter((line) => line !== "");
    const recentLines = lines.slice(-MAX_HISTORY_ENTRIES);
    if (lines.length > 2 * MAX_HISTORY_ENTRIES) await replaceFile(path, `${recentLines.join("\n")}\n`);
    return recentLines.map(parseJson).filter((prompt) => typeof prompt === "string");
  }

  /** Adds a prompt to the history. */
  async appendHistory(prompt: string): Promise<void> {
    if (prompt.length > MAX_HISTORY_CHARACTERS) return;
    await appendFile(this.#historyPath, `${JSON.stringify(prompt)}\n`, { mode: 0o600 });
  }

  async readSettings(): Promise<TerminalSettings> {
    const settings = parseJson(await readFile(this.#settingsPath, "utf8").catch(() => ""));
    return typeof settings === "object" && settings !== null ? settings : {};
  }

  async writeSettings(settings: TerminalSettings): Promise<void> {
    await replaceFile(this.#settingsPath, `${JSON.stringify(settings)}\n`);
  }

  get #historyPath(): string {
    return join(this.#serverFolder, "history.jsonl");
  }

  get #settingsPath(): string {
    return join(this.#folder, "settings.json");
  }

  #getTextsPath(key: string): string {
    return join(this.#serverFolder, `${key}.${this.#owner}.json`);
  }
}

function createOwner(): string {
  return `${process.pid}.${randomUUID().slice(0, 8)}`;
}

/** Whether another process has this id. This process may open a session again. */
function isOtherProcessRunning(processId: number): boolean {
  if (processId === process.pid) return false;
  try {
    process.kill(processId, 0);
    return true;
  } catch (error) {
    // A process of another user exists too.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function writeTexts(path: string, { draft, entries }: UnsentTexts): Promise<void> {
  if (draft === "" && entries.length === 0) await rm(path, { force: true });
  else await replaceFile(path, JSON.stringify({ draft, entries }));
}

/** Returns the content of a file of unsent texts; undefined if it is damaged. */
async function readTexts(path: string): Promise<UnsentTexts | undefined> {
  const content = parseJson(await readFile(path, "utf8"));
  if (typeof content !== "object" || content === null) return undefined;
  const { draft, entries } = content as Partial<UnsentTexts>;
  if (typeof draft !== "string" || !Array.isArray(entries)) return undefined;
  return { draft, entries: entries.filter((entry) => typeof (entry as { text?: unknown }).text === "string") };
}

/** Writes a complete file or leaves the previous one. Only the user can read the file. */
async function replaceFile(path: string, content: string): Promise<void> {
  const temporaryPath = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporaryPath, content, { mode: 0o600 });
  await rename(temporaryPath, path);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
