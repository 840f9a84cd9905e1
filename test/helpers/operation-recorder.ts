import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import Sqlite from "better-sqlite3";
import { retain, prepare } from "../../adapters/sqlite-driver/retained-objects.js";

/** Records SQLite statements and file operations as short texts, so that two lists can be compared. */
export class OperationRecorder {
  /**
   * A line for each statement outside a transaction, for each transaction with its statements, and for each disk sync.
   */
  #storeOperations: string[] = [];
  #fileOperations: string[] = [];
  #transaction: string[] | undefined;
  #isRecording = false;

  constructor() {
    const statement = Object.getPrototypeOf(prepare(retain(new Sqlite(":memory:")), "SELECT 1")) as object;
    for (const name of ["run", "get", "all", "iterate"])
      wrap(
        statement,
        name,
        function (this: { source: string }) {
          return this.source;
        },
        (sql) => this.#recordStatement(sql),
      );
    wrap(
      Sqlite.prototype,
      "exec",
      (sql) => String(sql),
      (sql) => this.#recordStatement(sql),
    );
    for (const name of Object.keys(fsPromises))
      wrap(
        fsPromises,
        name,
        (path) => `${name} ${String(path)}`,
        (call) => this.#recordFile(call),
      );
    for (const name of ["open", ...Object.keys(fs).filter((name) => name.endsWith("Sync"))])
      wrap(
        fs,
        name,
        (path) => `${name} ${String(path)}`,
        (call) => this.#recordFile(call),
      );
    for (const name of ["fsync", "fdatasync"])
      wrap(
        fs,
        name,
        () => "sync",
        (operation) => this.#recordSync(operation),
      );
    syncBuiltinESMExports();
  }

  /** Runs `work` and returns its SQL statements and disk syncs (`store`) and its file operations (`files`). */
  async recordOperations(work: () => Promise<unknown>): Promise<{ store: string[]; files: string[] }> {
    this.#storeOperations = [];
    this.#fileOperations = [];
    this.#isRecording = true;
    try {
      await work();
    } finally {
      this.#isRecording = false;
    }
    return { store: this.#storeOperations, files: this.#fileOperations };
  }

  #recordFile(call: string): void {
    if (this.#isRecording) this.#fileOperations.push(call);
  }

  #recordSync(operation: string): void {
    if (this.#isRecording) this.#storeOperations.push(operation);
  }

  #recordStatement(sql: string): void {
    if (!this.#isRecording) return;
    if (/^BEGIN/.test(sql)) this.#transaction = [];
    else if (/^(SAVEPOINT|RELEASE)/.test(sql)) return;
    else if (sql === "COMMIT" || sql === "ROLLBACK") {
      this.#storeOperations.push(`${sql === "COMMIT" ? "" : "ROLLBACK "}[${this.#transaction?.join(", ") ?? ""}]`);
      this.#transaction = undefined;
    } else
      (this.#transaction ?? this.#storeOperations).push(
        sql.startsWith("ROLLBACK") ? "ROLLBACK" : shortenStatement(sql),
      );
  }
}

/** Short form of a statement, for example `INSERT messages` or `SELECT sessions`. */
function shortenStatement(sql: string): string {
  const table = /\b(?:FROM|INTO|UPDATE)\s+(\w+)/.exec(sql)?.[1] ?? sql.slice(0, 40);
  return `${/^\w+/.exec(sql)?.[0] ?? ""} ${table}`;
}

/** Wraps a method: passes a description of each call to `record`. Does nothing if `target` has no such method. */
function wrap(
  target: object,
  name: string,
  describe: (this: never, ...args: unknown[]) => string,
  record: (operation: string) => void,
): void {
  const methods = target as Record<string, unknown>;
  const method = methods[name];
  if (typeof method !== "function") return;
  const wrapMethod = (original: (this: never, ...args: unknown[]) => unknown) =>
    function (this: never, ...args: unknown[]): unknown {
      record(describe.apply(this, args));
      return original.apply(this, args);
    };
  // `realpath` has a second implementation in its property `native`.
  const { native } = method as { native?: () => unknown };
  methods[name] = Object.assign(wrapMethod(method as () => unknown), native && { native: wrapMethod(native) });
}
