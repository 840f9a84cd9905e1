import type { SessionDriver } from "../ports/session-driver.js";

/** Whether stored sessions work in a folder. Rejects with `StoreError`. */
export async function hasSessions(store: SessionDriver, folder: string): Promise<boolean> {
  return (await store.list({ projectDir: folder, limit: 1 })).sessions.length > 0;
}
