import { readFileSync } from "node:fs";
import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { newId } from "../base/ids.js";
import { isRecord } from "../base/json.js";
import { sanitizeModels } from "./sanitize-model.js";
import type { CatalogueCache } from "./models.js";
import type { Logger } from "../ports/logger.js";
import type { Model } from "../ports/model-provider.js";

/** Stores model lists in one JSON file, which is replaced as a whole. A missing or damaged file counts as empty. */
export class FileCatalogueCache implements CatalogueCache {
  readonly #path: string;
  readonly #logger: Logger;
  /** Content of the file when this process last read or wrote it; undefined if there was none. */
  #text: string | undefined;

  constructor(path: string, logger: Logger) {
    this.#path = path;
    this.#logger = logger;
  }

  load(): Promise<Record<string, Model[]>> {
    return Promise.resolve(this.#read());
  }

  /**
   * Reads synchronously: the file is read once, the first session waits for it, and asynchronous reading would take
   * four turns of the event loop.
   */
  #read(): Record<string, Model[]> {
    this.#text = undefined;
    try {
      this.#text = readFileSync(this.#path, "utf8");
      const value: unknown = JSON.parse(this.#text);
      if (!isRecord(value) || !isRecord(value["models"])) return {};
      return Object.fromEntries(
        Object.entries(value["models"]).map(([provider, models]) => [
          provider,
          Array.isArray(models) ? sanitizeModels(models) : [],
        ]),
      );
    } catch {
      return {};
    }
  }

  async save(models: Record<string, readonly Model[]>): Promise<void> {
    const text = `${JSON.stringify({ version: 1, models })}\n`;
    // Most processes receive the list of the process before.
    if (text === this.#text) return;
    const temporaryPath = `${this.#path}.${newId()}.tmp`;
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
      await writeFile(temporaryPath, text, { mode: 0o600, flag: "wx" });
      await chmod(temporaryPath, 0o600);
      await rename(temporaryPath, this.#path);
      this.#text = text;
    } catch (error) {
      await rm(temporaryPath, { force: true }).catch(() => undefined);
      this.#logger.warn("model list could not be cached", { error: error instanceof Error ? error.message : error });
    }
  }
}
