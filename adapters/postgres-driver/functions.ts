import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

// The SQL files use `@.` for the schema and `@v` for a suffix that distinguishes these functions from those of other
// versions. A rejected call raises an SQLSTATE of the class GN (`sql-errors.ts`), which rolls the call back. Every
// change has a token, so that a change sent again after a lost answer is made once.

/** The build replaces each call by the text of the file, because a bundled program has no files next to it. */
const read = (file: string): string => readFileSync(new URL(file, import.meta.url), "utf8");

let cachedFunctions: { sql: string; suffix: string } | undefined;

/**
 * Returns the SQL of all functions, and the suffix of their names. The suffix depends on the text, so that servers of
 * two versions can share a schema.
 */
export function getDatabaseFunctions(): { sql: string; suffix: string } {
  if (cachedFunctions) return cachedFunctions;
  const files = [
    read("./sql/shared.sql"),
    read("./sql/create.sql"),
    read("./sql/write.sql"),
    read("./sql/change.sql"),
    read("./sql/delete.sql"),
    read("./sql/lease.sql"),
    read("./sql/calls.sql"),
    read("./sql/read.sql"),
  ];
  const sql = files.join("\n");
  cachedFunctions = { sql, suffix: `_${createHash("sha256").update(sql).digest("hex").slice(0, 8)}` };
  return cachedFunctions;
}
