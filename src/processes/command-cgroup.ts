import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { attempt } from "../base/attempt.js";

/** Limits for all processes of a command together. Undefined: no limit. */
export interface CgroupLimits {
  readonly memoryBytes?: number | undefined;
  /** Maximum processes and threads. */
  readonly processes?: number | undefined;
}

/** Events of a cgroup at which a limit was reached. */
export interface CgroupEvents {
  /** Processes that the kernel killed because the memory limit was reached. */
  readonly killedProcesses: number;
  /** Processes and threads that could not start because of the limit. */
  readonly refusedProcesses: number;
}

/** Where cgroups are mounted, and the content of /proc/self/cgroup. Tests replace it. */
export interface CgroupSystem {
  readonly root: string;
  readonly ownCgroups: string;
}

type Controller = "memory" | "pids";

/** A cgroup below which this process can create others. `version`: of the cgroup interface of its controller. */
interface Base {
  readonly folder: string;
  readonly version: 1 | 2;
}

/**
 * Name of the cgroup that receives the processes of this process's own cgroup. In version 2, a cgroup with processes
 * cannot limit the cgroups below it.
 */
const MAIN_CGROUP = "gantry-main";
/** Pauses in ms before further attempts to remove a cgroup, whose processes may still be exiting. */
const REMOVE_PAUSES_MS = [1, 5, 20, 100, 400];

let count = 0;

/** A cgroup for the processes of one command. Needs permission to create cgroups below that of this process. */
export class CommandCgroup {
  readonly #folders: ReadonlySet<string>;
  readonly #memoryEventsFile: string | undefined;
  readonly #processEventsFile: string | undefined;

  /**
   * Creates a cgroup with limits. Throws an error with the reason if cgroups cannot be created here. The caller removes
   * the cgroup after the command.
   */
  static create(limits: CgroupLimits, system = readSystem()): CommandCgroup {
    const name = `gantry-${process.pid}-${++count}`;
    const folders = new Set<string>();
    const createFolder = (controller: Controller) => {
      const { folder, version } = openBase(controller, system);
      const path = join(folder, name);
      mkdirSync(path, { recursive: true });
      folders.add(path);
      return { path, version };
    };
    try {
      const memory = limits.memoryBytes === undefined ? undefined : createFolder("memory");
      if (memory) limitMemory(memory.path, memory.version, limits.memoryBytes ?? 0);
      const pids = limits.processes === undefined ? undefined : createFolder("pids");
      if (pids) writeFileSync(join(pids.path, "pids.max"), String(limits.processes));
      return new CommandCgroup(
        folders,
        memory && join(memory.path, memory.version === 2 ? "memory.events" : "memory.oom_control"),
        pids && join(pids.path, "pids.events"),
      );
    } catch (error) {
      for (const folder of folders) attempt(() => rmdirSync(folder), undefined);
      throw error;
    }
  }

  private constructor(
    folders: ReadonlySet<string>,
    memoryEventsFile: string | undefined,
    processEventsFile: string | undefined,
  ) {
    this.#folders = folders;
    this.#memoryEventsFile = memoryEventsFile;
    this.#processEventsFile = processEventsFile;
  }

