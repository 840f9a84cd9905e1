import { builtinTools, folderHistory } from "gantry";
import { callTools } from "gantry/testing";
import { createGate, createWaitTool } from "./gate.js";
import { startApi } from "./http-api.js";
import { tempDir, type Hooks } from "./temp-dir.js";

/** A valid body of each operation that forks, rewinds or undoes. */
export const REWIND_BODIES = {
  "POST /api/sessions/{id}/fork": {},
  "POST /api/sessions/{id}/rewind": { message_id: "x" },
  "POST /api/sessions/{id}/undo": {},
  "POST /api/sessions/{id}/redo": {},
  "POST /api/sessions/{id}/restore": { snapshot_id: "x" },
  "POST /api/sessions/{id}/changes/undo": { path: "a.txt" },
} as const;

/** Sends each operation that forks, rewinds or undoes: with a result, and during a run. */
export async function useRewinds(t: Hooks): Promise<void> {
  const folder = await tempDir(t, { "project/a.txt": "one\n" });
  const gate = createGate();
  const api = await startApi(t, {
    steps: [callTools(["write", { path: "a.txt", content: "two\n" }]), "done", callTools(["wait", {}]), "done"],
    agent: {
      projectDir: folder.at("project"),
      tools: [...builtinTools({ bash: { sandbox: "off" } }), createWaitTool(gate)],
      fileHistory: folderHistory({ folder: folder.at("files") }),
    },
  });
  const { headers } = await api.postRun({ message: "hi" });
  const id = String(headers["x-session-id"]);
  const send = (action: string, body?: object) =>
    api.send(`/api/sessions/${id}/${action}`, body && { body: JSON.stringify(body) });
  const [prompt] = await api.agent.sessions.messages(id);
  for (const action of ["fork", "changes/undo", "redo", "undo"]) await send(action, { path: "a.txt" });
  await send("redo", {});
  const rewind = await send("rewind", { before_message_id: prompt!.id });
  await send("snapshots");
  await send("restore", { snapshot_id: (rewind.json() as { snapshot_id: string }).snapshot_id });
  await send("changes");
  await api.send("/api/git");
  const waitingRun = api.postRun({ message: "wait", session_id: id });
  await gate.firstWait;
  for (const [name, body] of Object.entries(REWIND_BODIES)) await send(name.split("{id}/")[1] ?? "", body);
  gate.open();
  await waitingRun;
}
