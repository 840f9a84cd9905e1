import { SESSION_HEADER } from "./headers.js";
import { failure, integerFrom, query, success, textSchema, type Operation } from "./openapi-operation.js";
import type { ShapeName } from "./openapi-shapes.js";
import type { ResponseDescription } from "./openapi-operation.js";

type Responses = Readonly<Record<number, ResponseDescription>>;

/** Operations that fork, rewind and undo, and that show changed files. */
export function createRewindOperations(storeErrors: Responses, bodyErrors: Responses): Operation[] {
  const busy = failure("The session is running", "Retry-After");
  const conflict: ResponseDescription = {
    description: "The session is running, there is nothing to undo, or files are in conflict",
    shapes: ["Failure", "UndoConflict"],
    headers: ["Retry-After"],
  };
  const missing = { 404: failure("The session or message does not exist, or `session.rewind` is false") };
  const post = (
    [id, action, summary]: readonly [id: string, action: string, summary: string],
    [body, result]: readonly [body: ShapeName, result: ShapeName],
    responses: Responses,
  ): Operation => ({
    ...{ id, path: `/api/sessions/{id}/${action}`, method: "post", summary, body },
    responses: { 200: success("Done", result), ...bodyErrors, ...missing, ...responses, ...storeErrors },
  });
  const fork = post(["forkSession", "fork", "Copy a session"], ["ForkRequest", "Session"], { 409: busy });
  return [
    {
      ...fork,
      responses: { ...fork.responses, 200: { ...success("The copy", "Session"), headers: [SESSION_HEADER] } },
    },
    post(["rewindSession", "rewind", "Hide messages; also restore files"], ["RewindRequest", "UndoResult"], {
      409: conflict,
    }),
    post(["undoRun", "undo", "Undo the last run and its files"], ["UndoRequest", "UndoResult"], { 409: conflict }),
    post(["redoRun", "redo", "Revert the last undo"], ["RedoRequest", "UndoResult"], { 409: conflict }),
    post(["restoreSnapshot", "restore", "Show the messages that a rewind hid"], ["RestoreRequest", "Restored"], {
      409: busy,
    }),
    post(["undoChange", "changes/undo", "Undo the changes of one file"], ["UndoChangeRequest", "UndoneFile"], {
      404: failure("The session or run does not exist, or `session.rewind` is false"),
      409: conflict,
    }),
    ...createReadOperations(missing, storeErrors),
  ];
}

function createReadOperations(missing: Responses, storeErrors: Responses): Operation[] {
  return [
    {
      ...{ id: "listSnapshots", path: "/api/sessions/{id}/snapshots", method: "get" },
      summary: "The snapshots that can be restored, oldest first",
      responses: { 200: success("All snapshots", "SnapshotList"), ...missing, ...storeErrors },
    },
    {
      ...{ id: "listChanges", path: "/api/sessions/{id}/changes", method: "get", summary: "Files that tools changed" },
      parameters: [
        query("run_id", textSchema, "Only the files of this run, with their content after the run"),
        query("path", textSchema, "Only this file"),
        query("page", integerFrom(1, { default: 1 }), "Page number"),
        query("size", integerFrom(1, { default: 20 }), "At most 100"),
      ],
      responses: {
        200: success("One page, ordered by path", "ChangedFileList"),
        400: failure("A query parameter is invalid"),
        404: failure("The session or run does not exist"),
        ...storeErrors,
      },
    },
    {
      ...{ id: "git", path: "/api/git", method: "get", summary: "The Git branch and state of a folder" },
      parameters: [
        query("session_id", textSchema, "The folder of this session"),
        query("project_dir", textSchema, "This folder"),
      ],
      responses: {
        200: success("The state of the session's folder, of the named or of the served folder", "GitState"),
        400: failure("A query parameter is invalid"),
        404: failure("The session does not exist"),
        ...storeErrors,
      },
    },
  ];
}
