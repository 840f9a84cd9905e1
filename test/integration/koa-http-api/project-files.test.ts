import assert from "node:assert/strict";
import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { type ApiError, GantryClient } from "gantry/client";
import { startApi } from "../../helpers/http-api.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

async function startApiWithFiles(t: Hooks) {
  const folder = await tempDir(t);
  const otherFolder = await tempDir(t);
  await otherFolder.write({ "other.ts": "" });
  await folder.write({
    ".gitignore": "dist/\n",
    "src/app.ts": "",
    "src/map.ts": "",
    "src/a/p/p.ts": "",
    "dist/app.js": "",
    "denied/app.key": "",
    "docs/my app notes.md": "",
  });
  await symlink(otherFolder.path, join(folder.path, "link"));
  const api = await startApi(t, {
    steps: ["fine"],
    agent: { projectDir: folder.path },
    http: { deniedPaths: [join(folder.path, "denied")] },
  });
  return { api, otherFolder, client: new GantryClient({ url: api.url }) };
}

describe("GET /api/files", () => {
  it("finds files by their path, best match first, without ignored and denied files", async (t) => {
    const { client } = await startApiWithFiles(t);
    assert.deepEqual(await client.files({ query: "app" }), ["src/app.ts", "docs/my app notes.md", "src/a/p/p.ts"]);
    assert.deepEqual(await client.files({ query: "SRC/M" }), ["src/map.ts"]);
    assert.deepEqual(await client.files({ query: "none" }), []);
    assert.deepEqual(await client.files({ query: "app", limit: 1 }), ["src/app.ts"]);
    const paths = await client.files();
    assert.ok(paths.includes("src/app.ts") && !paths.some((path) => /^(dist|denied|link)/.test(path)), paths.join());
  });

  it("lists the folder of a session, and refuses folders that no run may use", async (t) => {
    const { api, client, otherFolder } = await startApiWithFiles(t);
    const { sessionId } = await client.run({ message: "hello", project_dir: "src" });
    assert.deepEqual(await client.files({ sessionId, query: "app" }), ["app.ts", "a/p/p.ts"]);
    for (const projectDir of ["/", otherFolder.path, "link", "denied", "nowhere"])
      await assert.rejects(client.files({ projectDir }), (error: ApiError) => error.status === 400, projectDir);
    assert.equal((await api.send("/api/files?session_id=none")).status, 404);
    for (const query of ["limit=0", `query=${"x".repeat(201)}`])
      assert.equal((await api.send(`/api/files?${query}`)).status, 400, query);
  });
});
