// The console with an agent from the sources, for those who work on its pages: `node .ci/console.mjs --serve`.
// `--port 8080`, `--folder DIR` (default: a new one), `--model URL` (an OpenAI-compatible server, such as that of
// test/helpers/fake-model-server-cli.ts; default: the offline guide), `--header NAME=VALUE` (what requests must carry).
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { Agent, builtinTools, createLogger } from "gantry";
import { openHttpHost } from "gantry/http";
import { AiSdkProvider } from "gantry/adapters/ai-sdk-provider";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { WebConsoleTransport } from "gantry/adapters/web-console";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "8080" },
    folder: { type: "string", default: mkdtempSync(path.join(tmpdir(), "gantry-console-")) },
    model: { type: "string" },
    header: { type: "string" },
  },
});
const logger = createLogger({ level: "info", write: (line) => void process.stderr.write(`${line}\n`) });
const [name, value = ""] = values.header?.split("=", 2) ?? [];
const requiredHeaders = name === undefined ? {} : { [name]: value };
const provider =
  values.model === undefined
    ? new OfflineProvider()
    : new AiSdkProvider({ name: "lab", driver: "openai", baseUrl: values.model, apiKey: "x" });
const agent = new Agent({
  providers: [provider],
  tools: builtinTools(),
  driver: new SqliteDriver({ path: path.join(values.folder, "sessions.db") }),
  projectDir: values.folder,
  logger,
});
const host = openHttpHost({ port: Number(values.port), requiredHeaders, logger });
const started = [
  await new KoaHttpTransport({}, host, logger).start(agent),
  await new WebConsoleTransport({ requiredHeaders }, host, logger).start(agent),
];
process.stderr.write(`${started[1]?.address}, working in ${values.folder}\n`);
const stop = async () => {
  await Promise.all(started.map((one) => one.stop(AbortSignal.timeout(1_000))));
  await host.close(AbortSignal.timeout(1_000));
  await agent.close();
  process.exit();
};
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => void stop());
