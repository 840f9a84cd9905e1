import { statSync } from "node:fs";
import { homedir } from "node:os";
import { parse, resolve } from "node:path";
import { attempt } from "../../base/attempt.js";
import { createError, createOk, createWarning, type DoctorCheck, type Finding } from "./finding.js";

/** The project folder, and the folders of `server.project_roots`. */
export const projectCheck: DoctorCheck = {
  group: "Projects",
  run: ({ projectDir, loadedConfig }) => [checkFolder(projectDir), ...checkRoots(loadedConfig)],
};

function checkFolder(projectDir: string): Finding {
  const broadFolders = [parse(projectDir).root, attempt(() => homedir(), "")];
  if (!broadFolders.includes(projectDir)) return createOk("project.folder", `the tools work in ${projectDir}`);
  return createWarning(
    "project.folder",
    "the project folder is the root or a user's home folder",
    `${projectDir}: tools and commands of the agent may change every file below it`,
    "start gantry in the folder of a project",
  );
}

function checkRoots({
  rawConfig,
  folder,
}: {
  rawConfig: Readonly<Record<string, unknown>>;
  folder: string;
}): Finding[] {
  const { project_roots: roots } = (rawConfig["server"] ?? {}) as { project_roots?: unknown };
  if (!Array.isArray(roots)) return [];
  return roots
    .filter((root): root is string => typeof root === "string")
    .map((root) => resolve(folder, root))
    .map((path) =>
      attempt(() => statSync(path).isDirectory(), false)
        ? createOk("project.roots", `project root ${path}`)
        : createError(
            "project.roots",
            "a project root is missing",
            `${path} of server.project_roots is no folder`,
            "create the folder, or remove it from server.project_roots",
          ),
    );
}
