import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

// In the files `@.` is the schema, and `@v` tells these functions from those of other versions. A refusal raises an SQLSTATE
// of the class GN (`refusals.ts`) and undoes all of the call. Every change has a token, so that a change that is sent again
// because its answer was lost is made once.

/** The build replaces each call by the text of its file: a program that bundles gantry has no file beside it. */
const read = (file: string): string => readFileSync(new URL(file, import.meta.url), "utf8");

let functions: { sql: string; suffix: string } | undefined;

/**
 * The SQL of all functions, and the suffix of their names. Functions of another text have another suffix, so that servers of
 * two versions can share a schema.
 */
export function databaseFunctions(): { sql: string; suffix: string } {
  if (functions) return functions;
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
  functions = { sql, suffix: `_${createHash("sha256").update(sql).digest("hex").slice(0, 8)}` };
  return functions;
}
