import { shellQuote } from "../../base/shell-quote.js";
import { ToolError } from "../../ports/errors.js";
import { CommandCgroup, type CgroupSystem } from "../../processes/command-cgroup.js";

/** Limits of each command. Undefined: no limit. */
export interface CommandLimits {
  /** CPU time of each process of a command, in seconds. */
  cpuSeconds?: number | undefined;
  /** Memory of all processes of a command together, in bytes. */
  memoryBytes?: number | undefined;
  /** Processes and threads of a command. */
  processes?: number | undefined;
  /** Size of each file that a command writes, in bytes. */
  fileBytes?: number | undefined;
}

/** The end of a command, as far as it shows that a limit was reached. */
export interface LimitedEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Processes that are part of a command although it did not start them. They do not count towards its limits. */
export interface Overhead {
  readonly memoryBytes: number;
  readonly processes: number;
}

const NO_OVERHEAD: Overhead = { memoryBytes: 0, processes: 0 };
/** Time in seconds between the signal XCPU, which a process may ignore, and KILL. */
const CPU_GRACE_SECONDS = 1;
/** Unit of `ulimit -f`, in bytes. Also in bash, if it is called as `sh`. */
const FILE_BLOCK_BYTES = 512;
/** Numbers of signals, which a shell adds to 128 in the exit code of a command that a signal ended. */
const SIGNAL_NUMBERS = { SIGKILL: 9, SIGXCPU: 24, SIGXFSZ: 25 } as const;

/**
 * Describes the limits for a user. `isWeak`: whether they cannot be enforced on this machine, so that commands are
 * refused. Never rejects.
 */
export async function describeLimits(limits: CommandLimits): Promise<{ text: string; isWeak: boolean }> {
  try {
    await createCgroup(limits, NO_OVERHEAD)?.remove();
    return { text: `limits of each command: ${formatLimits(limits)}`, isWeak: false };
  } catch (error) {
    return { text: `commands are refused: ${(error as Error).message}`, isWeak: true };
  }
}

function formatLimits({ cpuSeconds, memoryBytes, processes, fileBytes }: CommandLimits): string {
  const limits = { cpu_seconds: cpuSeconds, memory_bytes: memoryBytes, processes, file_bytes: fileBytes };
  return Object.entries(limits)
    .flatMap(([key, value]) => (value === undefined ? [] : [`${key} ${value}`]))
    .join(", ");
}

/** The limits of one command while it runs. */
export class AppliedLimits {
  readonly #limits: CommandLimits;
  readonly #cgroup: CommandCgroup | undefined;

  /** Throws `ToolError` if a limit cannot be enforced. The caller calls `end` after the command. */
  constructor(limits: CommandLimits, overhead: Overhead = NO_OVERHEAD, system?: CgroupSystem) {
    this.#limits = limits;
    this.#cgroup = createCgroup(limits, overhead, system);
  }

  /** Files to which the id of the command's first process is written before it starts others. */
  get joinFiles(): readonly string[] {
    return this.#cgroup?.joinFiles ?? [];
  }

  /** Shell code that adds this shell to the cgroup of the command. */
  get joinScript(): string {
    return this.joinFiles.map((file) => `echo 0 >${shellQuote(file)} || exit 126; `).join("");
  }

  /**
   * Shell code that sets the limits of the system for this shell and the programs that it starts. A command that fails
   * because the user has a lower limit leaves that limit.
   */
  get script(): string {
    const { cpuSeconds, fileBytes } = this.#limits;
    const commands: string[] = [];
    if (cpuSeconds !== undefined)
      commands.push(`ulimit -S -t ${cpuSeconds}`, `ulimit -H -t ${cpuSeconds + CPU_GRACE_SECONDS}`);
    if (fileBytes !== undefined) commands.push(`ulimit -f ${Math.ceil(fileBytes / FILE_BLOCK_BYTES)}`);
    return commands.map((command) => `${command} 2>/dev/null; `).join("");
  }

  /** Releases the limits after the command has ended. Returns notes for the model about the limits that were reached. */
  async end(end: LimitedEnd, output: string): Promise<string[]> {
    const events = this.#cgroup?.readEvents() ?? { killedProcesses: 0, refusedProcesses: 0 };
    await this.#cgroup?.remove();
    const { cpuSeconds, memoryBytes, processes, fileBytes } = this.#limits;
    const wasEndedBy = (signal: keyof typeof SIGNAL_NUMBERS) =>
      end.signal === signal || end.code === 128 + SIGNAL_NUMBERS[signal];
    const notes: string[] = [];
    if (events.killedProcesses > 0)
      notes.push(`a process was killed: the command used more than ${memoryBytes} bytes of memory (memory_bytes)`);
    if (events.refusedProcesses > 0)
      notes.push(`the command could not start more than ${processes} processes and threads (processes)`);
    if (cpuSeconds !== undefined) {
      if (wasEndedBy("SIGXCPU") || /CPU time limit exceeded/i.test(output))
        notes.push(`a process was stopped after ${cpuSeconds} s of CPU time (cpu_seconds)`);
      else if (events.killedProcesses === 0 && (wasEndedBy("SIGKILL") || /^.*: line \d+: +\d+ Killed/m.test(output)))
        notes.push(`a process was killed, possibly after ${cpuSeconds} s of CPU time (cpu_seconds)`);
    }
    if (fileBytes !== undefined && (wasEndedBy("SIGXFSZ") || FILE_LIMIT_TEXT.test(output)))
      notes.push(`a file could not become larger than ${fileBytes} bytes (file_bytes)`);
    return notes.map((note) => `[limit reached: ${note}; the user can change tools.bash.limits]`);
  }
}

/** Texts of shells and programs about a file that is too large. */
const FILE_LIMIT_TEXT = /File size limit exceeded|File too large|EFBIG/i;

function createCgroup(
  { memoryBytes, processes }: CommandLimits,
  overhead: Overhead,
  system?: CgroupSystem,
): CommandCgroup | undefined {
  if (memoryBytes === undefined && processes === undefined) return undefined;
  try {
    const totalLimits = {
      memoryBytes: memoryBytes && memoryBytes + overhead.memoryBytes,
      processes: processes && processes + overhead.processes,
    };
    return CommandCgroup.create(totalLimits, system);
  } catch (error) {
    const keys = Object.entries({ memory_bytes: memoryBytes, processes }).filter(([, value]) => value !== undefined);
    const names = keys.map(([key]) => `tools.bash.limits.${key}`).join(" and ");
    throw new ToolError(
      `${names} cannot be enforced: no cgroup can be created (${(error as Error).message}). Commands do not run. Tell the user.`,
      { cause: error },
    );
  }
}
