import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Agent, defineTool, type Session } from "gantry";
import { callTools, ScriptedProvider, type ScriptedChunk, type ScriptedStep } from "gantry/testing";
import { parseCursor } from "../../../src/watch/cursor.js";
import { pause, waitUntil } from "../../helpers/server-runs.js";
import { createRandom } from "../../helpers/random.js";
import { STORES } from "../../helpers/stores.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { joinTexts, WatchedPage } from "../../helpers/watched-page.js";

/** Number of schedules per store. */
const SCHEDULE_COUNT = Number(process.env["SCHEDULES"] ?? 8);
const FIRST_SEED = Number(process.env["SEED"] ?? 1);

const noopTool = defineTool({
  name: "noop",
  description: "Does nothing.",
  run: () => "done",
});

/** Creates a random answer of reasoning, text chunks and calls. Some answers are interrupted. */
function createAnswer(random: () => number): ScriptedStep {
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
  for (const [name, createStore] of STORES)
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULE_COUNT; seed += 1)
      it(`receives the stored messages (${name}, schedule ${seed})`, async (t) => {
        const random = createRandom(seed);
        const openDriver = await createStore(t);
        const folder = await tempDir(t);
        const script = Array.from({ length: 200 }, () => createAnswer(random));
        const agents = [0, 1].map(
          () =>
            new Agent({
              driver: openDriver(),
              providers: [new ScriptedProvider(script)],
              tools: [noopTool],
              projectDir: folder.path,
              ...(random() < 0.5 ? { compaction: { strategy: "sliding-window", threshold: 0.01 } } : {}),
            }),
        );
        t.after(() => Promise.all(agents.map((agent) => agent.close())));
        const pickAgent = () => agents[Math.floor(random() * agents.length)]!;
        const session: Session = await agents[0]!.sessions.create();

        const page = new WatchedPage();
        const watchController = new AbortController();
        const watchPromise = (async () => {
          while (!watchController.signal.aborted) {
            let remainingEvents = Math.floor(random() * 60);
            const options = random() < 0.5 ? { after: page.cursor } : { lastSeen: page.cursor };
            for await (const event of pickAgent().sessions.watch(session.id, {
              ...options,
              signal: watchController.signal,
            })) {
              page.apply(event);
              if ((remainingEvents -= 1) < 0) break;
              // Time: part of the random schedule.
              if (random() < 0.05) await pause(random() * 30);
            }
          }
        })();

        const snapshots: string[] = [];
        for (let step = 0; step < 12; step += 1) {
          const runController = new AbortController();
          const agent = pickAgent();
          const run = await agent.run({
            message: `prompt ${step}`,
            sessionId: session.id,
            signal: runController.signal,
          });
          // Time: part of the random schedule.
          if (random() < 0.25) setTimeout(() => runController.abort(), random() * 40);
          await run.result.catch(() => undefined);
          const messages = await agent.sessions.messages(session.id);
          if (random() < 0.3)
            snapshots.push(
              (await pickAgent().sessions.revert(session.id, messages[Math.floor(random() * messages.length)]!.id)).id,
            );
          if (random() < 0.3 && snapshots.length > 0) {
            const snapshot = await pickAgent()
              .sessions.restore(session.id, snapshots.pop()!)
              .catch(() => undefined);
            if (snapshot) snapshots.push(snapshot.id);
          }
        }

        const formatSeqs = (messages: readonly { seq: number }[]) => messages.map(({ seq }) => seq).join(" ");
        const expectedMessages = (await agents[0]!.sessions.messages(session.id)).map(joinTexts);
        const rewindCount = (await agents[0]!.sessions.get(session.id))!.rewinds.length;
        // A slow reader can have the final messages before it has received the revert.
        const isPageComplete = () =>
          parseCursor(session.id, page.cursor).rewindCount === rewindCount &&
          isDeepStrictEqual(page.messages, expectedMessages);
        const describePosition = () =>
          `received ${formatSeqs(page.messages)} at ${page.cursor}; stored ${formatSeqs(expectedMessages)}`;
        await waitUntil(isPageComplete).catch((error: unknown) =>
          assert.fail(`${String(error)}: ${describePosition()}`),
        );
        watchController.abort();
        await watchPromise;
        // A new reader receives the same messages.
        const newPage = new WatchedPage();
        for await (const event of agents[1]!.sessions.watch(session.id, { follow: false })) newPage.apply(event);
        assert.deepEqual(newPage.messages, expectedMessages);
        assert.equal(newPage.state?.session.id, session.id);
      });
});

it("a watcher of a deleted session receives one deletion event and ends", async (t) => {
  const agent = new Agent({ providers: [new ScriptedProvider([])], tools: [] });
  t.after(() => agent.close());
  const { id } = await agent.sessions.create();
  const types: string[] = [];
  let hasEnded = false;
  const watchPromise = (async () => {
    for await (const { type } of agent.sessions.watch(id)) {
      types.push(type);
      if (types.length === 1) await agent.sessions.delete(id);
    }
    hasEnded = true;
  })();
  await waitUntil(() => hasEnded);
  await watchPromise;
  assert.deepEqual(types, ["state", "deleted"]);
});
