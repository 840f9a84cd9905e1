import { cp, mkdir, readdir, rm } from "node:fs/promises";
import { basename } from "node:path";
import { createPostgresStore } from "./replicas.js";
import { mountSharedDisk } from "./shared-disk.js";
import { runAsAdmin } from "./postgres.js";
import { TcpProxy } from "./tcp-proxy.js";
import type { GantryOptions } from "./server.js";
import type { Hooks, TempDir } from "./temp-dir.js";

/** A store of a group of servers, with its faults. A fault that is undefined cannot happen to the store. */
export interface GroupStore {
  /** The section `session` of the servers' config. */
  readonly session: Readonly<Record<string, unknown>>;
  /** Maximum number of processes that have the store open. */
  readonly maxServers: number;
  readonly serverOptions: Pick<GantryOptions, "commandPrefix">;
  readonly disk?: { fill(): Promise<void>; free(): Promise<void> };
  /** Loses the next answers of the store, after it has executed the requests. */
  readonly cutAnswers?: (random: () => number) => void;
  /** Copies of all files, while no server runs. */
  readonly copy?: { save(): Promise<void>; restore(): Promise<void> };
}

/** Files of a SQLite or JSON store, on a small disk if this machine permits mounts. */
async function createFileStore(hooks: Hooks, home: TempDir, projectDir: string, driver: string): Promise<GroupStore> {
  const folder = home.at("disk");
  await mkdir(folder);
  const disk = await mountSharedDisk(hooks, folder, projectDir);
  const path = typeof disk === "string" ? folder : disk.path;
  const copyFiles = async (source: string, target: string): Promise<void> => {
    await mkdir(target, { recursive: true });
    for (const name of await readdir(target)) await rm(`${target}/${name}`, { recursive: true });
    await cp(source, target, { recursive: true, filter: (file) => !/^filler$|-shm$/.test(basename(file)) });
  };
  return {
    session: { driver, path: home.at("disk", driver === "json" ? "sessions" : "sessions.db") },
    maxServers: driver === "json" ? 1 : Infinity,
    serverOptions: typeof disk === "string" ? {} : { commandPrefix: disk.commandPrefix },
    ...(typeof disk !== "string" && { disk }),
    copy: { save: () => copyFiles(path, home.at("kept")), restore: () => copyFiles(home.at("kept"), path) },
  };
}

/** A schema, whose connections go through a proxy. While its disk is full, the server refuses each insert and update. */
async function createDatabaseStore(hooks: Hooks): Promise<GroupStore> {
  const { session, close } = await createPostgresStore();
  hooks.after(close);
  const { url, schema } = session as { url: string; schema: string };
  const proxy = await TcpProxy.startBefore(hooks, url);
  const check = `RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'`;
  let preparation: Promise<void> | undefined;
  /** Adds the triggers, once the servers have created the tables. One table at a time, so that no lock waits for another. */
  const prepare = async (): Promise<void> => {
    const tables = await runAsAdmin(url, `SELECT tablename AS name FROM pg_tables WHERE schemaname = '${schema}'`);
    await runAsAdmin(
      url,
      `CREATE TABLE ${schema}.full_disk ()`,
      `CREATE FUNCTION ${schema}.check_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM ${schema}.full_disk) THEN ${check}; END IF; RETURN NULL; END $$`,
      ...tables.map(
        ({ name }) =>
          `CREATE TRIGGER check_disk BEFORE INSERT OR UPDATE ON ${schema}.${String(name)} EXECUTE FUNCTION ${schema}.check_disk()`,
      ),
    );
  };
  return {
    session: { ...session, url: proxy.toProxyUrl(url) },
    maxServers: Infinity,
    serverOptions: {},
    disk: {
      fill: async () => {
        await (preparation ??= prepare());
        await runAsAdmin(url, `INSERT INTO ${schema}.full_disk DEFAULT VALUES`);
      },
      free: async () => void (await runAsAdmin(url, `DELETE FROM ${schema}.full_disk`)),
    },
    cutAnswers: (random) => {
      if (random() < 0.3) proxy.cutNext("answer");
      else for (let n = 0; n < 3; n += 1) proxy.cutOne("answer", random);
    },
  };
}

/** Creates a store for `driver`: `sqlite`, `json` or `postgres`. */
export function createGroupStore(hooks: Hooks, home: TempDir, projectDir: string, driver: string): Promise<GroupStore> {
  return driver === "postgres" ? createDatabaseStore(hooks) : createFileStore(hooks, home, projectDir, driver);
}
