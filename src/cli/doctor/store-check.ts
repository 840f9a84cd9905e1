import { accessSync, constants, existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { attempt } from "../../base/attempt.js";
import { loadPostgresInspection, loadSqliteInspection } from "../../serve/inspections.js";
import {
  createError,
  createOk,
  createSkipped,
  createWarning,
  toReason,
  type DoctorCheck,
  type DoctorContext,
  type Finding,
} from "./finding.js";

/** Magic numbers of network file systems in `statfs`: NFS, SMB, CIFS, SMB2, AFS, Ceph. */
const NETWORK_FILE_SYSTEMS = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f, 0x00c36400]);
const MAX_NAMED_FILES = 3;
const RESTORE =
  "stop gantry, move the damaged file away and restore a copy; gantry sessions export saves what can be read";

/** The session store: file system, damage, version, and what dead processes left. */
export const storeCheck: DoctorCheck = {
  group: "Session store",
  run: async (context) => {
    const { driver } = context.loadedConfig.config.session;
    if (driver === "postgres") return checkPostgres(context);
    if (driver !== "sqlite" && driver !== "json")
      return [createSkipped("store.health", `the store of ${driver} is checked when the server starts`, "")];
    const path = findStorePath(context);
    const folderFinding = checkFolder(driver === "sqlite" ? dirname(path) : path, path);
    if (folderFinding) return [folderFinding];
    const findings = isOnNetwork(dirname(path)) ? [createNetworkFinding(path)] : [];
    return [...findings, ...(driver === "sqlite" ? await checkSqlite(path) : checkJson(path))];
  },
};

function findStorePath({ loadedConfig, home }: DoctorContext): string {
  const { driver } = loadedConfig.config.session;
  const { path } = (loadedConfig.rawConfig["session"] ?? {}) as { path?: unknown };
  if (typeof path === "string" && path !== "") return resolve(loadedConfig.folder, path);
  return join(home, driver === "sqlite" ? "sessions.db" : "sessions");
}

/** Undefined if the folder and the file can be written to, or do not exist yet. */
function checkFolder(folder: string, path: string): Finding | undefined {
  for (const target of [folder, path]) {
    if (!existsSync(target)) continue;
    try {
      accessSync(target, constants.R_OK | constants.W_OK);
    } catch (error) {
      return createError(
        "store.writable",
        "the session store cannot be written to",
        toReason(error),
        "correct the owner and the mode of the folder, remount the disk, or set session.path",
      );
    }
  }
  return undefined;
}

export const isNetworkType = (type: number): boolean => NETWORK_FILE_SYSTEMS.has(type >>> 0);

function isOnNetwork(folder: string): boolean {
  return attempt(() => isNetworkType(statfsSync(folder).type), false);
}

function createNetworkFinding(path: string): Finding {
  return createWarning(
    "store.network",
    "the session store is on a network file system",
    `${path}: locks and the write-ahead log of SQLite do not work reliably there`,
    "set session.path to a local disk, or use session.driver postgres",
  );
}

async function checkSqlite(path: string): Promise<Finding[]> {
  if (!existsSync(path)) return [createOk("store.health", `${path} does not exist; the first start creates it`)];
  try {
    const { inspectStore } = await loadSqliteInspection();
    const { bytes, freeBytes, faults, sessions, orphanedLeases, interruptedRuns } = await inspectStore(path);
    const size = `${toMebibytes(bytes)}, ${toMebibytes(freeBytes)} of them free for new sessions`;
    if (faults === undefined)
      return [createSkipped("store.health", `${path} is too large to be checked (${size})`, "")];
    if (faults.length > 0)
      return [createError("store.damaged", "the session store is damaged", `${path}: ${faults.join("; ")}`, RESTORE)];
    return [
      createOk("store.health", `${path} is intact: ${sessions} sessions, ${size}`),
      ...createRecordFindings(orphanedLeases, interruptedRuns),
    ];
  } catch (error) {
    return [toFailure(error, path)];
  }
}

