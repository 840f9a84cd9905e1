import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, describe, it } from "node:test";
import { Agent, builtinTools, type AgentEvent } from "gantry";
import { AiSdkProvider, WIRES, type WireName } from "gantry/adapters/language-models";
import { textStep, startFakeModelServer, type FakeStep } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { describeEnd, FAULTLESS_ANSWER, RUN_FAULTS, type RunFault } from "../../helpers/run-faults.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

/** Starts a server for one wire and an agent that uses the server. Both serve one run at a time. */
async function startSetup(wire: WireName, timeoutSeconds?: number) {
  const server = await startFakeModelServer({
    fallback: textStep(FAULTLESS_ANSWER),
    toolFreeAnswer: textStep("A title"),
  });
  const model = WIRE_MODELS[wire];
  const provider = new AiSdkProvider({
    ...{ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "key", models: [model] },
    ...(timeoutSeconds === undefined ? {} : { timeout: timeoutSeconds }),
    maxRetries: 2,
  });
  const folder = await makeTempDir();
  const agent = new Agent({ providers: [provider], projectDir: folder.path, tools: builtinTools() });
  const startRun = (...steps: readonly FakeStep[]) => {
    server.enqueue(...steps);
    return agent.run({ message: "Say it.", provider: "lab", model: model.id, reasoningEffort: "low" });
  };
  const close = async (): Promise<void> => {
    await agent.close();
    await server.close();
    await folder.remove();
  };
  return { agent, server, folder, startRun, close };
}

type Setup = Awaited<ReturnType<typeof startSetup>>;

async function assertRun(
  { agent, server, startRun }: Setup,
  { steps, errorKind, idleTimeoutSeconds }: RunFault,
): Promise<void> {
  const run = await startRun(...steps);
  const events: AgentEvent[] = [];
  for await (const event of run) events.push(event);
  const texts = events.flatMap((event) => (event.type === "token" && event.text ? [event.text] : []));
  if (errorKind === undefined) {
    const { output, iterations } = await run.result;
    assert.ok(output.endsWith(FAULTLESS_ANSWER), output);
    assert.equal(output.trim(), texts.join("").trim());
    assert.equal(iterations, 1);
    const retries = events.filter(({ type }) => type === "retry").length;
    // A busy machine can cause additional idle timeouts.
    assert.ok(idleTimeoutSeconds === undefined ? retries === steps.length : retries >= steps.length, String(retries));
    assert.equal(events.at(-1)?.type, "done");
  } else {
    await assert.rejects(run.result, { code: "provider", kind: errorKind });
    assert.equal(events.at(-1)?.type, "error");
  }
  assert.equal(server.queuedCount, 0);
  // The streamed text is stored, and incomplete calls did not run.
  const messages = await agent.sessions.messages(run.sessionId);
  const storedTexts = messages
    .slice(1)
    .flatMap(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")));
  assert.equal(storedTexts.join(""), texts.join(""));
  assert.ok(messages.every(({ parts }) => parts.every(({ type }) => type !== "tool_call")));
  // The server rejects what the real provider would reject.
  assert.deepEqual(server.violations, []);
}

describe("a run with failing model calls", { concurrency: WIRES.length }, () => {
  for (const wire of WIRES) {
    describe(`on the wire ${wire}`, { concurrency: 1 }, () => {
      let setup: Setup;
      before(async () => {
        setup = await startSetup(wire);
      });
      after(() => setup.close());

      for (const fault of RUN_FAULTS) {
        if (fault.exceptions?.[wire] !== undefined) continue;
        it(`${fault.errorKind === undefined ? "continues to its answer" : `ends with the error kind ${fault.errorKind}`} after ${fault.name}`, async () => {
          if (fault.idleTimeoutSeconds === undefined) return assertRun(setup, fault);
          const faultSetup = await startSetup(wire, fault.idleTimeoutSeconds);
          try {
            await assertRun(faultSetup, fault);
          } finally {
            await faultSetup.close();
          }
        });
      }
    });
  }
});

describe("a run whose model calls fail after a tool result", { concurrency: 2 }, () => {
  for (const wire of WIRES) {
    it(`continues with valid requests on the wire ${wire}`, async (t) => {
      const { agent, server, folder, startRun, close } = await startSetup(wire);
      t.after(close);
      const run = await startRun(
        { say: [{ reasoning: "I write." }, { call: { name: "write", arguments: { path: "a.txt", content: "a" } } }] },
        { say: [] },
        { say: [{ reasoning: "Hm." }] },
        { say: [{ reasoning: "So." }, { text: ["It ", "is "] }, { reset: true }] },
        { say: [{ reasoning: "On." }, { call: { name: "write", arguments: { path: "b.txt", content: "b" } } }] },
        { say: [{ text: "It is " }, { error: { message: "Overloaded", type: "overloaded_error" } }] },
      );
      const { output, iterations } = await run.result;
      assert.deepEqual([output, iterations], [`It is ${FAULTLESS_ANSWER}`, 3]);
      assert.deepEqual([await folder.read("a.txt"), await folder.read("b.txt")], ["a", "b"]);
      assert.equal(
        (await (await agent.run({ message: "More.", sessionId: run.sessionId })).result).output,
        FAULTLESS_ANSWER,
      );
      assert.deepEqual(server.violations, []);
    });
  }
});

it("docs/models.md has a table row for each fault of a model call", async () => {
  const text = (await readFile(new URL("../../../docs/models.md", import.meta.url), "utf8")).replaceAll(/ +/g, " ");
  for (const fault of RUN_FAULTS) {
    const row = `| ${fault.name} | ${WIRES.map((wire) => describeEnd(fault, wire)).join(" | ")} |`;
    assert.ok(text.includes(row), row);
  }
});
