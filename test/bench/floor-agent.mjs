// Reference for an agent over stdio: the minimal work without a store. The argument is the model's URL.
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";

const url = `${process.argv[2]}/chat/completions`;
const agent = new Agent({ keepAlive: true });
const sessions = new Map();
const textSchema = { type: "string" };
const createTool = (name, properties) => ({
  type: "function",
  function: { name, description: name, parameters: { type: "object", properties, required: Object.keys(properties) } },
});
const TOOLS = [createTool("read", { path: textSchema }), createTool("bash", { command: textSchema })];

const sendFrame = (frame) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
const sendUpdate = (sessionId, content) =>
  sendFrame({ method: "session/update", params: { sessionId, update: content } });

/** Sends one request to the model. Calls `onText` with each text delta. */
function requestModel(messages, onText) {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify({ model: "m1", stream: true, messages, tools: TOOLS });
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const modelRequest = request(url, { method: "POST", agent, headers }, (response) => {
      let incompleteLine = "";
      let text = "";
      const calls = [];
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        const lines = (incompleteLine + piece).split("\n");
        incompleteLine = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("data: {")) continue;
          const delta = JSON.parse(line.slice("data: ".length)).choices[0]?.delta;
          if (delta?.content) {
            text += delta.content;
            onText(delta.content);
          }
          if (delta?.tool_calls) calls.push(...delta.tool_calls);
        }
      });
      response.on("end", () => resolve({ text, calls }));
      response.on("error", reject);
    });
    modelRequest.on("error", reject);
    modelRequest.end(body);
  });
}

function runTool({ name, arguments: argumentsJson }) {
  const { path, command } = JSON.parse(argumentsJson);
  if (name === "read") return readFile(path, "utf8");
  return new Promise((resolve) => execFile("/bin/sh", ["-c", command], (_error, stdout) => resolve(stdout)));
}

async function runPrompt({ sessionId, prompt: [{ text: content }] }) {
  const messages = sessions.get(sessionId);
  messages.push({ role: "user", content });
  for (;;) {
    const { text, calls } = await requestModel(messages, (piece) =>
      sendUpdate(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text: piece } }),
    );
    messages.push({ role: "assistant", content: text, ...(calls.length > 0 ? { tool_calls: calls } : {}) });
    if (calls.length === 0) return { stopReason: "end_turn" };
    for (const { id, function: call } of calls) {
      sendUpdate(sessionId, { sessionUpdate: "tool_call", toolCallId: id, title: call.name, status: "pending" });
      const output = await runTool(call);
      const toolContent = [{ type: "content", content: { type: "text", text: output } }];
      sendUpdate(sessionId, {
        sessionUpdate: "tool_call_update",
        toolCallId: id,
        status: "completed",
        content: toolContent,
      });
      messages.push({ role: "tool", tool_call_id: id, content: output });
    }
  }
}

const METHODS = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, authMethods: [] }),
  "session/new"() {
    const sessionId = `s${sessions.size}`;
    sessions.set(sessionId, [{ role: "system", content: "You are an agent." }]);
    return { sessionId };
  },
  "session/prompt": runPrompt,
};

createInterface({ input: process.stdin })
  .on("line", async (line) => {
    const { id, method, params } = JSON.parse(line);
    try {
      sendFrame({ id, result: await METHODS[method](params) });
    } catch (error) {
      sendFrame({ id, error: { code: -32603, message: error.message } });
    }
  })
  .on("close", () => process.exit());
