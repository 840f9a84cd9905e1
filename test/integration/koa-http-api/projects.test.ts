import assert from "node:assert/strict";
import { mkdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { defineTool } from "gantry";
import { callTools, type ScriptedStep } from "gantry/testing";
import { tempDir, type Hooks } from "../../helpers/temp.js";
import { startServer } from "../../helpers/server.js";
import { startApi } from "../../helpers/http-api.js";

const WRONG = { error: "invalid field: project_dir", code: "invalid_field" };
const where = defineTool({
  name: "where",
  description: "Returns its project folder.",
  needsPermission: false,
  run: (_, { projectDir }) => projectDir,
});

/** A served folder, a project root beside it, and a folder outside both. */
async function folders(t: Hooks) {
  const served = await tempDir(t, { "sub/a.txt": "of the served folder", "file.txt": "x" });
  const root = await tempDir(t, { "repo/b.txt": "of the repo", "repo/sub/x": "", "home/config.json": "{}" });
  const outside = await tempDir(t, { "secret.txt": "secret", "repo/x": "" });
  await symlink(outside.path, root.at("away"));
  await symlink(root.at("repo"), served.at("linked"));
  const steps = Array.from({ length: 20 }, (): ScriptedStep[] => [callTools(["where", {}]), "done"]).flat();
  const http = { projectRoots: [root.path], deniedPaths: [root.at("home")] };
  const api = await startApi(t, { steps, agent: { projectDir: served.path, tools: [where] }, http });
  /** The folder in which the tools ran, and the session id. */
  const ranIn = async (body: object) => {
    const { status, headers, text } = await api.run({ message: "hi", ...body });
    assert.equal(status, 200, text);
    const id = String(headers["x-session-id"]);
    const messages = await api.agent.sessions.messages(id);
    const [part] = messages.findLast(({ role }) => role === "tool")!.parts;
    return { id, folder: part && "text" in part ? part.text : "" };
  };
  return { served, root, outside, api, ranIn };
}

describe("project_dir", () => {
  it("accepts folders in the served folder and in project roots, by their real path", async (t) => {
    const { served, root, api, ranIn } = await folders(t);
    const repo = await realpath(root.at("repo"));
    for (const [requestedFolder, folder] of [
      [root.at("repo"), repo],
      [`${root.at("repo")}/sub/../`, repo],
      [root.path, await realpath(root.path)],
      ["sub", await realpath(served.at("sub"))],
      [".", await realpath(served.path)],
      // A link from the served folder into a project root.
      ["linked", repo],
    ] as const) {
      const ran = await ranIn({ project_dir: requestedFolder });
      assert.equal(ran.folder, folder, requestedFolder);
      assert.equal((await api.agent.sessions.get(ran.id))?.projectDir, folder);
    }
    assert.equal((await ranIn({ project_dir: "" })).folder, served.path);
  });

  it("changes the folder of one run, not the folder of its session", async (t) => {
    const { root, served, api, ranIn } = await folders(t);
    const { id } = await ranIn({ project_dir: "sub" });
    assert.equal(
      (await ranIn({ session_id: id, project_dir: root.at("repo") })).folder,
      await realpath(root.at("repo")),
    );
    assert.equal((await ranIn({ session_id: id })).folder, await realpath(served.at("sub")));
    const session = (await api.send(`/api/sessions/${id}`)).json() as { project_dir: string };
    assert.equal(session.project_dir, await realpath(served.at("sub")));
  });

  it("rejects all other paths with the same error and creates no session", async (t) => {
    const { served, root, outside, api } = await folders(t);
    const gone = await tempDir(t);
    await rm(gone.path, { recursive: true });
    for (const invalidDir of [
      outside.path,
      outside.at("repo"),
      outside.at("secret.txt"),
      outside.at("none"),
      gone.path,
      "..",
      "../..",
      "/",
      root.at("away"),
      root.at("away/repo"),
      // A path with a project root as its prefix.
      `${root.path}-more`,
      served.at("file.txt"),
      "none",
      root.at("home"),
      `sub\0`,
      "x".repeat(10_000),
      5,
      null,
      ["sub"],
    ]) {
      const { status, json } = await api.run({ message: "hi", project_dir: invalidDir });
      assert.deepEqual([status, json()], [400, WRONG], JSON.stringify(invalidDir).slice(0, 80));
    }
    assert.equal((await api.agent.sessions.list()).total, 0);
  });

  it("is the folder of attached files, and allows no files outside the roots on a public address", async (t) => {
    const { served, root, outside, api } = await folders(t);
    const { status, headers } = await api.run({ message: "hi", project_dir: root.at("repo"), files: ["b.txt"] });
    assert.equal(status, 200);
    const [first] = await api.agent.sessions.messages(String(headers["x-session-id"]));
    assert.equal(first?.parts[1]?.type, "file");
    const publicApi = await startApi(t, {
      agent: { projectDir: served.at("sub") },
      host: { host: "0.0.0.0", insecure: true },
      // This test's folders are in the temporary folder, which may be read too.
      http: { projectRoots: [root.path] },
    });
    for (const [body, expectedStatus] of [
      [{ project_dir: root.at("repo"), files: ["b.txt"] }, 200],
      [{ project_dir: root.at("repo"), files: ["/etc/hostname"] }, 400],
      [{ project_dir: outside.path, files: ["secret.txt"] }, 400],
    ] as const)
      assert.equal((await publicApi.run({ message: "hi", ...body })).status, expectedStatus, JSON.stringify(body));
  });

  it("accepts server.project_roots relative to the config file, but never gantry's home folder", async (t) => {
    const home = await tempDir(t, { "repos/one/x": "" });
    const config = { server: { project_roots: ["repos"] } };
    const server = await startServer(t, { home: home.path, config });
    const ask = (project_dir: string) =>
      server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "hi", project_dir }) });
    // gantry's own home is never a project folder, whatever the config allows.
    assert.equal((await ask(home.at("repos/one"))).status, 400);
    assert.equal((await ask(".")).status, 200);
    const outer = await tempDir(t, { "repos/one/x": "" });
    await mkdir(outer.at("conf"));
    await writeFile(outer.at("conf/config.json"), JSON.stringify({ server: { project_roots: ["../repos"] } }));
    const second = await startServer(t, { args: ["serve", "--port", "0", "--config", outer.at("conf/config.json")] });
    const body = (project_dir: string) => JSON.stringify({ message: "hi", project_dir });
    const answers = [outer.at("repos/one"), outer.at("repos"), outer.at("conf"), outer.path].map(
      async (dir) => (await second.fetch("/api/run", { method: "POST", body: body(dir) })).status,
    );
    assert.deepEqual(await Promise.all(answers), [200, 200, 400, 400]);
  });
});
