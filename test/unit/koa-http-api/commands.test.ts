import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GantryClient } from "gantry/client";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { startApi } from "../../helpers/http-api.js";

async function apiWith(t: Hooks, steps: readonly string[], files: Record<string, string>) {
  const folder = await tempDir(t);
  await folder.write(files);
  const api = await startApi(t, { steps: [...steps], agent: { projectDir: folder.path } });
  return { api, folder, client: new GantryClient({ url: api.url }) };
}

const REVIEW = "---\ndescription: Look at a file\nargument-hint: FILE\n---\nReview $1.";
const review = { name: "review", description: "Look at a file", hint: "FILE", origin: ".agents/commands/review.md" };

describe("slash commands over HTTP", () => {
  it("are listed for a session and for a folder", async (t) => {
    const { api, client } = await apiWith(t, ["fine"], {
      ".agents/commands/review.md": REVIEW,
      "sub/.agents/commands/below.md": "Below.",
    });
    const answer = (await api.send("/api/commands")).json() as { commands: object[] };
    assert.deepEqual(answer.commands.slice(1), [review]);
    const { sessionId } = await client.run({ message: "hello" });
    assert.deepEqual((await client.commands({ sessionId })).slice(1), [review]);
    const below = await client.commands({ projectDir: "sub" });
    assert.deepEqual(
      below.map(({ name }) => name),
      ["compact", "below"],
    );
    assert.equal((await api.send("/api/commands?session_id=none")).status, 404);
    for (const wrong of ["project_dir=/", "project_dir=nowhere", "project_dir=a&project_dir=b"])
      assert.equal((await api.send(`/api/commands?${wrong}`)).status, 400, wrong);
  });

  it("are expanded only in a request with commands: true, and shown as typed", async (t) => {
    const { api, client } = await apiWith(t, ["one", "two", "three"], { ".agents/commands/review.md": REVIEW });
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

  it("return 400 if the command cannot run, or if commands is not a boolean", async (t) => {
    const { api } = await apiWith(t, [], { ".agents/commands/empty.md": "---\n---" });
    const refused = await api.run({ message: "/empty", commands: true });
    assert.equal(refused.status, 400);
    assert.match(refused.text, /\/empty is empty/);
    assert.equal((await api.run({ message: "/compact", commands: true })).status, 400);
    assert.equal((await api.run({ message: "x", commands: "yes" })).status, 400);
  });
});
