// A separate process that undoes changes; tests start it with `fork`. Usage: <folder> <session>. The folder contains
// `store`, `project` and `files`.
import path from "node:path";
import { Agent, folderHistory } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

const [folder = "", id = "", verb = "undo"] = process.argv.slice(2);
const agent = new Agent({
  providers: [],
  projectDir: path.join(folder, "project"),
  driver: new SqliteDriver({ path: path.join(folder, "store") }),
  fileHistory: folderHistory({ folder: path.join(folder, "files") }),
});
await (verb === "undo" ? agent.sessions.undo(id) : agent.sessions.redo(id));
await agent.close();
process.disconnect();
