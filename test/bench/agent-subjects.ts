// ACP agents over standard input and output that are measured: gantry, the floor agent and any peers.
import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { AcpClient } from "./acp-client.js";
import { resolveBenchFile, type Bench, type Figure, type RowMeasurement } from "./bench.js";
import type { Command } from "./processes.js";
import { mean, median } from "./statistics.js";

/** Time limit of one operation. A slower peer is excluded from the remaining rows. */
const OPERATION_TIMEOUT_MS = 60_000;
/** A slow peer is not measured further after this number of samples of a row with this total time. */
const MIN_PEER_SAMPLING = { samples: 5, ms: 10_000 };

export interface AgentSubject {
  name: string;
  command: Command;
  env: NodeJS.ProcessEnv;
  cwd: string;
  figuresByRow: Map<string, Figure & { cpuSamplesMs: number[] }>;
  /** Why a row is not measured, by row; the key `start` stands for all rows. */
  failuresByRow: Map<string, string>;
}

export interface LiveAgent {
  subject: AgentSubject;
  child: ChildProcess;
  client: AcpClient;
  /** The newest session: some agents support only one. */
  sessionId: string;
}

/** Creates gantry, the floor agent and the peers, in this order. All work in the folder `cwd`. */
export function createSubjects(bench: Bench, cwd = bench.createProject()): AgentSubject[] {
  const home = bench.createHome();
  const env = bench.createEnvironment(home);
  const floorCommand: Command = [bench.options.node, resolveBenchFile("floor-agent.mjs"), bench.modelUrl];
  const createSubject = (name: string, command: Command, subjectEnv = env): AgentSubject => ({
    name,
    command,
    env: subjectEnv,
    cwd,
    figuresByRow: new Map(),
    failuresByRow: new Map(),
  });
  return [
    createSubject("gantry", bench.getGantryCommand("serve", "--acp", "--stdio")),
    createSubject("floor", floorCommand),
    ...bench.options.peers.map(({ name, command }) => {
      const peerEnv = { ...process.env, BENCH_MODEL: bench.modelUrl };
      return createSubject(name, command.replaceAll("{model}", bench.modelUrl), peerEnv);
    }),
  ];
}

export function addSample({ figuresByRow }: AgentSubject, row: string, value: number, cpuMs = NaN): void {
  const figure = figuresByRow.get(row) ?? { samples: [], cpuSamplesMs: [] };
  figuresByRow.set(row, figure);
  figure.samples.push(value);
  if (!Number.isNaN(cpuMs)) figure.cpuSamplesMs.push(cpuMs);
}

/**
 * Runs a measurement. A peer's failure is recorded and excludes the peer; a failure of gantry or the floor is thrown.
 */
export async function attempt(
  { name, failuresByRow }: AgentSubject,
  step: string,
  measure: () => Promise<void>,
): Promise<void> {
  if (failuresByRow.has("start") || failuresByRow.has(step)) return;
  const abortController = new AbortController();
  try {
    const timeout = delay(OPERATION_TIMEOUT_MS, undefined, { signal: abortController.signal }).then(() => {
      throw new Error(`not done after ${OPERATION_TIMEOUT_MS / 1000} s`);
    });
    timeout.catch(() => {});
    await Promise.race([measure(), timeout]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (name === "gantry" || name === "floor") throw new Error(`${name}, ${step}: ${reason}`, { cause: error });
    failuresByRow.set(step, reason);
  } finally {
    abortController.abort();
  }
}

/** Whether a peer has enough samples. Gantry and the floor are measured in every round. */
export function hasEnoughSamples({ name, figuresByRow }: AgentSubject, row: string): boolean {
  const samples = name === "gantry" || name === "floor" ? [] : (figuresByRow.get(row)?.samples ?? []);
  return samples.length >= MIN_PEER_SAMPLING.samples && samples.reduce((sum, ms) => sum + ms, 0) > MIN_PEER_SAMPLING.ms;
}

/** Returns the figure of a subject in a row; undefined without samples. */
export function getFigure(subject: AgentSubject | undefined, row: string): Figure | undefined {
  const figure = subject?.figuresByRow.get(row);
  if (!figure) return undefined;
  const { samples, cpuSamplesMs } = figure;
  return { samples, ...(cpuSamplesMs.length > 0 ? { cpuMs: mean(cpuSamplesMs) } : {}) };
}

/** Returns the figures of the peers in a row, and why peers have none. */
export function getPeerFigures(
  peers: readonly AgentSubject[],
  row: string,
): Required<Pick<RowMeasurement, "peers" | "notes">> {
  return {
    peers: Object.fromEntries(peers.map((peer) => [peer.name, getFigure(peer, row) ?? { samples: [] }])),
    notes: peers.flatMap(({ name, failuresByRow }) => {
      const reason = failuresByRow.get(row) ?? failuresByRow.get("start");
      return reason === undefined ? [] : [`${name}: ${reason}`];
    }),
  };
}

/** Returns the median of a figure; NaN without samples. */
export const getMedian = (figure: Figure | undefined): number => median(figure?.samples ?? []);
