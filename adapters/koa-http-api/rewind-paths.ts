import type Router from "@koa/router";
import type { Context } from "koa";
import type { ApiDependencies } from "./api.js";
import type { BodyReader } from "./body.js";
import { requireCapacity } from "./errors.js";

/** Adds the endpoints that fork, rewind and undo, and that show changed files. */
export function addRewindRoutes(
  router: Router,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
  readId: (ctx: Context) => string,
): void {
  const loadRewinds = () => import("./rewind-routes.js");
  const loadChanges = () => import("./change-routes.js");
  const createContext = (ctx: Context) => ({ ctx, id: readId(ctx), dependencies, bodyReader });
  router.post("/api/sessions/:id/fork", async (ctx) => {
    requireCapacity(dependencies);
    await (await loadRewinds()).forkSession(createContext(ctx));
  });
  router.post("/api/sessions/:id/rewind", async (ctx) => (await loadRewinds()).rewindSession(createContext(ctx)));
  router.post("/api/sessions/:id/undo", async (ctx) => (await loadRewinds()).undoRun(createContext(ctx)));
  router.post("/api/sessions/:id/redo", async (ctx) => (await loadRewinds()).redoRun(createContext(ctx)));
  router.post("/api/sessions/:id/restore", async (ctx) => (await loadRewinds()).restoreSnapshot(createContext(ctx)));
  router.get("/api/sessions/:id/snapshots", async (ctx) =>
    (await loadRewinds()).listSnapshots(ctx, readId(ctx), dependencies),
  );
  router.get("/api/sessions/:id/changes", async (ctx) =>
    (await loadChanges()).listChanges(ctx, readId(ctx), dependencies),
  );
  router.post("/api/sessions/:id/changes/undo", async (ctx) =>
    (await loadChanges()).undoChange(ctx, readId(ctx), dependencies, bodyReader),
  );
  router.get("/api/git", async (ctx) => (await import("./git-state.js")).showGitState(ctx, dependencies));
}
