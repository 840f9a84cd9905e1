import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { it } from "node:test";
import { textStep, type FakeModelServer, type FakeRequest } from "../../helpers/fake-model-server.js";
import { UNTRUSTED_ANSWERS, UNTRUSTED_LISTINGS } from "../../helpers/endless-answers.js";
import {
  runPrompt,
  startModelServer,
  createServerConfig,
  fetchMessages,
  startStreamedRun,
} from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";

/** Maximum memory, in KiB, beyond the server's usual use. Without limits each of these answers would use all memory. */
const MAX_EXTRA_KIB = 400 * 1024;
const MAX_STORED_BYTES = 96 * 1024 * 1024;

const ERROR_PATTERNS: Record<keyof typeof UNTRUSTED_ANSWERS, RegExp> = {
  "endless JSON": /^bad: too_large: an event, or a body without events, of more than 8 MB$/,
  "endless JSON in gzip": /^bad: too_large: an event, or a body without events, of more than 8 MB$/,
  "an event without a line feed": /^bad: too_large: an event, .* of more than 8 MB$/,
  "an event without a line feed in gzip": /^bad: too_large: an event, .* of more than 8 MB$/,
  "an event without an end": /^bad: too_large: an event, .* of more than 8 MB$/,
  "plain text without an end": /^bad: too_large: an event, .* of more than 8 MB$/,
  "an event of millions of values": /^bad: too_large: an event of more than 1,000,000 values$/,
  "an error in gzip": /^bad: 400: x{499}…$/,
  "an endless error": /^bad: 400: no x{496}…$/,
  "endless tokens": /^bad: too_large: an answer of more than 4,000,000 characters$/,
  "endless thoughts": /^bad: too_large: an answer of more than 4,000,000 characters$/,
  "endless arguments": /^bad: too_large: an answer of more than 4,000,000 characters$/,
  "5,000 calls": /^bad: too_large: an answer of more than 128 tool calls$/,
};

it("a provider that sends unlimited data fails its own runs with a reason; the server and another run continue", async (t) => {
  const badModelServer = await startModelServer(t, {
    fallback: (request) => {
      const answerName = Object.keys(UNTRUSTED_ANSWERS).find((name) => readLastContent(request).includes(`<${name}>`));
      return UNTRUSTED_ANSWERS[answerName as keyof typeof UNTRUSTED_ANSWERS];
    },
  });
  const listingServers: [name: string, models: FakeModelServer][] = [];
  for (const [name, listing] of Object.entries(UNTRUSTED_LISTINGS)) {
    const listingServer = await startModelServer(t);
    listingServer.listing = listing;
    listingServers.push([name.replaceAll(/\W/g, "-"), listingServer]);
  }
  const goodModelServer = await startModelServer(t, {
    fallback: { say: [{ text: "begun " }, { gate: "rest" }, { text: "done" }] },
  });
  goodModelServer.enqueue(textStep("warm"));
  const config = createServerConfig(goodModelServer);
  const providers = config["providers"] as object[];
  const commonFields = { driver: "openai", api_key: "key-of-the-bad", max_retries: 0 };
  providers.push({ ...commonFields, name: "bad", base_url: badModelServer.baseUrl, models: ["m1"] });
  for (const [name, listingServer] of listingServers)
    providers.push({ ...commonFields, name, base_url: listingServer.baseUrl });
  const server = await startServer(t, { config });

  await runPrompt(server, { message: "warm up", provider: "lab", model: "m1" });
  const initialKib = await readPeakKib(server);
  const openStream = await startStreamedRun(server, { message: "go on", provider: "lab", model: "m1" });
  await openStream.waitForCharacters("begun ".length);

  for (const [name, errorPattern] of Object.entries(ERROR_PATTERNS)) {
    const { status, error, sessionId } = await runPrompt(server, {
      message: `<${name}>`,
      provider: "bad",
      model: "m1",
    });
    assert.equal(status, 500, name);
    assert.match(error, errorPattern, name);
    // No tool call ran, and none is stored.
    const messages = await fetchMessages(server, sessionId);
    assert.ok(!messages.some(({ role }) => role === "tool"), name);
  }

  const response = await server.fetch("/api/models");
  const { models } = (await response.json()) as { models: { provider: string; model: { id: string } }[] };
  const manyModels = models.filter(({ provider }) => provider === "200-000-models");
  assert.deepEqual([manyModels.length, manyModels.some(({ model }) => model.id === "first")], [10_000, true]);
  assert.deepEqual([...new Set(models.map(({ provider }) => provider))].sort(), ["200-000-models", "bad", "lab"]);
  assert.match(server.stderr, /a list of models of more than 16 MB/);
  assert.match(server.stderr, /a list of models of more than 1,000,000 values/);

  goodModelServer.openGate("rest");
  await openStream.ended;
  assert.equal(openStream.pieces.map(({ text }) => text).join(""), "begun done");
  assert.equal(openStream.latestEvent?.event, "done");

  const extraKib = (await readPeakKib(server)) - initialKib;
  t.diagnostic(`${Math.round(initialKib / 1024)} MiB before, at most ${Math.round(extraKib / 1024)} MiB more`);
  assert.ok(extraKib < MAX_EXTRA_KIB, `${extraKib} KiB more`);
  const { size } = await stat(`${server.home}/sessions.db`).catch(() => ({ size: 0 }));
  assert.ok(size < MAX_STORED_BYTES, `${size} bytes stored`);
  assert.equal((await server.stop()).code, 0);
});

function readLastContent({ body }: FakeRequest): string {
  const { messages = [] } = body as { messages?: { content?: unknown }[] };
  return JSON.stringify(messages.at(-1)?.content ?? "");
}

/** Returns the peak memory of the process in KiB, or 0 if the system does not report the peak. */
async function readPeakKib(server: GantryServer): Promise<number> {
  const status = await readFile(`/proc/${server.pid}/status`, "utf8").catch(() => "");
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0);
}
