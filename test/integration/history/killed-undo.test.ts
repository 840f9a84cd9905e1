import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { describe, it } from "node:test";
import { Agent, builtinTools, folderHistory, hasCode } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import { Child } from "../../helpers/child.js";
import { tempDir } from "../../helpers/temp-dir.js";

const FILE_COUNT = 120;

describe("an undo or redo whose process is killed", () => {
  it("is completed by the same operation and reverted by the opposite operation", async (t) => {
    const fileNames = Array.from(
      { length: FILE_COUNT },
      (_, i) => `d${i % 7}/f${String(i).padStart(3, "0")}.txt`,
    ).sort();
    // Every third file is new, the others exist before the run.
    const oldFiles = Object.fromEntries(
      fileNames.filter((_, i) => i % 3 !== 0).map((name) => [`project/${name}`, "one\n"]),
    );
    const folder = await tempDir(t, { ...oldFiles, "files/x": "", "project/own.txt": "" });
    const provider = new ScriptedProvider([
      callTools(...fileNames.map((path) => ["write", { path, content: "two\n" }] as const)),
      "done",
    ]);
    const agent = new Agent({
      providers: [provider],
      tools: builtinTools({}),
      projectDir: folder.at("project"),
      driver: new SqliteDriver({ path: folder.at("store") }),
      fileHistory: folderHistory({ folder: folder.at("files") }),
    });
    t.after(() => agent.close());
    const run = await agent.run({ message: "write" });
    await run.result;
    const sessionId = run.sessionId;
    const messageCount = (await agent.sessions.messages(sessionId)).length;
    const readProjectFile = (name: string): string =>
      existsSync(folder.at("project", name)) ? readFileSync(folder.at("project", name), "utf8") : "";
    const assertState = async (isUndone: boolean, situation: string): Promise<void> => {
      for (const [i, name] of fileNames.entries())
        assert.equal(readProjectFile(name), isUndone ? (i % 3 === 0 ? "" : "one\n") : "two\n", `${situation}: ${name}`);
      assert.equal((await agent.sessions.messages(sessionId)).length, isUndone ? 0 : messageCount, situation);
      const temporaryFiles = (await readdir(folder.at("project"), { recursive: true })).filter((name) =>
        name.endsWith(".tmp"),
      );
      assert.deepEqual(temporaryFiles, [], situation);
    };
    /**
     * Kills the process when `changedPath` has been undone or redone. Undefined: when the plan is recorded, before the
     * first path.
     */
    const killDuring = async (operationName: "undo" | "redo", changedPath: string | undefined): Promise<void> => {
      const child = new Child("undo-process.ts", [folder.path, sessionId, operationName]);
      const journal = folder.at("files", sessionId, "journal.jsonl");
      const initialState =
        changedPath === undefined ? readFileSync(journal, "utf8").length : readProjectFile(changedPath);
      const hasChanged = () =>
        (changedPath === undefined ? readFileSync(journal, "utf8").length : readProjectFile(changedPath)) !==
        initialState;
      await new Promise<void>((resolve) => {
        const poll = () => {
          if (!hasChanged() && child.process.exitCode === null) return void setImmediate(poll);
          resolve();
        };
        poll();
      });
      await child.kill();
    };
    /** Repeats the operation. Ignores `nothing_to_undo`: the killed process may have completed the operation. */
    const resume = async (operationName: "undo" | "redo"): Promise<void> => {
      const operation = operationName === "undo" ? agent.sessions.undo(sessionId) : agent.sessions.redo(sessionId);
      await operation.catch((error: unknown) => {
        if (!hasCode(error, "nothing_to_undo")) throw error;
      });
    };
    await killDuring("undo", undefined);
    await resume("redo");
    await assertState(false, "redo after the plan was recorded");
    await killDuring("undo", fileNames[4]);
    await resume("undo");
    await assertState(true, "undo after a killed undo");
    await killDuring("redo", fileNames[FILE_COUNT / 2]);
    await resume("undo");
    await assertState(true, "undo after a killed redo");
    await killDuring("redo", fileNames[FILE_COUNT - 40]);
    await resume("redo");
    await assertState(false, "redo after a killed redo");
  });
});
