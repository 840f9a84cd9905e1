// Tries everything that a user may do on a server of gantry. Usage: user-actions.mjs URL SESSION RUN ASK FILE. Writes
// the results to FILE as JSON: [action, status, code][]. With `mcp` as the first argument it is an MCP server whose
// tool `act` does this.
import { createHash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { createInterface } from "node:readline";

const JSON_HEADERS = { "content-type": "application/json" };
const UPGRADE_HEADERS = {
  ...{ connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
  "sec-websocket-key": createHash("md5").update("key").digest("base64"),
};
const INITIALIZE_REQUEST = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: 1 } };

/** Harmless actions come first, because a session can be deleted only once. */
const listActions = (sessionId, runId, askId) => [
  ["list sessions", "GET", "/api/sessions"],
  ["read a session", "GET", `/api/sessions/${sessionId}`],
  ["read messages", "GET", `/api/sessions/${sessionId}/messages`],
  ["watch a session", "GET", `/api/sessions/${sessionId}/events?can_answer=true`],
  ["list runs", "GET", "/api/runs"],
  ["list questions", "GET", "/api/asks"],
  ["read a question", "GET", `/api/asks/${askId}`],
  ["answer a question", "POST", `/api/asks/${askId}`, { choice: "allow" }],
  ["grant a permission", "POST", `/api/asks/${askId}`, { choice: "allow_always" }],
  ["change the mode", "PATCH", `/api/sessions/${sessionId}`, { mode: "auto" }],
  ["change the title", "PATCH", `/api/sessions/${sessionId}`, { title: "mine" }],
  ["start a run", "POST", "/api/run", { message: "hello {}" }],
  ["start a run in mode auto", "POST", "/api/run", { message: "hello {}", mode: "auto" }],
  ["start a run with a budget", "POST", "/api/run", { message: "hello {}", budget: { usd: 100 } }],
  ["steer a run", "POST", `/api/sessions/${sessionId}/steer`, { message: "do this" }],
  ["log in to the console", "POST", "/console/login", {}],
  ["open the console", "GET", "/console"],
  ["initialize ACP over HTTP", "POST", "/acp", INITIALIZE_REQUEST],
  ["open ACP over WebSocket", "GET", "/acp", undefined, UPGRADE_HEADERS],
  ["cancel a run", "POST", `/api/runs/${runId}/cancel`],
  ["delete a session", "DELETE", `/api/sessions/${sessionId}`],
];

function sendRequest(url, method, path, body, headers) {
  return new Promise((resolve) => {
    const clientRequest = request(new URL(path, url), {
      method,
      headers: { ...(body && JSON_HEADERS), ...headers },
      agent: false,
    });
    clientRequest.on("error", (error) => resolve([0, error.code]));
    clientRequest.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve([response.statusCode, "upgraded"]);
    });
    clientRequest.on("response", async (response) => {
      if (/event-stream/.test(response.headers["content-type"] ?? "")) {
        response.destroy();
        return resolve([response.statusCode, "stream"]);
      }
      let text = "";
      for await (const chunk of response) text += chunk;
      // ACP has a different error format.
      let code = text.includes("request of a command refused") ? "command_refused" : "";
      try {
        const { code: responseCode, headers } = JSON.parse(text);
        code = responseCode ?? (headers?.Authorization ? "token" : code);
      } catch {
        // The response is an HTML page.
      }
      resolve([response.statusCode, code]);
    });
    clientRequest.end(body && JSON.stringify(body));
  });
}

async function runActions([url, sessionId, runId, askId, file]) {
  const results = [];
  for (const [action, ...call] of listActions(sessionId, runId, askId))
    results.push([action, ...(await sendRequest(url, ...call))]);
  writeFileSync(`${file}.part`, JSON.stringify(results));
  renameSync(`${file}.part`, file);
}

if (process.argv[2] === "mcp") {
  const sendMessage = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize")
      sendMessage({
        id,
        result: {
          ...{ protocolVersion: params.protocolVersion, capabilities: { tools: {} } },
          serverInfo: { name: "actor", version: "1" },
        },
      });
    if (method === "tools/list")
      sendMessage({
        id,
        result: { tools: [{ name: "act", inputSchema: { type: "object", properties: { args: {} } } }] },
      });
    if (method === "tools/call") {
      await runActions(params.arguments.args);
      sendMessage({ id, result: { content: [{ type: "text", text: "done" }] } });
    }
  }
} else await runActions(process.argv.slice(2));
