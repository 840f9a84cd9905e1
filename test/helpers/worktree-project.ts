import { existsSync, readdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { builtinTools, folderHistory, gitWorktrees } from "gantry";
import type { GitWorktreesOptions } from "gantry/plugin";
import { GantryClient } from "gantry/client";
import { startApi, type ApiOptions } from "./http-api.js";
import { createRepository } from "./git-repository.js";
import { tempDir, type Hooks } from "./temp-dir.js";

/** Lists the worktrees in a folder, which also contains a lock after the first application. */
export function listWorktreeFolders(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).filter((name) => name !== "apply.lock") : [];
}

/** The environment of Git in tests. */
export function createGitEnvironment(home: string, path = process.env["PATH"]): GitWorktreesOptions["environment"] {
  return { PATH: path, HOME: home };
}

/** Serves an agent whose project is a repository with these files. Its worktrees are beside the project. */
export async function serveWorktrees(
  t: Hooks,
  files: Readonly<Record<string, string | Uint8Array>>,
  { worktrees = {}, ...options }: ApiOptions & { worktrees?: Partial<GitWorktreesOptions> } = {},
) {
  const folder = await tempDir(t, { "home/x": "" });
  await folder.write(Object.fromEntries(Object.entries(files).map(([name, text]) => [`project/${name}`, text])));
  const git = createRepository(folder.at("project"));
  const worktreeOptions = { environment: createGitEnvironment(folder.at("home")), ...worktrees };
  const api = await startApi(t, {
    ...options,
    http: { environment: { PATH: process.env["PATH"] ?? "", HOME: folder.at("home") }, ...options.http },
    agent: {
      projectDir: folder.at("project"),
      tools: builtinTools({ bash: { sandbox: "off" } }),
      fileHistory: folderHistory({ folder: folder.at("files") }),
      worktrees: gitWorktrees(folder.at("worktrees"), worktreeOptions),
      ...options.agent,
    },
  });
  const client = new GantryClient({ url: api.url });
  const listWorktrees = () => listWorktreeFolders(folder.at("worktrees"));
  /** Starts a session in a worktree. Returns its id and its folder. */
  const startSession = async (body: object = {}): Promise<{ id: string; dir: string }> => {
    const { status, headers, text } = await api.postRun({ message: "work", worktree: true, ...body });
    if (status !== 200) throw new Error(`${status} ${text}`);
    const id = String(headers["x-session-id"]);
    return { id, dir: (await client.sessions.get(id)).project_dir };
  };
  return { api, client, folder, git, listWorktrees, startSession };
}

/** A valid body of each operation of worktrees. */
export const WORKTREE_BODIES = { "POST /api/sessions/{id}/worktree/apply": {} } as const;

/** Sends each operation of worktrees: with a result, and with a conflict. */
export async function useWorktrees(t: Hooks): Promise<void> {
  const { api, folder, startSession } = await serveWorktrees(t, { "a.txt": "one\n" }, { steps: ["done"] });
  const { id, dir } = await startSession();
  await api.send(`/api/sessions/${id}/worktree`);
  for (const text of ["two\n", "three\n"]) {
    writeFileSync(path.join(dir, "a.txt"), text);
    await api.send(`/api/sessions/${id}/worktree/apply`, { body: "{}" });
    await folder.write({ "project/a.txt": "mine\n" });
  }
}
