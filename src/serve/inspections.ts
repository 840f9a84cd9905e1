// Inspections of stores for `gantry doctor`, apart from the code of each start.

/** Loads the inspection of the files of the built-in driver `sqlite`. */
export function loadSqliteInspection() {
  return import("../../adapters/sqlite-driver/inspect.js");
}

/** Loads the inspection of the database of the built-in driver `postgres`. */
export function loadPostgresInspection() {
  return import("../../adapters/postgres-driver/inspect.js");
}
