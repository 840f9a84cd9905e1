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
  #store: string[] = [];
  #files: string[] = [];
  #open: string[] | undefined;
  #counting = false;

  constructor() {
    const statement = Object.getPrototypeOf(prepare(retain(new Sqlite(":memory:")), "SELECT 1")) as object;
    for (const name of ["run", "get", "all", "iterate"])
      wrap(
        statement,
        name,
        function (this: { source: string }) {
          return this.source;
        },
        (sql) => this.#statement(sql),
      );
    wrap(
      Sqlite.prototype,
      "exec",
      (sql) => String(sql),
      (sql) => this.#statement(sql),
    );
    for (const name of Object.keys(fsPromises))
      wrap(
        fsPromises,
        name,
        (path) => `${name} ${String(path)}`,
        (call) => this.#file(call),
      );
    for (const name of ["open", ...Object.keys(fs).filter((name) => name.endsWith("Sync"))])
      wrap(
        fs,
        name,
        (path) => `${name} ${String(path)}`,
        (call) => this.#file(call),
      );
    for (const name of ["fsync", "fdatasync"])
      wrap(
        fs,
        name,
        () => "sync",
        (what) => this.#sync(what),
      );
    syncBuiltinESMExports();
  }

  /** Records the operations of `work`. */
  async of(work: () => Promise<unknown>): Promise<{ store: string[]; files: string[] }> {
    this.#store = [];
    this.#files = [];
    this.#counting = true;
    try {
      await work();
    } finally {
      this.#counting = false;
    }
    return { store: this.#store, files: this.#files };
  }

  #file(call: string): void {
    if (this.#counting) this.#files.push(call);
  }

  #sync(what: string): void {
    if (this.#counting) this.#store.push(what);
  }

  #statement(sql: string): void {
    if (!this.#counting) return;
    if (/^BEGIN/.test(sql)) this.#open = [];
    else if (/^(SAVEPOINT|RELEASE)/.test(sql)) return;
    else if (sql === "COMMIT" || sql === "ROLLBACK") {
      this.#store.push(`${sql === "COMMIT" ? "" : "ROLLBACK "}[${this.#open?.join(", ") ?? ""}]`);
      this.#open = undefined;
    } else (this.#open ?? this.#store).push(sql.startsWith("ROLLBACK") ? "ROLLBACK" : inShort(sql));
  }
}

/** Short form of a statement, for example `INSERT messages` or `SELECT sessions`. */
function inShort(sql: string): string {
  const table = /\b(?:FROM|INTO|UPDATE)\s+(\w+)/.exec(sql)?.[1] ?? sql.slice(0, 40);
  return `${/^\w+/.exec(sql)?.[0] ?? ""} ${table}`;
}

/** Wraps a method: passes a description of each call to `note`. */
function wrap(
  on: object,
  name: string,
  about: (this: never, ...args: unknown[]) => string,
  note: (what: string) => void,
): void {
  const methods = on as Record<string, unknown>;
  const method = methods[name];
  if (typeof method !== "function") return;
  const noting = (original: (this: never, ...args: unknown[]) => unknown) =>
    function (this: never, ...args: unknown[]): unknown {
      note(about.apply(this, args));
      return original.apply(this, args);
    };
  const { native } = method as { native?: () => unknown };
  methods[name] = Object.assign(noting(method as () => unknown), native && { native: noting(native) });
}
