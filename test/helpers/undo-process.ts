// A separate process that undoes or redoes changes; tests start it with `fork`. Usage: <folder> <session> [undo|redo].
// The folder contains `store`, `project` and `files`.
import path from "node:path";
import { Agent, folderHistory } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

const [folder = "", sessionId = "", action = "undo"] = process.argv.slice(2);
const agent = new Agent({
  providers: [],
  projectDir: path.join(folder, "project"),
  driver: new SqliteDriver({ path: path.join(folder, "store") }),
  fileHistory: folderHistory({ folder: path.join(folder, "files") }),
});
await (action === "undo" ? agent.sessions.undo(sessionId) : agent.sessions.redo(sessionId));
await agent.close();
process.disconnect();
