import { execFileSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";

/** Folders of packages that install several versions in parallel. */
const VERSIONED_FOLDERS = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/Library/PostgreSQL/*/bin"];
const HOMEBREW_FOLDERS = ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"];
const FIXED_FOLDERS = ["/usr/local/pgsql/bin", "/usr/lib/postgresql/bin", "/usr/libexec/postgresql"];
const POSTGRES_APP_FOLDERS = "/Applications/Postgres.app/Contents/Versions/*/bin";

/** The folder with `initdb` and `postgres`; undefined if no PostgreSQL server is installed. */
export function findPostgres(): string | undefined {
  const pathFolders = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [
    ...pathFolders,
    ...VERSIONED_FOLDERS.flatMap(expandPattern),
    ...HOMEBREW_FOLDERS.flatMap((folder) => [
      ...expandPattern(`${folder}/postgresql@*/bin`),
      `${folder}/postgresql/bin`,
    ]),
    ...expandPattern(POSTGRES_APP_FOLDERS),
    ...FIXED_FOLDERS,
    ...readPgConfigFolders(),
  ].find((folder) => ["initdb", "postgres"].every((name) => existsSync(path.join(folder, name))));
}

/** Path of a program in PATH or in the administrators' folders; undefined if the program is missing. */
export function findProgram(name: string): string | undefined {
  const pathFolders = (process.env.PATH ?? "").split(path.delimiter).filter(path.isAbsolute);
  return [...pathFolders, "/usr/local/sbin", "/usr/sbin", "/sbin", "/opt/homebrew/bin"]
    .map((folder) => path.join(folder, name))
    .find((file) => existsSync(file));
}

/** Folders that match a pattern with one `*`, the highest version first. */
function expandPattern(pattern: string): string[] {
  const [textBeforeStar = "", textAfterStar = ""] = pattern.split("*");
  const folder = textBeforeStar.endsWith("/") ? textBeforeStar : path.dirname(textBeforeStar);
  const prefix = textBeforeStar.slice(folder.length).replace(/^\//, "");
  let names: string[];
  try {
    names = readdirSync(folder).filter((name) => name.startsWith(prefix));
  } catch {
    return [];
  }
  names.sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
  return names.map((name) => path.join(folder, `${name}${textAfterStar}`));
}

/** The folder that `pg_config` reports; empty if there is no `pg_config`. */
function readPgConfigFolders(): string[] {
  try {
    return [execFileSync("pg_config", ["--bindir"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()];
  } catch {
    return [];
  }
}
