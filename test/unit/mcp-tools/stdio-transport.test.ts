import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { it } from "node:test";
import { startProcess } from "gantry/plugin";
import { StdioTransport } from "../../../adapters/mcp-tools/stdio-transport.js";

it("StdioTransport sends at most 32 MiB, counted in bytes, to a server that does not read its input", async () => {
  const program = { file: process.execPath, args: ["-e", "setInterval(() => {}, 1e6)"], cwd: tmpdir(), env: {} };
  const transport = new StdioTransport(await startProcess(program), () => true);
  const send = (text: string) => transport.send({ jsonrpc: "2.0", method: "note", params: { text } });
  try {
    await send("€".repeat(11_000_000));
    await assert.rejects(send("€".repeat(1_000_000)), /the server does not read its input/);
  } finally {
    await transport.close();
  }
});
