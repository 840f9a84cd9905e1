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
    try {
      const value: unknown = JSON.parse(readFileSync(this.#path, "utf8"));
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
    const temporaryPath = `${this.#path}.${newId()}.tmp`;
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
      await writeFile(temporaryPath, `${JSON.stringify({ version: 1, models })}\n`, { mode: 0o600, flag: "wx" });
      await chmod(temporaryPath, 0o600);
      await rename(temporaryPath, this.#path);
    } catch (error) {
      await rm(temporaryPath, { force: true }).catch(() => undefined);
      this.#logger.warn("model list could not be cached", { error: error instanceof Error ? error.message : error });
    }
  }
}