  /** Files to which a process id is written, so that the process and its later children belong to the cgroup. */
  get joinFiles(): string[] {
    return [...this.#folders].map((folder) => join(folder, "cgroup.procs"));
  }

  /** Must be called before `remove`. Never throws. */
  readEvents(): CgroupEvents {
    return {
      killedProcesses: readCounter(this.#memoryEventsFile, "oom_kill"),
      refusedProcesses: readCounter(this.#processEventsFile, "max"),
    };
  }

  /**
   * Removes the cgroup, whose processes must have ended. A cgroup that is still in use is removed when a later gantry
   * creates its first. Never rejects.
   */
  async remove(): Promise<void> {
    for (const folder of this.#folders)
      for (const pauseMs of REMOVE_PAUSES_MS) {
        if (attempt(() => (rmdirSync(folder), true), !existsSync(folder))) break;
        await sleep(pauseMs);
      }
  }
}

function readSystem(): CgroupSystem {
  return { root: "/sys/fs/cgroup", ownCgroups: attempt(() => readFileSync("/proc/self/cgroup", "utf8"), "") };
}

const preparedFolders = new Set<string>();

/** Finds the cgroup of this process and prepares it for others below it. Throws an error with the reason. */
function openBase(controller: Controller, { root, ownCgroups }: CgroupSystem): Base {
  const lines = ownCgroups.split("\n").map((line) => line.split(":"));
  const legacyPath = lines.find(([, names]) => names?.split(",").includes(controller))?.[2];
  const unifiedPath = lines.find(([id, names]) => id === "0" && names === "")?.[2];
  const base: Base | undefined =
    legacyPath !== undefined
      ? { folder: resolveCgroup(join(root, controller), legacyPath), version: 1 }
      : unifiedPath !== undefined && existsSync(join(root, "cgroup.controllers"))
        ? { folder: resolveCgroup(root, unifiedPath), version: 2 }
        : undefined;
  if (!base) throw new Error(`the cgroup controller ${controller} is not available`);
  const folder = base.version === 2 ? enableController(base.folder, controller) : base.folder;
  if (!preparedFolders.has(folder)) removeOldCgroups(folder);
  preparedFolders.add(folder);
  return { ...base, folder };
}

/** In a container, the path of the host may not exist: the container's own cgroup is mounted at the root. */
function resolveCgroup(mountPoint: string, path: string): string {
  const folder = join(mountPoint, path);
  return existsSync(folder) ? folder : mountPoint;
}

/** Enables a controller for the cgroups below the own one, and returns the folder for these. */
function enableController(ownFolder: string, controller: Controller): string {
  const folder = basename(ownFolder) === MAIN_CGROUP ? dirname(ownFolder) : ownFolder;
  const controlFile = join(folder, "cgroup.subtree_control");
  if (readFileSync(controlFile, "utf8").trim().split(" ").includes(controller)) return folder;
  if (!readFileSync(join(folder, "cgroup.controllers"), "utf8").trim().split(" ").includes(controller))
    throw new Error(`the cgroup controller ${controller} is not delegated to ${folder}`);
  try {
    writeFileSync(controlFile, `+${controller}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    moveProcesses(folder);
    writeFileSync(controlFile, `+${controller}`);
  }
  return folder;
}

/** Moves the processes of a cgroup to a cgroup below it. They stay in the same unit of systemd. */
function moveProcesses(folder: string): void {
  const target = join(folder, MAIN_CGROUP);
  mkdirSync(target, { recursive: true });
  for (const pid of readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n"))
    // A process may have ended.
    if (pid !== "") attempt(() => writeFileSync(join(target, "cgroup.procs"), pid), undefined);
}

/** Removes cgroups of gantry processes that were killed. The kernel keeps cgroups that are in use. */
function removeOldCgroups(folder: string): void {
  for (const name of attempt(() => readdirSync(folder), [])) {
    const pid = /^gantry-(\d+)-\d+$/.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) attempt(() => rmdirSync(join(folder, name)), undefined);
  }
}

function limitMemory(folder: string, version: 1 | 2, bytes: number): void {
  const [limitFile, swapFile, swapLimit] =
    version === 2
      ? ["memory.max", "memory.swap.max", "0"]
      : ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", String(bytes)];
  writeFileSync(join(folder, limitFile), String(bytes));
  // The kernel may be without accounting of swap.
  if (existsSync(join(folder, swapFile))) writeFileSync(join(folder, swapFile), swapLimit);
}

/** Reads a counter of a file with a name and a number per line. 0 if it is missing. */
function readCounter(file: string | undefined, name: string): number {
  const text = file === undefined ? "" : attempt(() => readFileSync(file, "utf8"), "");
  const line = text.split("\n").find((line) => line.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}
