import { accessSync, constants, statSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import { createError, createOk, createWarning, toReason, type DoctorCheck, type Finding } from "./finding.js";

/** Files of the home folder with keys or conversations. */
const SECRET_FILES = ["token", "sessions.db", "sessions.db-wal", "mcp-logins", "sessions", "sessions.d"];
const HOME_REMEDY = "set GANTRY_HOME to a folder of this user that can be written to";

/** Owner and modes of gantry's home folder. */
export const homeCheck: DoctorCheck = {
  group: "Home folder",
  run: ({ home }) => {
    let stats: Stats | undefined;
    try {
      stats = statSync(home, { throwIfNoEntry: false });
    } catch (error) {
      return [createError("home.writable", "the home folder cannot be used", toReason(error), HOME_REMEDY)];
    }
    if (!stats) return [checkParent(home)];
    if (!stats.isDirectory())
      return [createError("home.writable", "the home folder is not a folder", home, HOME_REMEDY)];
    const uid = process.getuid?.() ?? stats.uid;
    if (stats.uid !== uid)
      return [
        createError(
          "home.owner",
          "the home folder belongs to another user",
          `${home} belongs to uid ${stats.uid}, this is uid ${uid}`,
          `run gantry as that user, or set GANTRY_HOME`,
        ),
      ];
    const fault = findAccessFault(home);
    if (fault !== undefined)
      return [createError("home.writable", "the home folder cannot be written to", fault, HOME_REMEDY)];
    return [createOk("home.folder", home), ...checkModes(home, stats)];
  },
};

/** Checks the nearest existing folder, because the first start creates the home folder in it. */
function checkParent(home: string): Finding {
  let parent = dirname(home);
  try {
    while (!statSync(parent, { throwIfNoEntry: false }) && dirname(parent) !== parent) parent = dirname(parent);
    accessSync(parent, constants.W_OK);
    return createOk("home.folder", `${home} does not exist; the first start creates it`);
  } catch (error) {
    return createError("home.writable", "the home folder cannot be created", toReason(error), HOME_REMEDY);
  }
}

function findAccessFault(folder: string): string | undefined {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    return toReason(error);
  }
}

function checkModes(home: string, stats: Stats): Finding[] {
  if (process.platform === "win32") return [];
  const toMode = (mode: number) => (mode & 0o777).toString(8);
  const findings: Finding[] = [];
  if ((stats.mode & 0o077) !== 0)
    findings.push(
      createWarning(
        "home.mode",
        "other users can open the home folder",
        `${home} has mode ${toMode(stats.mode)}`,
        `chmod 700 ${home}`,
      ),
    );
  const openFiles = SECRET_FILES.map((name) => join(home, name)).flatMap((path) => {
    const fileStats = statSync(path, { throwIfNoEntry: false });
    return fileStats && (fileStats.mode & 0o077) !== 0 ? [`${path} (${toMode(fileStats.mode)})`] : [];
  });
  if (openFiles.length > 0)
    findings.push(
      createWarning(
        "home.file-mode",
        "other users can read files with keys or conversations, if they can open the folder",
        openFiles.join(", "),
        `chmod -R go= ${home}`,
      ),
    );
  if (findings.length === 0) findings.push(createOk("home.mode", "only this user can open the home folder"));
  return findings;
}
