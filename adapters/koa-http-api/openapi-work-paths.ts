import {
  bodyErrors,
  failure,
  notFound,
  query,
  storeErrors,
  success,
  textSchema,
  type Operation,
} from "./openapi-operation.js";

/** The operations of a session's context, of people's commands and of files. */
export const WORK_OPERATIONS: readonly Operation[] = [
  {
    ...{ id: "showContext", path: "/api/sessions/{id}/context", method: "get" },
    summary: "What the next model call of a session would contain, in tokens",
    responses: {
      200: success("An estimate without a model call", "SessionContext"),
      ...notFound("session"),
      ...storeErrors,
    },
  },
  {
    id: "runShellCommand",
    path: "/api/sessions/{id}/shell",
    method: "post",
    summary: "Run a shell command of a person in the project folder",
    body: "ShellRequest",
    responses: {
      200: {
        description: "The result of the command; with `stream`, its output and the result",
        shapes: ["ShellResult"],
        events: { output: "ShellOutputEvent", done: "ShellResult", error: "Failure" },
      },
      ...bodyErrors,
      ...notFound("session"),
      409: failure("The session is running and the command is shared", "Retry-After"),
      ...storeErrors,
      500: failure("The command could not start"),
    },
  },
  {
    ...{ id: "showWorktree", path: "/api/sessions/{id}/worktree", method: "get" },
    summary: "The Git worktree in which a session works",
    responses: { 200: success("The worktree, or null", "SessionWorktree"), ...notFound("session"), ...storeErrors },
  },
  {
    ...{ id: "applyWorktree", path: "/api/sessions/{id}/worktree/apply", method: "post", body: "ApplyRequest" },
    summary: "Copy the changes of a session's worktree to the project folder",
    responses: {
      200: success("All changes were applied", "Applied"),
      ...bodyErrors,
      ...notFound("session"),
      409: {
        description: "The session is running, or files are in conflict",
        shapes: ["Failure", "WorktreeConflict"],
        headers: ["Retry-After"],
      },
      ...storeErrors,
    },
  },
  {
    ...{ id: "showFileContent", path: "/api/files/content", method: "get", summary: "The beginning of a file" },
    parameters: [
      query("path", textSchema, "The file, absolute or relative to the folder"),
      query("session_id", textSchema, "A session: paths start at its folder"),
      query("project_dir", textSchema, "The folder where paths start; default the served folder"),
    ],
    responses: {
      200: success("A text, an image, or a description of another file", "FileContent"),
      400: failure("A query parameter is invalid, or the path is a folder"),
      404: failure("The file or the session does not exist"),
      ...storeErrors,
      403: failure("The request is refused, or the tools of the session may not read the file"),
    },
  },
];
