// A process that holds the write lock of a SQLite file until it receives a message. Usage: <path>
import { once } from "node:events";
import Sqlite from "better-sqlite3";

const [path = ""] = process.argv.slice(2);
const database = new Sqlite(path, { timeout: 10_000 });
database.exec("BEGIN IMMEDIATE");
process.send?.("held");
await once(process, "message");
database.exec("COMMIT");
database.close();
process.disconnect?.();
