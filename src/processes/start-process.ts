import type { Readable, Writable } from "node:stream";

/** A program to start. */
export interface OwnedProgram {
  /** A path, or a name that is searched in the PATH of `env`. */
  readonly file: string;
  readonly args: readonly string[];
  /** Absolute path of the working directory. */
  readonly cwd: string;
  /** The program's environment. Only the mark that identifies the process is added. */
  readonly env: Readonly<Record<string, string>>;
}

/** The end of a program: an exit code, or the signal that ended it. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A started program in its own process group. It keeps this process alive until it has ended. */
export interface OwnedProcess {
  readonly pid: number;
  /** Text written after the end of the program is dropped without an error. */
  readonly stdin: Writable;
  /** Must be read to its end, also after the program has ended. An unread stream blocks the program. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /**
   * Resolves when the program has ended and no process that it started is left. Such processes are ended with the
   * program. Never rejects.
   */
  readonly ended: Promise<ProcessEnd>;
  /**
   * Ends the program and all processes that it started: TERM, and KILL after `graceMs` (default 2000). Resolves when no
   * process is left.
   */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Starts a program. None of its processes outlives this process, even after kill -9: the reaper detects the end of this
 * process by a pipe. Rejects with the system's error (`code` "ENOENT" and so on) if the program cannot start.
 */
export async function startProcess({ file, args, cwd, env }: OwnedProgram): Promise<OwnedProcess> {
  const [{ Child }, { PassThrough }] = await Promise.all([import("./child.js"), import("node:stream")]);
  const child = await Child.start({ file, args, cwd, env, hasInput: true });
  const { pid, stdin } = child;
  // When a child exits, Node drops output that has not been read yet.
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => stream?.pipe(new PassThrough()));
  if (stdin === null || !stdout || !stderr) throw new Error("the child process has no streams");
  const stopController = new AbortController();
  let shortestGraceMs: number | undefined;
  const ended = child
    .run({ signal: stopController.signal, ...{ graceMs: () => shortestGraceMs ?? DEFAULT_GRACE_MS } })
    .then(({ code, signal }) => ({ code, signal }));
  return {
    ...{ pid, stdin, stdout, stderr, ended },
    stop: async (graceMs = DEFAULT_GRACE_MS) => {
      // The shortest requested grace period wins.
      shortestGraceMs = Math.min(shortestGraceMs ?? graceMs, graceMs);
      stopController.abort();
      await ended;
      for (const stream of [stdout, stderr]) stream.destroy();
    },
  };
}

const DEFAULT_GRACE_MS = 2_000;
