// A process that holds the write lock of a SQLite file. Usage: <path> <ms>
import { setTimeout as sleep } from "node:timers/promises";
import Sqlite from "better-sqlite3";

const [path = "", ms = "0"] = process.argv.slice(2);
const db = new Sqlite(path, { timeout: 10_000 });
db.exec("BEGIN IMMEDIATE");
process.send?.("held");
await sleep(Number(ms));
process.send?.("released");
db.exec("COMMIT");
db.close();
process.disconnect?.();
