import type { Ask } from "../../ports/ask.js";
import type { Instruction } from "../../ports/run.js";
import type { AskResolution } from "../../ports/session-change.js";
import type { Lease, SessionDriver } from "../../ports/session-driver.js";
import type { SessionQuery, StoredRun } from "../../ports/session-queries.js";
import type { Session, Snapshot } from "../../ports/session.js";
import { aHolder, change } from "./records.js";

/** Acquires a lease. Throws if another holder has the lease. */
export async function acquireLease(
  driver: SessionDriver,
  rootId: string,
  holderId: string,
  ttlMs = 60_000,
): Promise<Lease> {
  const lease = await driver.lease(rootId, aHolder(holderId), ttlMs);
  if ("heldBy" in lease) throw new Error(`the lease of ${rootId} is held by ${lease.heldBy.holder.id}`);
  return lease;
}

/** Releases a lease. */
export async function releaseLease(driver: SessionDriver, { rootId, fence }: Pick<Lease, "rootId" | "fence">) {
  return driver.write(rootId, change({ fence, release: true }));
}

/** Answers an ask. Resolves with undefined for an unknown ask. */
export async function answerAsk(driver: SessionDriver, sessionId: string, askId: string, resolution: AskResolution) {
  return (await driver.write(sessionId, change({ sync: true, answer: { askId, ...resolution } }))).answer;
}

export async function sendInstruction(driver: SessionDriver, instruction: Instruction) {
  return driver.write(instruction.sessionId, change({ sync: true, instruct: instruction }));
}

/** Withdraws an instruction. Resolves with true if this call removed the instruction. */
export async function withdrawInstruction(driver: SessionDriver, sessionId: string, id: string): Promise<boolean> {
  const { consumedInstructions } = await driver.write(sessionId, change({ sync: true, consumedInstructions: [id] }));
  return consumedInstructions.includes(id);
}

export async function findNewest(driver: SessionDriver, id: string): Promise<Session | undefined> {
  return (await driver.head(id, { messages: false }))?.newest;
}

export async function findSnapshots(driver: SessionDriver, id: string): Promise<Snapshot[]> {
  return (await driver.head(id, { messages: false }))?.snapshots ?? [];
}

export async function findRun(driver: SessionDriver, id: string): Promise<StoredRun | undefined> {
  return requireAtMostOne(await driver.runs({ id, limit: 9 }));
}

export async function findAsk(driver: SessionDriver, id: string): Promise<Ask | undefined> {
  return requireAtMostOne(await driver.asks({ id, limit: 9 }));
}

function requireAtMostOne<T>(matches: readonly T[]): T | undefined {
  if (matches.length > 1) throw new Error(`${matches.length} records have the same id`);
  return matches[0];
}

export async function listIds(driver: SessionDriver, query: Partial<SessionQuery> = {}): Promise<string[]> {
  const { sessions } = await driver.list({ limit: 100, ...query });
  return sessions.map((session) => session.id);
}

export async function readSeqs(
  driver: SessionDriver,
  id: string,
  page?: Parameters<SessionDriver["messages"]>[1],
): Promise<number[]> {
  return (await driver.messages(id, page)).map((message) => message.seq);
}

/** Returns the seqs of all messages of a chain, including hidden ones. */
export async function readAllSeqs(driver: SessionDriver, id: string): Promise<number[]> {
  const { sessions = [] } = (await driver.dump(id)) ?? {};
  return sessions.flatMap(({ messages }) => messages.map(({ message }) => message.seq)).sort((a, b) => a - b);
}
