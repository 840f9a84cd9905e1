/**
 * The fake model server for manual use: `tsx test/helpers/fake-model-server-cli.ts [script.json]` prints its base URL
 * and serves until it is stopped.
 *
 * The script: `{ "port": 0, "steps": [...], "fallback": {...}, "toolFreeAnswer": {...}, "models": [...], "apiKey": "...",
 * "dialect": {...} }`. Gates open with `curl <url>/__open/<name>`.
 */
import { readFileSync } from "node:fs";
import { startFakeModelServer, type FakeModelServerOptions, type FakeStep } from "./fake-model-server.js";

interface Script extends FakeModelServerOptions {
  port?: number;
  steps?: FakeStep[];
}

const file = process.argv[2];
const script: Script = file === undefined ? {} : (JSON.parse(readFileSync(file === "-" ? 0 : file, "utf8")) as Script);
const server = await startFakeModelServer(script);
server.enqueue(...(script.steps ?? []));
process.stdout.write(`${server.baseUrl}\n`);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void server.close());
