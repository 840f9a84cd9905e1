import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";

/** Where packages put the newest of several versions beside each other. */
const VERSIONED = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/Library/PostgreSQL/*/bin"];
const HOMEBREW = ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"];
const PLACES = ["/usr/local/pgsql/bin", "/usr/lib/postgresql/bin", "/usr/libexec/postgresql"];
const APP = "/Applications/Postgres.app/Contents/Versions/*/bin";

/** The folder with `initdb` and `postgres`; undefined where PostgreSQL's server is not installed. */
export function findPostgres(): string | undefined {
  const onPath = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [
    ...onPath,
    ...VERSIONED.flatMap(expand),
    ...HOMEBREW.flatMap((folder) => [...expand(`${folder}/postgresql@*/bin`), `${folder}/postgresql/bin`]),
    ...expand(APP),
    ...PLACES,
    ...told(),
  ].find((folder) => ["initdb", "postgres"].every((name) => existsSync(path.join(folder, name))));
}

/** A program of the path or of the folders for administrators; undefined where it is missing. */
export function findProgram(name: string): string | undefined {
  const onPath = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [...onPath, "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin"]
    .map((folder) => path.join(folder, name))
    .find((file) => existsSync(file));
}

/** Folders that a pattern with one `*` means, the greatest version first. */
function expand(pattern: string): string[] {
  const [before = "", after = ""] = pattern.split("*");
  const folder = before.endsWith("/") ? before : path.dirname(before);
  const prefix = before.slice(folder.length).replace(/^\//, "");
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => name.startsWith(prefix));
  } catch {
    return [];
  }
  names.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  return names.map((name) => path.join(folder, `${name}${after}`));
}

/** Where `pg_config` says that they are. */
function told(): string[] {
  try {
    return [execFileSync("pg_config", ["--bindir"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()];
  } catch {
    return [];
  }
}
