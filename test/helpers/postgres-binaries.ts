import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";

/** Folders of packages that install several versions in parallel. */
const VERSIONED = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/Library/PostgreSQL/*/bin"];
const HOMEBREW = ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"];
const PLACES = ["/usr/local/pgsql/bin", "/usr/lib/postgresql/bin", "/usr/libexec/postgresql"];
const APP = "/Applications/Postgres.app/Contents/Versions/*/bin";

/** The folder with `initdb` and `postgres`; undefined if no PostgreSQL server is installed. */
export function findPostgres(): string | undefined {
  const onPath = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [
    ...onPath,
    ...VERSIONED.flatMap(expand),
    ...HOMEBREW.flatMap((folder) => [...expand(`${folder}/postgresql@*/bin`), `${folder}/postgresql/bin`]),
    ...expand(APP),
    ...PLACES,
    ...pgConfigFolders(),
  ].find((folder) => ["initdb", "postgres"].every((name) => existsSync(path.join(folder, name))));
}

/** A program on the path or in the administrators' folders; undefined if it is missing. */
export function findProgram(name: string): string | undefined {
  const onPath = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [...onPath, "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin"]
    .map((folder) => path.join(folder, name))
    .find((file) => existsSync(file));
}

/** Folders that match a pattern with one `*`, the highest version first. */
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

/** The folder that `pg_config` reports. */
function pgConfigFolders(): string[] {
  try {
    return [execFileSync("pg_config", ["--bindir"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()];
  } catch {
    return [];
  }
}