async function checkPostgres({ loadedConfig, signal }: DoctorContext): Promise<Finding[]> {
  const { url, schema } = (loadedConfig.rawConfig["session"] ?? {}) as { url?: unknown; schema?: unknown };
  if (typeof url !== "string") return [createSkipped("store.health", "session.url is missing", "")];
  const options = { url, ...(typeof schema === "string" && { schema }) };
  try {
    const { inspectStore } = await loadPostgresInspection();
    const { location, latencyMs, canCreate, records } = await inspectStore(options, signal);
    const latency = `answers in ${latencyMs.toFixed(1)} ms`;
    if (!records && !canCreate)
      return [
        createError(
          "store.writable",
          "the role of session.url may not create the tables",
          location,
          "start gantry once with a role that may, or grant this one CREATE",
        ),
      ];
    if (!records)
      return [createOk("store.health", `${location} has no tables yet; the first start creates them`, latency)];
    const { bytes, sessions, orphanedLeases, interruptedRuns } = records;
    return [
      createOk("store.health", `${location}: ${sessions} sessions, ${toMebibytes(bytes)}`, latency),
      ...createRecordFindings(orphanedLeases, interruptedRuns),
    ];
  } catch (error) {
    const reason = toReason(error);
    if (reason.includes("written by a newer gantry")) return [createVersionFinding(reason)];
    return [
      createError("store.unreachable", "the session store cannot be used", reason, "correct session.url or the server"),
    ];
  }
}

function toMebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** Findings about processes that ended without closing the store. */
function createRecordFindings(orphanedLeases: number, interruptedRuns: number): Finding[] {
  return [
    ...(orphanedLeases > 0 ? [createLeaseFinding(orphanedLeases)] : []),
    ...(interruptedRuns > 0 ? [createRunFinding(interruptedRuns)] : []),
  ];
}

function createLeaseFinding(count: number): Finding {
  return createWarning(
    "store.leases",
    "processes that have died still have leases of sessions",
    `${count} leases`,
    "no action is needed: the next run of such a session takes the lease",
  );
}

function createRunFinding(count: number): Finding {
  return createWarning(
    "store.runs",
    "runs were interrupted",
    `${count} runs, whose processes have ended`,
    "continue a run with a retry of its session, or with a new prompt (gantry sessions list)",
  );
}

function createVersionFinding(reason: string): Finding {
  return createError("store.version", "a newer gantry has written the session store", reason, "update gantry");
}

function toFailure(error: unknown, path: string): Finding {
  const reason = toReason(error);
  if (reason.includes("written by a newer gantry")) return createVersionFinding(reason);
  if (/better.sqlite3|NODE_MODULE_VERSION/.test(reason))
    return createSkipped("store.health", "the store cannot be checked without the native part of SQLite", "");
  const isBusy = /SQLITE_BUSY|database is locked/.test(`${(error as { code?: string }).code ?? ""} ${reason}`);
  if (isBusy)
    return createWarning("store.busy", "another process has locked the session store", reason, "repeat the check");
  return createError("store.damaged", "the session store is damaged", `${path}: ${reason}`, RESTORE);
}

/** Checks that each file of sessions and each complete line of the log is JSON. */
function checkJson(path: string): Finding[] {
  const logFolder = `${path}.d`;
  const files = [path, logFolder].flatMap((folder) =>
    attempt(() => readdirSync(folder), []).map((name) => join(folder, name)),
  );
  const dataFiles = files.filter((file) => attempt(() => statSync(file).isFile(), false));
  const damagedFiles = dataFiles.filter((file) => !isReadable(file));
  if (damagedFiles.length > 0)
    return [
      createError(
        "store.damaged",
        "files of the session store cannot be parsed",
        `${damagedFiles.slice(0, MAX_NAMED_FILES).join(", ")} (${damagedFiles.length} of ${dataFiles.length} files)`,
        RESTORE,
      ),
    ];
  return [createOk("store.health", `${path} is intact: ${dataFiles.length} files`)];
}

function isReadable(file: string): boolean {
  try {
    const text = readFileSync(file, "utf8");
    if (file.endsWith(".json")) return JSON.parse(text) !== null;
    if (!/log|jsonl/.test(file)) return true;
    // The last line may be incomplete.
    for (const line of text.split("\n").slice(0, -1)) JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}
