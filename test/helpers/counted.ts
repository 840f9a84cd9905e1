import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import Sqlite from "better-sqlite3";
import { keep, prepare } from "../../adapters/sqlite-driver/retained-objects.js";

/** What is done to SQLite and to files from now on, in words that a difference of two lists is read by. */
export class Counted {
  /** A line for each statement outside of a transaction, for each transaction with its statements, and for each sync of the disk. */
  #store: string[] = [];
  #files: string[] = [];
  #open: string[] | undefined;
  #counting = false;

  constructor() {
    const statement = Object.getPrototypeOf(prepare(keep(new Sqlite(":memory:")), "SELECT 1")) as object;
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
    for (const name of ["open", ...Object.keys(fs).filter((one) => one.endsWith("Sync"))])
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

  /** What `work` did. */
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

/** `INSERT messages`, `SELECT sessions`. */
function inShort(sql: string): string {
  const table = /\b(?:FROM|INTO|UPDATE)\s+(\w+)/.exec(sql)?.[1] ?? sql.slice(0, 40);
  return `${/^\w+/.exec(sql)?.[0] ?? ""} ${table}`;
}

/** Have `note` told what each call is about. */
function wrap(
  on: object,
  name: string,
  about: (this: never, ...args: unknown[]) => string,
  note: (what: string) => void,
): void {
  const methods = on as Record<string, unknown>;
  const method = methods[name];
  if (typeof method !== "function") return;
  const noting = (one: (this: never, ...args: unknown[]) => unknown) =>
    function (this: never, ...args: unknown[]): unknown {
      note(about.apply(this, args));
      return one.apply(this, args);
    };
  const { native } = method as { native?: () => unknown };
  methods[name] = Object.assign(noting(method as () => unknown), native && { native: noting(native) });
}
