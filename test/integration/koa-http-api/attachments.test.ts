import assert from "node:assert/strict";
import { it } from "node:test";
import { startApi } from "../../helpers/http-api.js";

const toBase64 = (bytes: string | Uint8Array) => Buffer.from(bytes).toString("base64");
const pixelBase64 = toBase64(Buffer.from("89504e470d0a1a0aff00", "hex"));
const notes = { filename: "notes.md", media_type: "text/markdown", data: toBase64("# Größe\n") };

it("POST /api/run stores attached images as images and other attachments under their names", async (t) => {
  const { postRun, send, provider } = await startApi(t);
  const attachments = [{ filename: "pixel.png", media_type: "image/png", data: pixelBase64 }, notes];
  const { status, headers } = await postRun({ message: "look", attachments });
  assert.equal(status, 200);
  assert.equal(headers["x-ignored-fields"], undefined);
  const { messages } = (await send(`/api/sessions/${String(headers["x-session-id"])}/messages`)).json() as {
    messages: { content: unknown }[];
  };
  assert.deepEqual(messages[0]?.content, [
    { type: "text", text: "look" },
    { type: "image", media_type: "image/png", data: pixelBase64 },
    { type: "file", ...notes },
  ]);
  assert.equal(provider.requests.length, 1);
});

it("POST /api/run accepts attachments without a message: plain, streamed and in the background", async (t) => {
  const { postRun, send } = await startApi(t);
  for (const options of [{}, { stream: true }, { background: true }]) {
    const { status, headers } = await postRun({ message: "", attachments: [notes], ...options });
    assert.equal(status, "background" in options ? 202 : 200);
    const { messages } = (await send(`/api/sessions/${String(headers["x-session-id"])}/messages`)).json() as {
      messages: { content: unknown }[];
    };
    assert.deepEqual(messages[0]?.content, [{ type: "file", ...notes }]);
  }
  const { status, text } = await postRun({ message: " ", attachments: [] });
  assert.deepEqual([status, JSON.parse(text)], [400, { error: "message is required", code: "message_required" }]);
});

it("POST /api/run names the invalid field of an attachment and starts no run", async (t) => {
  const { postRun, send, provider } = await startApi(t);
  const cases: [unknown, string][] = [
    ["notes.md", "attachments"],
    [null, "attachments"],
    // One attachment over the limit of 256.
    [Array.from({ length: 257 }, () => notes), "attachments"],
    [["notes.md"], "attachments[0]"],
    [[notes, { ...notes, filename: "" }], "attachments[1].filename"],
    [[{ ...notes, filename: "../notes.md" }], "attachments[0].filename"],
    [[{ ...notes, filename: "a\\b" }], "attachments[0].filename"],
    [[{ ...notes, filename: "a\nb" }], "attachments[0].filename"],
    [[{ ...notes, filename: "\ud800" }], "attachments[0].filename"],
    // One character over the limit of 255.
    [[{ ...notes, filename: "a".repeat(256) }], "attachments[0].filename"],
    [[{ ...notes, media_type: "text" }], "attachments[0].media_type"],
    [[{ ...notes, media_type: "text/plain; charset=utf-8" }], "attachments[0].media_type"],
    [[{ ...notes, data: "not base64!!" }], "attachments[0].data"],
    [[{ ...notes, data: "abc" }], "attachments[0].data"],
    [[{ ...notes, data: [1] }], "attachments[0].data"],
  ];
  for (const [attachments, field] of cases) {
    const { status, text } = await postRun({ message: "hi", attachments });
    assert.deepEqual([status, JSON.parse(text)], [400, { error: `invalid field: ${field}`, code: "invalid_field" }]);
  }
  assert.equal(provider.requests.length, 0);
  assert.equal(((await send("/api/sessions")).json() as { total: number }).total, 0);
});

it("POST /api/run rejects an attachment over 20 MiB, attachments over 64 MiB in total, and a body over maxBodyBytes", async (t) => {
  const { postRun } = await startApi(t, { http: { maxBodyBytes: 120_000_000 } });
  const MIB_BYTES = 1024 * 1024;
  const createAttachment = (sizeBytes: number) => ({ ...notes, data: toBase64(new Uint8Array(sizeBytes)) });
  const getStatusAndError = async (attachments: unknown) => {
    const { status, text } = await postRun({ message: "hi", attachments });
    return [status, (JSON.parse(text) as { error: string }).error];
  };
  assert.deepEqual(await getStatusAndError([createAttachment(20 * MIB_BYTES + 1)]), [
    400,
    "failed to load attachments: notes.md: larger than 20 MiB",
  ]);
  const largeAttachment = createAttachment(17 * MIB_BYTES);
  assert.deepEqual(await getStatusAndError([largeAttachment, largeAttachment, largeAttachment, largeAttachment]), [
    400,
    "failed to load attachments: notes.md: more than 64 MiB of files",
  ]);
  const limitedApi = await startApi(t, { http: { maxBodyBytes: 1000 } });
  assert.equal((await limitedApi.postRun({ message: "hi", attachments: [createAttachment(1000)] })).status, 413);
});

it("POST /api/run sets the session's reasoning_effort and rejects an unknown one", async (t) => {
  const { postRun, send } = await startApi(t);
  const { headers } = await postRun({ message: "think", reasoning_effort: "high" });
  const session = (await send(`/api/sessions/${String(headers["x-session-id"])}`)).json() as Record<string, unknown>;
  assert.equal(session["reasoning_effort"], "high");
  const { status, text } = await postRun({ message: "think", reasoning_effort: "most" });
  assert.deepEqual(
    [status, JSON.parse(text)],
    [400, { error: "invalid field: reasoning_effort", code: "invalid_field" }],
  );
});
