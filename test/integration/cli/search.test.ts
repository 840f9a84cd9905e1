import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { MessageMatch } from "gantry/plugin";
import { startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { runGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

describe("gantry sessions search", () => {
  it("prints messages with all words as a table or JSON, newest first, without control characters", async (t) => {
    // The model never returns a title, so the title is taken from the prompt.
    const modelServer = await startModelServer(t, { toolFreeAnswer: { say: [{ stall: true }] } });
    const [home, project] = [await tempDir(t), await tempDir(t)];
    const options = { home: home.path, projectDir: project.path, config: createServerConfig(modelServer) };
    const gantry = (...args: string[]) => runGantry(t, args, options);
    const searchJson = async (...args: string[]) =>
      JSON.parse((await gantry("sessions", "search", "--json", ...args)).stdout) as MessageMatch[];
    for (const prompt of ["fix the parser", "test the \u001b[2J parser\nagain"]) await gantry("run", "--quiet", prompt);

    const [second, first, ...otherMatches] = await searchJson("PARSER", "the");
    assert.deepEqual(otherMatches, []);
    assert.deepEqual([first?.snippet, first?.title, first?.role], ["fix the parser", "fix the parser", "user"]);
    assert.notEqual(first?.sessionId, second?.sessionId);
    const table = await gantry("sessions", "search", "the pars");
    const [headings, ...rows] = table.stdout.trimEnd().split("\n");
    assert.match(headings ?? "", /^SESSION +TIME +ROLE +TEXT$/);
    assert.deepEqual(
      rows.map((row) => row.split(/ {2,}/)[0]),
      [second?.sessionId, first?.sessionId],
    );
    assert.match(rows[0] ?? "", / {2}user +test the \[2J parser again$/);
    assert.equal((await searchJson("parser", "--limit", "1")).length, 1);
    assert.equal((await searchJson("parser", "--folder", home.path)).length, 0);
    const emptySearch = await gantry("sessions", "search", "nothing");
    assert.deepEqual([emptySearch.code, emptySearch.stdout, emptySearch.stderr], [0, "", "no messages\n"]);
    const failedSearch = await gantry("sessions", "search");
    assert.equal(failedSearch.stdout, "");
    assert.match(failedSearch.stderr, /a text to search for is required/);
  });
});
