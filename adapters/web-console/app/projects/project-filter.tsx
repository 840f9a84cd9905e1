import { useConsole } from "../state/context.js";
import { isWorktreeFolder, labelProjects } from "./project-labels.js";

/** Chooses the project folder of the listed and of new sessions. Renders nothing while sessions of one folder are known. */
export function ProjectFilter() {
  const store = useConsole();
  const { projectDir, projectDirs } = store.sessionBrowser;
  if (projectDirs.value.length < 2) return null;
  const labels = labelProjects(projectDirs.value);
  return (
    <select
      class="picker side-project"
      aria-label="Project"
      title={projectDir.value || "Sessions of all projects"}
      value={projectDir.value}
      onChange={({ currentTarget: { value: folder } }) => {
        store.newSessionSettings.projectDir.value = folder;
        store.sessionBrowser.showProject(folder);
      }}
    >
      <option value="">All projects</option>
      {projectDirs.value.map((folder) => (
        <option key={folder} value={folder} title={folder}>
          {labels.get(folder)}
        </option>
      ))}
    </select>
  );
}

/** The project of a listed session, while the list has sessions of several projects. Worktrees have no project name. */
export function ProjectLabel({ folder }: { folder: string }) {
  const { projectDir, projectDirs } = useConsole().sessionBrowser;
  const isWorktree = isWorktreeFolder(folder);
  if (!isWorktree && (projectDir.value !== "" || projectDirs.value.length < 2)) return null;
  return (
    <bdi class="side-project-name clipped" title={folder}>
      {isWorktree ? "worktree" : labelProjects(projectDirs.value).get(folder)}
    </bdi>
  );
}
