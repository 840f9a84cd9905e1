import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { symlink } from "node:fs/promises";
import path from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { tempDir } from "../../helpers/temp-dir.js";
import { startServer } from "../../helpers/server.js";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const execFileAsync = promisify(execFile);

/** Source of a third-party client that calls `fetch` with generated types. */
const CLIENT_SOURCE = `
import type { paths } from "./api.js";

type Method = "get" | "post" | "patch" | "delete";
type Operation<Path extends keyof paths, Verb extends Method> = NonNullable<paths[Path][Verb]>;
type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type Events<T> = T extends { content: { "text/event-stream": infer Event } } ? Event : never;
type Responses<O> = O extends { responses: infer AllResponses } ? AllResponses : never;
type SuccessContent<O> = Responses<O> extends infer AllResponses ? { [S in keyof AllResponses]: S extends 200 | 202 ? AllResponses[S] : never }[keyof AllResponses] : never;
type BodyInit<O> = O extends { requestBody: infer Body } ? { body: Json<Body> } : { body?: undefined };
type QueryInit<O> = O extends { parameters: { query?: infer Parameters } } ? { query?: Parameters } : { query?: undefined };
type PathInit<O> = O extends { parameters: { path: infer Parameters } } ? { path: Parameters } : { path?: undefined };
type OperationInit<O> = BodyInit<O> & QueryInit<O> & PathInit<O>;

const [, , origin = ""] = process.argv;

async function sendRequest<Path extends keyof paths & string, Verb extends Method>(
  verb: Verb, path: Path, init: OperationInit<Operation<Path, Verb>>,
): Promise<Response> {
  const { body, query, path: pathParameters } = init as { body?: unknown; query?: object; path?: Record<string, string> };
  const url = new URL(path.replace(/\\{(\\w+)\\}/g, (_, name: string) => encodeURIComponent(pathParameters?.[name] ?? "")), origin);
  for (const [name, value] of Object.entries(query ?? {})) url.searchParams.set(name, String(value));
  const response = await fetch(url, { method: verb.toUpperCase(), ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

async function fetchJson<Path extends keyof paths & string, Verb extends Method>(
  verb: Verb, path: Path, init: OperationInit<Operation<Path, Verb>>,
): Promise<Json<SuccessContent<Operation<Path, Verb>>>> {
  return (await (await sendRequest(verb, path, init)).json()) as Json<SuccessContent<Operation<Path, Verb>>>;
}

async function* streamEvents<Path extends keyof paths & string, Verb extends Method>(
  verb: Verb, path: Path, init: OperationInit<Operation<Path, Verb>>,
): AsyncGenerator<Events<SuccessContent<Operation<Path, Verb>>>> {
  const text = await (await sendRequest(verb, path, init)).text();
  for (const block of text.split("\\n\\n")) {
    const match = /^event: (.*)\\n(?:id: (.*)\\n)?data: (.*)$/.exec(block);
    if (match) yield { event: match[1], id: match[2], data: JSON.parse(match[3] ?? "") } as Events<SuccessContent<Operation<Path, Verb>>>;
  }
}

const { status } = await fetchJson("get", "/api/health", {});
const models: string[] = (await fetchJson("get", "/api/models", {})).models.map(({ model }) => model.id);
let answerText = "";
let hasUsage = false;
for await (const event of streamEvents("post", "/api/run", { body: { message: "Hello", stream: true, mode: "auto" } })) {
  if (event.event === "agent" && event.data.type === "token") answerText += event.data.content ?? "";
  if (event.event === "done") hasUsage = event.data.usage.total_tokens > 0;
}
const { sessions, total } = await fetchJson("get", "/api/sessions", { query: { size: 1 } });
const id: string = sessions[0]?.id ?? "";
const updatedSession = await fetchJson("patch", "/api/sessions/{id}", { path: { id }, body: { title: "Mine", reasoning_effort: "low" } });
const { messages } = await fetchJson("get", "/api/sessions/{id}/messages", { path: { id }, query: { limit: 10 } });
const roles = messages.map(({ role }) => role);
const watchedValues: string[] = [];
for await (const event of streamEvents("get", "/api/sessions/{id}/events", { path: { id }, query: { follow: false, after_seq: 1 } })) {
  if (event.event === "state") watchedValues.push(event.data.run?.state ?? "none");
  if (event.event === "message") watchedValues.push(event.data.message.role);
}
const deleteResult = await fetchJson("delete", "/api/sessions/{id}", { path: { id } });
console.log(JSON.stringify({ status, models, hasText: answerText !== "", hasUsage, total, title: updatedSession.title, roles, watchedValues, deleteStatus: deleteResult.status }));

export async function makeInvalidCalls(): Promise<void> {
  // @ts-expect-error there is no such path
  await fetchJson("get", "/api/none", {});
  // @ts-expect-error there is no such method
  await fetchJson("delete", "/api/runs", {});
  // @ts-expect-error the message is required
  await fetchJson("post", "/api/run", { body: {} });
  // @ts-expect-error there is no such mode
  await fetchJson("post", "/api/run", { body: { message: "x", mode: "fast" } });
  // @ts-expect-error the id is required
  await fetchJson("get", "/api/sessions/{id}", {});
  // @ts-expect-error there is no such parameter
  await fetchJson("get", "/api/sessions", { query: { sise: 1 } });
  // @ts-expect-error there is no such field
  (await fetchJson("get", "/api/health", {})).name;
}
`;

describe("a client with types generated by openapi-typescript", () => {
  it("compiles in strict mode and works with a running server", async (t) => {
    const folder = await tempDir(t, {
      "client.ts": CLIENT_SOURCE,
      "package.json": '{ "type": "module" }',
      "tsconfig.json": JSON.stringify({
        compilerOptions: {
          ...{ target: "es2023", lib: ["es2023", "dom", "dom.iterable"], module: "nodenext", types: ["node"] },
          ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true, skipLibCheck: true },
        },
        files: ["client.ts"],
      }),
    });
    await symlink(path.join(ROOT, "node_modules"), folder.at("node_modules"));
    const server = await startServer(t);
    const getBinPath = (name: string) => path.join(ROOT, "node_modules", name);
    const options = { cwd: folder.path };
    // Generates the types from the running server, as a user does.
    const documentUrl = new URL("/api/openapi.json", server.url).href;
    await execFileAsync(
      process.execPath,
      [getBinPath("openapi-typescript/bin/cli.js"), documentUrl, "-o", folder.at("api.ts")],
      options,
    );
    const { stdout: compilerErrors } = await execFileAsync(
      process.execPath,
      [getBinPath("typescript/bin/tsc"), "-p", "."],
      options,
    ).catch((error: { stdout: string }) => error);
    assert.equal(compilerErrors, "");
    const { stdout } = await execFileAsync(process.execPath, ["client.js", server.url], options);
    const { models, ...results } = JSON.parse(stdout) as { models: string[] };
    assert.ok(models.length > 0);
    assert.deepEqual(results, {
      ...{ status: "ok", hasText: true, hasUsage: true, total: 1, title: "Mine", deleteStatus: "deleted" },
      roles: ["user", "assistant"],
      watchedValues: ["finished", "assistant"],
    });
  });
});
