import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, defineTool, type Session } from "gantry";
import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { parseCursor } from "../../../src/watch/cursor.js";
import { pause, until } from "../../helpers/lab.js";
import { randomOf } from "../../helpers/random.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp.js";
import { comparable, WatchedPage } from "../../helpers/watched-page.js";

/** Number of schedules per store. */
const SCHEDULES = Number(process.env["SCHEDULES"] ?? 8);
const FIRST = Number(process.env["SEED"] ?? 1);

const noop = defineTool({
  name: "noop",
  description: "Does nothing.",
  run: () => "done",
});

/** A random answer: reasoning, text in pieces, calls. Sometimes it is interrupted. */
function answer(random: () => number): ScriptedStep {
  return () => {
    const chunks: ScriptedChunk[] = [];
    if (random() < 0.4)
      for (let i = 0; i < 5; i += 1) chunks.push({ type: "reasoning", block: "r", text: `why ${i} ` });
    for (let i = 0; i < random() * 40; i += 1) {
      chunks.push({ type: "text", block: "0", text: `word${i} ${random() < 0.1 ? "🙂" : ""}` });
      if (random() < 0.2) chunks.push(Math.floor(random() * 8));
    }
    if (random() < 0.15) return { chunks, fault: new Error("the line is dead") };
    if (random() < 0.4) return [...chunks, ...callTools(["noop", {}, `call-${random()}`])];
    return { chunks };
  };
}

describe("a watcher under a random schedule", () => {
  for (const [name, make] of STORES)
    for (let seed = FIRST; seed < FIRST + SCHEDULES; seed += 1)
      it(`sees the stored messages (${name}, schedule ${seed})`, async (t) => {
        const random = randomOf(seed);
        const driver = await make(t);
        const folder = await tempDir(t);
        const script = Array.from({ length: 200 }, () => answer(random));
        const agents = [0, 1].map(
          () =>
            new Agent({
              driver: driver(),
              providers: [new ScriptedProvider(script)],
              tools: [noop],
              projectDir: folder.path,
              ...(random() < 0.5 ? { compaction: { strategy: "sliding-window", threshold: 0.01 } } : {}),
            }),
        );
        t.after(() => Promise.all(agents.map((agent) => agent.close())));
        const any = () => agents[Math.floor(random() * agents.length)]!;
        const session: Session = await agents[0]!.sessions.create();

        const page = new WatchedPage();
        const over = new AbortController();
        const watching = (async () => {
          while (!over.signal.aborted) {
            let remainingEvents = Math.floor(random() * 60);
            const options = random() < 0.5 ? { after: page.cursor } : { lastSeen: page.cursor };
            for await (const event of any().sessions.watch(session.id, { ...options, signal: over.signal })) {
              page.apply(event);
              if ((remainingEvents -= 1) < 0) break;
              // Time: part of the random schedule.
              if (random() < 0.05) await pause(random() * 30);
            }
          }
        })();

        const snapshots: string[] = [];
        for (let step = 0; step < 12; step += 1) {
          const cancel = new AbortController();
          const agent = any();
          const run = await agent.run({ message: `prompt ${step}`, sessionId: session.id, signal: cancel.signal });
          // Time: part of the random schedule.
          if (random() < 0.25) setTimeout(() => cancel.abort(), random() * 40);
          await run.result.catch(() => undefined);
          const messages = await agent.sessions.messages(session.id);
          if (random() < 0.3)
            snapshots.push(
              (await any().sessions.revert(session.id, messages[Math.floor(random() * messages.length)]!.id)).id,
            );
          if (random() < 0.3 && snapshots.length > 0) {
            const aside = await any()
              .sessions.restore(session.id, snapshots.pop()!)
              .catch(() => undefined);
            if (aside) snapshots.push(aside.id);
          }
        }

        const seqs = (messages: readonly { seq: number }[]) => messages.map(({ seq }) => seq).join(" ");
        const expectedMessages = (await agents[0]!.sessions.messages(session.id)).map(comparable);
        const cuts = (await agents[0]!.sessions.get(session.id))!.rewinds.length;
        // A slow reader can already have the messages that a revert will leave, and not know the revert yet.
        const seesAll = () =>
          parseCursor(session.id, page.cursor).rewindCount === cuts &&
          isDeepStrictEqual(page.messages, expectedMessages);
        const place = () => `seen ${seqs(page.messages)} at ${page.cursor}; stored ${seqs(expectedMessages)}`;
        await until(seesAll).catch((error: unknown) => assert.fail(`${String(error)}: ${place()}`));
        over.abort();
        await watching;
        // A new reader sees the same.
        const again = new WatchedPage();
        for await (const event of agents[1]!.sessions.watch(session.id, { follow: false })) again.apply(event);
        assert.deepEqual(again.messages, expectedMessages);
        assert.equal(again.state?.session.id, session.id);
      });
});

it("a watcher of a deleted session receives one deletion event and ends", async (t) => {
  const agent = new Agent({ providers: [new ScriptedProvider([])], tools: [] });
  t.after(() => agent.close());
  const { id } = await agent.sessions.create();
  const types: string[] = [];
  let hasEnded = false;
  const watching = (async () => {
    for await (const { type } of agent.sessions.watch(id)) {
      types.push(type);
      if (types.length === 1) await agent.sessions.delete(id);
    }
    hasEnded = true;
  })();
  await until(() => hasEnded);
  await watching;
  assert.deepEqual(types, ["state", "deleted"]);
});
