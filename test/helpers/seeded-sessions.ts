import { join } from "node:path";
import type { Message, Session } from "gantry";
import { newId } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

/** Fields of a session for a test; the others get default values. */
export interface SeededSession extends Partial<Session> {
  messages?: readonly Partial<Message>[];
}

/** Writes sessions into the store of a gantry home that no server has open. Resolves with their ids. */
export async function seedSessions(home: string, sessions: readonly SeededSession[]): Promise<string[]> {
  const driver = new SqliteDriver({ path: join(home, "sessions.db") });
  await driver.open();
  try {
    const ids: string[] = [];
    // The creation times are one minute apart and lie in the past.
    const startMs = Date.now() - sessions.length * 60_000;
    for (const [index, { messages = [], ...fields }] of sessions.entries()) {
      const id = newId();
      const createdAt = new Date(startMs + index * 60_000).toISOString();
      const session: Session = {
        ...{
          id,
          alias: "",
          title: `Session ${index}`,
          hasFinalTitle: true,
          provider: "lab",
          model: "m1",
          reasoningEffort: "",
        },
        ...{
          mode: "auto",
          permissionGrants: [],
          rewinds: [],
          projectDir: home,
          parentId: "",
          spawnedBy: null,
          chain: { root: id, index: 0 },
        },
        ...{ lastSeq: messages.length, createdAt, updatedAt: createdAt },
        usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0, cost: 0 },
        ...fields,
      };
      const storedMessages = messages.map((message, index): Message => {
        const defaults = { role: "user", parts: [], toolCallId: "", name: "", failed: false, finished: true } as const;
        return { ...defaults, id: newId(), sessionId: id, seq: index + 1, createdAt, ...message } as Message;
      });
      const visibleMessages = storedMessages.map((message) => ({ message, hiddenBy: "" }));
      await driver.load({
        sessions: [{ session, hiddenBy: "", view: [], messages: visibleMessages }],
        snapshots: [],
        runs: [],
        asks: [],
      });
      ids.push(id);
    }
    return ids;
  } finally {
    await driver.close();
  }
}
