// Starts a session in a worktree, for tests that kill this process. Arguments: folder, PATH of Git.
import { Agent, gitWorktrees } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { ScriptedProvider } from "gantry/testing";
import { createGitEnvironment } from "./worktree-project.js";

const [folder = "", searchPath = ""] = process.argv.slice(2);
const agent = new Agent({
  providers: [new ScriptedProvider(["done"])],
  projectDir: `${folder}/project`,
  driver: new SqliteDriver({ path: `${folder}/store` }),
  worktrees: gitWorktrees(`${folder}/worktrees`, { environment: createGitEnvironment(`${folder}/home`, searchPath) }),
});
await agent.run({ message: "work", worktree: true });
