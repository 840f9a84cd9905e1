import type { Readable, Writable } from "node:stream";

/** A program to start. */
export interface OwnedProgram {
  /** Looked for in the PATH of `env`, unless it is a path. */
  readonly file: string;
  readonly args: readonly string[];
  /** Absolute path of its working directory. */
  readonly cwd: string;
  /** All that it gets, beside a mark by which it is found again. */
  readonly env: Readonly<Record<string, string>>;
}

/** How a program ended: by itself with a code, or by a signal. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A program that was started, in a process group of its own. It keeps this process going until it has ended. */
export interface OwnedProcess {
  readonly pid: number;
  /** What is written when it has ended is lost, without an error. */
  readonly stdin: Writable;
  /** To be read to its end, also behind the end of the program: what nobody reads holds the program up. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Resolves when it has ended and nothing is left of what it started: that ends with it. Never rejects. */
  readonly ended: Promise<ProcessEnd>;
  /** End it with all that it started: TERM, and KILL `graceMs` (default 2000) later. Resolves when nothing of it is left. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Start a program of which nothing outlives this process, however that ends: a kill -9 of it is seen by a shell that
 * holds the other end of a pipe. Rejects with the system's error (`code` "ENOENT" and so on) when it cannot start.
 */
export async function startProcess({ file, args, cwd, env }: OwnedProgram): Promise<OwnedProcess> {
  const [{ Child }, { PassThrough }] = await Promise.all([import("./child.js"), import("node:stream")]);
  const child = await Child.start({ file, args, cwd, env, input: true });
  const { pid, stdin } = child;
  // Node throws away what nobody has begun to read when a child exits.
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => stream?.pipe(new PassThrough()));
  if (stdin === null || !stdout || !stderr) throw new Error("a child without streams");
  const stopping = new AbortController();
  let grace: number | undefined;
  const ended = child
    .run({ signal: stopping.signal, ...{ graceMs: () => grace ?? GRACE_MS } })
    .then(({ code, signal }) => ({ code, signal }));
  return {
    ...{ pid, stdin, stdout, stderr, ended },
    stop: async (graceMs = GRACE_MS) => {
      // Who is in a greater hurry is heard.
      grace = Math.min(grace ?? graceMs, graceMs);
      stopping.abort();
      await ended;
      for (const stream of [stdout, stderr]) stream.destroy();
    },
  };
}

const GRACE_MS = 2_000;
