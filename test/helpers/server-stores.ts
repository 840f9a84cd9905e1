import { after, it } from "node:test";
import { NO_POSTGRES } from "./postgres.js";
import { postgresStore } from "./replicas.js";

/** Drivers under a server, each of which several servers may share. */
export const SERVER_STORES: readonly string[] = ["sqlite", "json", ...(NO_POSTGRES ? [] : ["postgres"])];

// Whatever goes over all of them says that it did not go over this one.
if (NO_POSTGRES) it("servers on postgres", { skip: NO_POSTGRES });

const ends: (() => Promise<void>)[] = [];
// When all servers of the file have ended: they go on until then.
after(async () => {
  for (const end of ends) await end();
});

/** `session` of a config for a new store. Files are in gantry's home; a schema goes at the end of the test file. */
export async function sessionOn(driver: string): Promise<Readonly<Record<string, unknown>>> {
  if (driver !== "postgres") return { driver };
  const { session, close } = await postgresStore();
  ends.push(close);
  return session;
}
