import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { startApi } from "../../helpers/http-api.js";

async function startApiWithFiles(t: Hooks, steps: readonly string[], files: Record<string, string>) {
  const folder = await tempDir(t);
  await folder.write(files);
  const api = await startApi(t, { steps: [...steps], agent: { projectDir: folder.path } });
  return { api, folder, client: new GantryClient({ url: api.url }) };
}

const REVIEW_COMMAND = "---\ndescription: Look at a file\nargument-hint: FILE\n---\nReview $1.";
const reviewEntry = {
  name: "review",
  description: "Look at a file",
  hint: "FILE",
  origin: ".agents/commands/review.md",
};

describe("slash commands over HTTP", () => {
  it("GET /api/commands lists the commands of a session or of a folder", async (t) => {
    const { api, client } = await startApiWithFiles(t, ["fine"], {
      ".agents/commands/review.md": REVIEW_COMMAND,
      "sub/.agents/commands/below.md": "Below.",
    });
    const response = (await api.send("/api/commands")).json() as { commands: object[] };
    assert.deepEqual(response.commands.slice(1), [reviewEntry]);
    const { sessionId } = await client.run({ message: "hello" });
    assert.deepEqual((await client.commands({ sessionId })).slice(1), [reviewEntry]);
    const subfolderCommands = await client.commands({ projectDir: "sub" });
    assert.deepEqual(
      subfolderCommands.map(({ name }) => name),
      ["compact", "below"],
    );
    assert.equal((await api.send("/api/commands?session_id=none")).status, 404);
    for (const query of ["project_dir=/", "project_dir=nowhere", "project_dir=a&project_dir=b"])
      assert.equal((await api.send(`/api/commands?${query}`)).status, 400, query);
  });

  it("POST /api/run expands a command only with commands: true and stores the typed text", async (t) => {
    const { api, client } = await startApiWithFiles(t, ["one", "two", "three"], {
      ".agents/commands/review.md": REVIEW_COMMAND,
    });
    const { sessionId } = await client.run({ message: "/review a.ts", commands: true });
    await client.run({ message: "/review b.ts", session_id: sessionId });
    await client.run({ message: "/review c.ts", session_id: sessionId, commands: false });
    const userMessages = (await client.sessions.messages(sessionId)).filter(({ role }) => role === "user");
    assert.deepEqual(
      userMessages.map(({ content, expanded_content }) => [content, expanded_content]),
      [
        ["/review a.ts", "Review a.ts."],
        ["/review b.ts", undefined],
        ["/review c.ts", undefined],
      ],
    );
    const modelMessages = api.provider.requests.at(-1)?.messages.filter(({ role }) => role === "user");
    assert.deepEqual(
      modelMessages?.map(({ parts }) => parts.map((part) => "text" in part && part.text)),
      [["Review a.ts."], ["/review b.ts"], ["/review c.ts"]],
    );
  });

  it("POST /api/run returns 400 if the command cannot run or commands is not a boolean", async (t) => {
    const { api } = await startApiWithFiles(t, [], { ".agents/commands/empty.md": "---\n---" });
    const response = await api.postRun({ message: "/empty", commands: true });
    assert.equal(response.status, 400);
    assert.match(response.text, /\/empty is empty/);
    assert.equal((await api.postRun({ message: "/compact", commands: true })).status, 400);
    assert.equal((await api.postRun({ message: "x", commands: "yes" })).status, 400);
  });
});
