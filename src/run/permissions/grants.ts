import { resolve } from "node:path";
import type { PermissionGrant } from "../../ports/session.js";
import type { ToolCall } from "../../ports/tool.js";
import type { PermissionRun } from "./permission-run.js";

/**
 * Stores a grant with the session, so that it applies in every process. Grants that were revoked in the meantime stay
 * revoked.
 */
export async function storeGrant(
  { info: { sessionId }, session: { conversation, recorder, store } }: PermissionRun,
  grant: PermissionGrant,
): Promise<void> {
  const { permissionGrants } = (await store.get(sessionId)) ?? conversation.session;
  const allGrants = [...permissionGrants, grant];
  conversation.session = { ...conversation.session, permissionGrants: allGrants };
  await recorder.write({ sync: true, set: { permissionGrants: allGrants } });
}

/**
 * Returns the scope of a permanent grant: for edits the files, for other tools the exact input, because one allowed
 * command does not allow the next.
 */
export async function createGrantScope({ tool, input, locations, projectDir }: ToolCall): Promise<string> {
  if (tool.kind !== "edit" || locations.length === 0) return JSON.stringify({ projectDir, input });
  const paths = locations.map(({ path }) => path).sort();
  return JSON.stringify(await Promise.all(paths.map((path) => toScopePath(path, projectDir))));
}

/** Returns a path, with its real path if that differs: the path could be replaced by a link later. */
async function toScopePath(path: string, projectDir: string): Promise<string | [string, string]> {
  const { PathGuard } = await import("../../files/path-guard.js");
  const findRealPath = async () => {
    const guard = await PathGuard.create({ roots: "anywhere", deniedPaths: [] });
    return (await guard.resolve(resolve(projectDir, path))).path;
  };
  const realPath = await findRealPath().catch(() => "");
  return realPath === path ? path : [path, realPath];
}
