import assert from "node:assert/strict";
import { mkdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { defineTool } from "gantry";
import { callTools, type ScriptedStep } from "gantry/testing";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";
import { startServer } from "../../helpers/server.js";
import { startApi } from "../../helpers/http-api.js";

const PROJECT_DIR_ERROR = { error: "invalid field: project_dir", code: "invalid_field" };
const projectDirTool = defineTool({
  name: "where",
  description: "Returns its project folder.",
  needsPermission: false,
  run: (_, { projectDir }) => projectDir,
});

/** Starts an API with a served folder, a separate project root, and a folder outside both. */
async function startProjectApi(t: Hooks) {
  const servedFolder = await tempDir(t, { "sub/a.txt": "of the served folder", "file.txt": "x" });
  const rootFolder = await tempDir(t, { "repo/b.txt": "of the repo", "repo/sub/x": "", "home/config.json": "{}" });
  const outsideFolder = await tempDir(t, { "secret.txt": "secret", "repo/x": "" });
  await symlink(outsideFolder.path, rootFolder.at("away"));
  await symlink(rootFolder.at("repo"), servedFolder.at("linked"));
  const steps = Array.from({ length: 20 }, (): ScriptedStep[] => [callTools(["where", {}]), "done"]).flat();
  const http = { projectRoots: [rootFolder.path], deniedPaths: [rootFolder.at("home")] };
  const api = await startApi(t, { steps, agent: { projectDir: servedFolder.path, tools: [projectDirTool] }, http });
  /** Runs a prompt. Returns the folder in which its tools ran, and the session id. */
  const runInFolder = async (body: object) => {
    const { status, headers, text } = await api.postRun({ message: "hi", ...body });
    assert.equal(status, 200, text);
    const id = String(headers["x-session-id"]);
    const messages = await api.agent.sessions.messages(id);
    const [part] = messages.findLast(({ role }) => role === "tool")!.parts;
    return { id, folder: part && "text" in part ? part.text : "" };
  };
  return { servedFolder, rootFolder, outsideFolder, api, runInFolder };
}

describe("project_dir", () => {
  it("accepts folders whose real path is in the served folder or in a project root", async (t) => {
    const { servedFolder, rootFolder, api, runInFolder } = await startProjectApi(t);
    const repoPath = await realpath(rootFolder.at("repo"));
    for (const [requestedFolder, expectedFolder] of [
      [rootFolder.at("repo"), repoPath],
      [`${rootFolder.at("repo")}/sub/../`, repoPath],
      [rootFolder.path, await realpath(rootFolder.path)],
      ["sub", await realpath(servedFolder.at("sub"))],
      [".", await realpath(servedFolder.path)],
      // A symbolic link from the served folder into a project root.
      ["linked", repoPath],
    ] as const) {
      const runResult = await runInFolder({ project_dir: requestedFolder });
      assert.equal(runResult.folder, expectedFolder, requestedFolder);
      assert.equal((await api.agent.sessions.get(runResult.id))?.projectDir, expectedFolder);
    }
    assert.equal((await runInFolder({ project_dir: "" })).folder, servedFolder.path);
  });

  it("sets the folder of one run and does not change the folder of its session", async (t) => {
    const { rootFolder, servedFolder, api, runInFolder } = await startProjectApi(t);
    const { id } = await runInFolder({ project_dir: "sub" });
    assert.equal(
      (await runInFolder({ session_id: id, project_dir: rootFolder.at("repo") })).folder,
      await realpath(rootFolder.at("repo")),
    );
    assert.equal((await runInFolder({ session_id: id })).folder, await realpath(servedFolder.at("sub")));
    const session = (await api.send(`/api/sessions/${id}`)).json() as { project_dir: string };
    assert.equal(session.project_dir, await realpath(servedFolder.at("sub")));
  });

  it("rejects all other paths with the same error and creates no session", async (t) => {
    const { servedFolder, rootFolder, outsideFolder, api } = await startProjectApi(t);
    const removedFolder = await tempDir(t);
    await rm(removedFolder.path, { recursive: true });
    for (const invalidDir of [
      outsideFolder.path,
      outsideFolder.at("repo"),
      outsideFolder.at("secret.txt"),
      outsideFolder.at("none"),
      removedFolder.path,
      "..",
      "../..",
      "/",
      rootFolder.at("away"),
      rootFolder.at("away/repo"),
      // A path with a project root as its prefix.
      `${rootFolder.path}-more`,
      servedFolder.at("file.txt"),
      "none",
      rootFolder.at("home"),
      `sub\0`,
      "x".repeat(10_000),
      5,
      null,
      ["sub"],
    ]) {
      const { status, json } = await api.postRun({ message: "hi", project_dir: invalidDir });
      assert.deepEqual([status, json()], [400, PROJECT_DIR_ERROR], JSON.stringify(invalidDir).slice(0, 80));
    }
    assert.equal((await api.agent.sessions.list()).total, 0);
  });

  it("is the folder of relative attached files; on a public address, files outside the project roots are rejected", async (t) => {
    const { servedFolder, rootFolder, outsideFolder, api } = await startProjectApi(t);
    const { status, headers } = await api.postRun({
      message: "hi",
      project_dir: rootFolder.at("repo"),
      files: ["b.txt"],
    });
    assert.equal(status, 200);
    const [userMessage] = await api.agent.sessions.messages(String(headers["x-session-id"]));
    assert.equal(userMessage?.parts[1]?.type, "file");
    const publicApi = await startApi(t, {
      agent: { projectDir: servedFolder.at("sub") },
      host: { host: "0.0.0.0", insecure: true },
      // Without the root, files of this test would still be readable, because they are in the temporary folder.
      http: { projectRoots: [rootFolder.path] },
    });
    for (const [body, expectedStatus] of [
      [{ project_dir: rootFolder.at("repo"), files: ["b.txt"] }, 200],
      [{ project_dir: rootFolder.at("repo"), files: ["/etc/hostname"] }, 400],
      [{ project_dir: outsideFolder.path, files: ["secret.txt"] }, 400],
    ] as const)
      assert.equal((await publicApi.postRun({ message: "hi", ...body })).status, expectedStatus, JSON.stringify(body));
  });

  it("accepts server.project_roots relative to the config file, but never gantry's home folder", async (t) => {
    const home = await tempDir(t, { "repos/one/x": "" });
    const config = { server: { project_roots: ["repos"] } };
    const server = await startServer(t, { home: home.path, config });
    const postRun = (project_dir: string) =>
      server.fetch("/api/run", { method: "POST", body: JSON.stringify({ message: "hi", project_dir }) });
    // gantry's home folder is never a project folder, even if the config allows it.
    assert.equal((await postRun(home.at("repos/one"))).status, 400);
    assert.equal((await postRun(".")).status, 200);
    const outerFolder = await tempDir(t, { "repos/one/x": "" });
    await mkdir(outerFolder.at("conf"));
    await writeFile(outerFolder.at("conf/config.json"), JSON.stringify({ server: { project_roots: ["../repos"] } }));
    const secondServer = await startServer(t, {
      args: ["serve", "--port", "0", "--config", outerFolder.at("conf/config.json")],
    });
    const createBody = (project_dir: string) => JSON.stringify({ message: "hi", project_dir });
    const pendingStatuses = [
      outerFolder.at("repos/one"),
      outerFolder.at("repos"),
      outerFolder.at("conf"),
      outerFolder.path,
    ].map(
      async (folderPath) =>
        (await secondServer.fetch("/api/run", { method: "POST", body: createBody(folderPath) })).status,
    );
    assert.deepEqual(await Promise.all(pendingStatuses), [200, 200, 400, 400]);
  });
});
